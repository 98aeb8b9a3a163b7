"""Interrupts held back while a step runs that must not stop halfway.

Such a step either pays for its result (a draw and its storage) or removes private files. A kill or
a power cut still ends it; both callers have an answer to that.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFERRED = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer interrupts until the body is done; deliver them then."""
    # Python runs signal handlers in the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
    else:
        with _handlers_replaced():
            yield


@contextlib.contextmanager
def _handlers_replaced() -> Iterator[None]:
    """Replace the handlers of signals by one that notes them; put them back and deliver those."""
    waiting: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        for number in _deferrable():
            # Noted first: an interrupt between these two lines restores the handler all the same.
            handlers[number] = signal.getsignal(number)
            signal.signal(number, lambda n, _: waiting.append(n))
        yield
    finally:
        _restore_handlers(list(handlers.items()), waiting)


def _deferrable() -> list[int]:
    """Return the signals to defer, without those that are handled outside of Python."""
    numbers = [getattr(signal, name) for name in _DEFERRED if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not None]


def _restore_handlers(handlers: list[tuple[int, Any]], waiting: list[int]) -> None:
    """Restore signal handlers and deliver each deferred signal once, even if a handler raises."""
    if handlers:
        number, handler = handlers.pop()
        try:
            signal.signal(number, handler)
            if number in waiting:
                signal.raise_signal(number)
        finally:
            _restore_handlers(handlers, waiting)
