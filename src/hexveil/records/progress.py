"""Progress line on stderr for work of more than two seconds, if stderr is a terminal."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 2.0
"""Seconds before the line appears."""
_showing = threading.Lock()


@contextmanager
def show_progress(activity: str) -> Iterator[None]:
    """Show the activity while the body runs long; its text must contain nothing private.

    A nested activity shows nothing: two lines would overwrite each other.
    """
    if not sys.stderr.isatty() or not _showing.acquire(blocking=False):
        yield
        return
    finished = threading.Event()
    # A thread of its own, since the engine holds the main one; daemon, so that it never keeps a
    # process alive.
    line = threading.Thread(target=_show, args=(activity, finished), daemon=True)
    line.start()
    try:
        yield
    finally:
        finished.set()
        line.join()
        _showing.release()


def _show(activity: str, finished: threading.Event) -> None:
    if finished.wait(PATIENCE):
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is shown

    with Console(stderr=True).status(f"{activity} ..."):
        finished.wait()
