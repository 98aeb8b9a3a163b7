"""A line on stderr while work takes longer than two seconds, if stderr is a terminal."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 2.0
"""Seconds before anything is shown."""
_showing = threading.Lock()


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Show `what` while the body runs long; it must name the work and nothing private.

    Work within work shows nothing of its own: two lines would write over each other.
    """
    if not sys.stderr.isatty() or not _showing.acquire(blocking=False):
        yield
        return
    done = threading.Event()
    line = threading.Thread(target=_show, args=(what, done), daemon=True)
    line.start()
    try:
        yield
    finally:
        done.set()
        line.join()
        _showing.release()


def _show(what: str, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is shown

    with Console(stderr=True).status(f"{what} ..."):
        done.wait()
