"""Progress line on stderr for work of more than two seconds, if stderr is a terminal."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hexveil.base.work_share import ShownWork, shown_work, tell_share

if TYPE_CHECKING:
    from collections.abc import Iterator

READING, COUNTING = "Reading records", "Counting records"
PLANNING, RELEASING, WRITING = "Planning", "Releasing", "Writing the map"
"""Activities of which parts are told, or which are steps of others."""
PATIENCE = 2.0
"""Seconds before the line appears."""
REFRESH = 0.5
"""Seconds between two looks at the completed share."""
_showing = threading.Lock()


@contextmanager
def show_progress(activity: str | ShownWork) -> Iterator[None]:
    """Show the activity while the body runs long; its text must contain nothing private.

    A nested activity shows nothing: two lines would overwrite each other. What is left is
    estimated where the work tells its share (`hexveil.base.work_share`), or ends a step of it.
    """
    planned = ShownWork(activity) if isinstance(activity, str) else activity
    if not sys.stderr.isatty() or not _showing.acquire(blocking=False):
        yield
        tell_share(planned.activity, 1.0)
        return
    finished = threading.Event()
    # A thread of its own, since the engine holds the main one; daemon, so that it never keeps a
    # process alive.
    with shown_work(planned) as work:
        line = threading.Thread(target=_show, args=(work, finished), daemon=True)
        line.start()
        try:
            yield
        finally:
            finished.set()
            line.join()
            _showing.release()


def _show(work: ShownWork, finished: threading.Event) -> None:
    if finished.wait(PATIENCE):
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is shown

    with Console(stderr=True).status(work.text(time.monotonic())) as line:
        while not finished.wait(REFRESH):
            line.update(work.text(time.monotonic()))
