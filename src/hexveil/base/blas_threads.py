"""One thread for linear algebra while a plan is made or estimates are smoothed.

Both multiply and invert matrices of a few hundred rows, up to thousands of times. OpenBLAS, in
numpy and in scipy, wakes all its threads for each product, and they wait for work in a busy loop:
on two processors a plan took ten times the CPU time of one thread, and longer. One thread is also
the same on every machine, whatever the number of its processors.
"""

import contextlib
import sys
from collections.abc import Iterator
from functools import cache

from threadpoolctl import ThreadpoolController


@contextlib.contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run linear algebra in one thread, inside a `with` statement or a decorated function.

    Limits may be nested. Where those of two threads overlap, one thread may remain afterwards.
    """
    # SciPy's module loads a library beside that of numpy.
    with _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


@cache
def _controller(is_second_loaded: bool) -> ThreadpoolController:  # noqa: ARG001  the key
    """Return the loaded libraries, found once: looking for them takes 2 ms."""
    return ThreadpoolController()
