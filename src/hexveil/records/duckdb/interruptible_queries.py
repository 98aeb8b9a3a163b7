"""Engine work that an interruption ends.

Python takes signals in its main thread, between steps of its own, and a query can be one step of
minutes. So the engine works in another thread while the main thread waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from hexveil.base.work_share import QUERY, tell_share

T = TypeVar("T")
_SHOWN_AGAIN = 0.5
"""Seconds between two looks at the share of a query."""
_AGAIN = 0.05
"""Seconds between two calls to end the work: one that comes before a query begins is lost."""


def run(
    work: Callable[[], T],
    interrupt: Callable[[], object],
    percent_done: Callable[[], float] | None = None,
) -> T:
    """Run work of the engine and return its result; tell its share.

    `percent_done` is below 0 where the engine does not know it. If the run is interrupted,
    `interrupt` is called until the work ends; then KeyboardInterrupt is raised. Only the main
    thread is ever interrupted; from another thread the work just runs.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    with ThreadPoolExecutor(1, "hexveil-engine") as worker:
        working = worker.submit(work)
        try:
            # Waiting for a future is interruptible, unlike a call into the engine.
            while percent_done is not None and not wait([working], timeout=_SHOWN_AGAIN).done:
                tell_share(QUERY, max(percent_done(), 0.0) / 100.0)
            return working.result()
        except KeyboardInterrupt:
            while not wait([working], timeout=_AGAIN).done:
                interrupt()
            raise
