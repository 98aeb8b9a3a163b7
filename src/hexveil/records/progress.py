"""Progress line on stderr for work of more than two seconds, if stderr is a terminal."""

import atexit
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hexveil.base.work_share import ShownWork, share_of_work, shown_work

PATIENCE = 2.0
"""Seconds before the line appears."""
REFRESH = 0.5
"""Seconds between two looks at the completed share."""
_showing = threading.Lock()


@contextmanager
def show_progress(activity: str | ShownWork, *steps: str) -> Iterator[None]:
    """Show the activity while the body runs long; its text must contain nothing private.

    Of `steps` the work tells shares that are those of the activity itself.

    A nested activity shows nothing: two lines would overwrite each other. What is left is
    estimated where the work tells its share (`hexveil.base.work_share`), or ends a step of it.
    """
    planned = ShownWork(activity) if isinstance(activity, str) else activity
    if not sys.stderr.isatty() or not _showing.acquire(blocking=False):
        with share_of_work(planned.activity, 0.0, 1.0, *steps):
            yield
        return
    finished = threading.Event()
    # A thread of its own, since the engine holds the main one; daemon, so that it never keeps a
    # process alive.
    with shown_work(planned) as work:
        line = threading.Thread(target=_show, args=(work, finished), daemon=True)
        line.start()

        # Also where the process is ended while a library holds the main thread: the line hides the
        # cursor.
        def close() -> None:
            finished.set()
            line.join(REFRESH)

        atexit.register(close)
        try:
            with share_of_work(planned.activity, 0.0, 1.0, *steps):
                yield
        finally:
            finished.set()
            atexit.unregister(close)
            line.join()
            _showing.release()


def _show(work: ShownWork, finished: threading.Event) -> None:
    if finished.wait(PATIENCE):
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is shown

    with Console(stderr=True).status(work.text(time.monotonic())) as line:
        while not finished.wait(REFRESH):
            line.update(work.text(time.monotonic()))
