"""The command `hexveil`: a file per command; each parses, calls the library and prints."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; 130 and one line if it was interrupted.

    An engine at work may turn an interruption into an error of its own, so it is noted when it
    arrives.
    """
    with _noting_interruption() as seen:
        try:
            from hexveil.cli.app import run  # noqa: PLC0415  loading takes a moment, too

            code, line = run(arguments)
        except KeyboardInterrupt:
            seen.set()
            code, line = INTERRUPTED, None
    if seen.is_set() and code:
        code, line = INTERRUPTED, "interrupted."
    if line is not None:
        print("hexveil: " + " ".join(line.split()), file=sys.stderr)  # noqa: T201  the one place
    return code


@contextmanager
def _noting_interruption() -> Iterator[threading.Event]:
    """Note an interruption from the keyboard; it is raised as always."""
    seen = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        seen.set()
        signal.default_int_handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


__all__ = ["main"]
