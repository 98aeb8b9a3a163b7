"""How a command ends that did not do its work: failures and interruptions.

A failure is one line for people, or an object for programs (`--json`). Ctrl-C, and the signals by
which schedulers stop a job, end a command alike.

Each raises KeyboardInterrupt in the main thread, so that the command unwinds, gives its locks and
private files back, and exits with 130. A library at work may turn the exception into an error of
its own, or drop it, so each arrival is noted as well.

Python takes a signal between two steps of the main thread, and a step can be one call into a
library that runs for minutes. A second signal ends what a command that still unwinds is doing.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

UNEXPECTED = (
    "an unexpected {} stopped the work; its text is hidden because it could contain values. "
    "HEXVEIL_DEBUG=1 shows it to you alone; SECURITY.md explains how to report it."
)
"""Sentence on an error that is no refusal; its type is put into it."""


@dataclass(frozen=True)
class Failure:
    """Why a command did not do its work.

    Attributes
    ----------
    kind : str
        Name of the error in Python, such as "InputError"; "UsageError" for wrong options,
        "Interrupted", or "UnexpectedError".
    message : str
        One sentence: the expectation, the problem and the remedy.
    exit_code : int
    """

    kind: str
    message: str
    exit_code: int

    def show(self, *, as_json: bool) -> None:
        """Print the failure on stderr."""
        if as_json:
            text = json.dumps({"error": asdict(self)}, ensure_ascii=False)
        else:
            # On one line, although a name that is quoted may have line breaks.
            text = f"hexveil: {' '.join(self.message.split())}"
        print(text, file=sys.stderr)  # noqa: T201  the one place


CODE = 130
"""Exit code of a command that was interrupted."""
STOPPED = Failure("Interrupted", "interrupted.", CODE)
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
TOGETHER = 1.0
"""Seconds within which several signals are one: a service manager may send two at once, and the
second must not break the clearing up after the first."""


class Watch:
    """Notes signals, and between `open` and `close` raises KeyboardInterrupt for them.

    Signals that are ignored from the start stay so: thus `nohup` works. In a thread there are none.
    """

    def __init__(self) -> None:
        self.arrived = False
        """Whether a signal has come."""
        self._closed = True
        self._raised = float("-inf")
        self._previous: dict[int, Any] = {}

    def install(self) -> Watch:
        """Take the signals from here on, and return the watch."""
        # Before the handlers: a signal in between must find its watch.
        _watches.append(self)
        if threading.current_thread() is threading.main_thread():
            # A handler of another language, None here, could not be put back.
            handlers = {number: signal.getsignal(number) for number in SIGNALS}
            unwatched = (signal.SIG_IGN, None)
            self._previous = {
                n: handler for n, handler in handlers.items() if handler not in unwatched
            }
        for number in self._previous:
            signal.signal(number, self.handle)
        return self

    def remove(self) -> None:
        """Put the earlier handlers back."""
        _watches.remove(self)
        for number, handler in self._previous.items():
            # A handler that a library has installed meanwhile stays.
            if signal.getsignal(number) == self.handle:
                signal.signal(number, handler)

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Take a signal."""
        # Noted even where nothing is raised: see stop_if_asked.
        self.arrived = True
        now = time.monotonic()
        if self._closed or now - self._raised < TOGETHER:
            return
        self._raised = now
        raise KeyboardInterrupt

    def open(self) -> None:
        """Raise from here on, also for a signal that has come already."""
        self._closed = False
        if self.arrived:
            raise KeyboardInterrupt

    def close(self) -> None:
        """Raise no more: the command has come to its end."""
        self._closed = True


_watches: list[Watch] = []


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if a signal has come: also one that a library has swallowed."""
    if any(watch.arrived for watch in _watches):
        raise KeyboardInterrupt
