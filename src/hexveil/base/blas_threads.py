"""One thread for linear algebra while a plan is made or estimates are smoothed.

Both multiply and invert matrices of a few hundred rows, up to thousands of times. OpenBLAS, in
numpy and in scipy, wakes all its threads for each product, and they wait for work in a busy loop:
on two processors a plan took ten times the CPU time of one thread, and longer. One thread is also
the same on every machine, whatever the number of its processors.

Libraries are asked by the functions that OpenBLAS exports. Where there are none, as with other
libraries of linear algebra, nothing is changed. `threadpoolctl` does not fit: it looks for
libraries at each limit (2 ms).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PACKAGES = ("numpy", "scipy")
_NOT_LOADED_YET = getattr(os, "RTLD_NOLOAD", 0)
"""Mode in which only a library that is loaded already is opened."""


class BlasLibrary(NamedTuple):
    """The number of threads of one loaded library."""

    read: Callable[[], int]
    write: Callable[[int], object]


@contextlib.contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run linear algebra in one thread, inside a `with` statement or a decorated function.

    Limits may be nested. Where those of two threads overlap, one thread may remain afterwards.
    """
    with contextlib.ExitStack() as restored:
        for library in loaded_libraries():
            restored.callback(library.write, library.read())
            library.write(1)
        yield


def loaded_libraries() -> list[BlasLibrary]:
    """Return the libraries of OpenBLAS that numpy and scipy have loaded."""
    libraries = []
    for path in (path for name in _PACKAGES if name in sys.modules for path in _paths(name)):
        # Not loaded yet, so that it is looked for again; or without these functions.
        with contextlib.suppress(OSError, AttributeError):
            libraries.append(_library(path))
    return libraries


@cache
def _paths(package: str) -> tuple[str, ...]:
    """Return where the wheel of a package has OpenBLAS."""
    folder = Path(str(sys.modules[package].__file__)).parent
    places = (folder.parent / f"{package}.libs", folder / ".dylibs")
    return tuple(sorted(str(path) for place in places for path in place.glob("*openblas*")))


@cache
def _library(path: str) -> BlasLibrary:
    """Return a library if it is loaded, and exports its number of threads."""
    opened = ctypes.CDLL(path, mode=_NOT_LOADED_YET)
    name = "scipy_openblas_{}_num_threads" + ("64_" if "64_" in Path(path).name else "")
    return BlasLibrary(getattr(opened, name.format("get")), getattr(opened, name.format("set")))
