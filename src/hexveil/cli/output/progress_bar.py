"""A bar on stderr while work takes longer than two seconds, if stderr is a terminal."""

from __future__ import annotations

import atexit
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hexveil.records import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None]]:
    """Yield a callback for the completed share of the work, from 0 to 1.

    `title` names the work, and nothing private.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  only loaded where it is shown
    from rich.progress import Progress  # noqa: PLC0415

    began = time.monotonic()
    with_bar = Progress(console=Console(stderr=True), transient=True)
    task = with_bar.add_task(title, total=1.0)

    def tell(share: float) -> None:
        # Short work shows no bar.
        if time.monotonic() - began >= progress.PATIENCE:
            with_bar.start()
        with_bar.update(task, completed=share)

    # Also where the process is ended while a library holds the main thread: it hides the cursor.
    atexit.register(with_bar.stop)
    try:
        yield tell
    finally:
        atexit.unregister(with_bar.stop)
        with_bar.stop()
