"""One thread for linear algebra while a plan is made or estimates are smoothed.

Both multiply and invert matrices of a few hundred rows, up to thousands of times. OpenBLAS, in
numpy and in scipy, wakes all its threads for each product, and they wait for work in a busy loop:
on two processors a plan took ten times the CPU time of one thread, and longer. One thread is also
the same on every machine, whatever the number of its processors.

Libraries are asked by the functions that OpenBLAS exports. Where there are none, as with other
libraries of linear algebra, nothing is changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PACKAGES = ("numpy", "scipy")
_NAMES = [
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "")
]
"""How builds of OpenBLAS call the two functions."""
_NOT_LOADED_YET = getattr(os, "RTLD_NOLOAD", 0)
"""Mode in which only a library that is loaded already is opened."""


@dataclass(frozen=True)
class BlasLibrary:
    """The number of threads of one loaded library.

    Attributes
    ----------
    read, write : callable
    """

    read: Callable[[], int]
    write: Callable[[int], None]


class _Limit:
    """Libraries that are limited now, with their numbers of threads from before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before: list[tuple[BlasLibrary, int]] = []

    def enter(self) -> None:
        """Limit the libraries that are loaded and not limited yet."""
        with self._lock:
            self._depth += 1
            limited = [library for library, _ in self._before]
            for library in loaded_libraries():
                if library not in limited:
                    self._before.append((library, library.read()))
                    library.write(1)

    def leave(self) -> None:
        """Restore all libraries once the last caller leaves."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                for library, threads in self._before:
                    library.write(threads)
                self._before.clear()


_LIMIT = _Limit()


@contextlib.contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run linear algebra in one thread, inside a `with` statement or a decorated function.

    Limits may be nested and used by several threads; the outermost restores what was before. A
    library that is loaded later, as scipy's is, is limited by the next limit inside.
    """
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


def loaded_libraries() -> tuple[BlasLibrary, ...]:
    """Return the libraries of OpenBLAS that numpy and scipy have loaded."""
    paths = (path for name in _PACKAGES if name in sys.modules for path in _paths(name))
    return tuple(library for path in paths if (library := _library(path)) is not None)


@cache
def _paths(package: str) -> tuple[str, ...]:
    """Return where the wheel of a package has OpenBLAS."""
    folder = Path(str(sys.modules[package].__file__)).parent
    places = (folder.parent / f"{package}.libs", folder / ".dylibs")
    return tuple(sorted(str(path) for place in places for path in place.glob("*openblas*")))


_OPENED: dict[str, BlasLibrary | None] = {}


def _library(path: str) -> BlasLibrary | None:
    """Return a library if it is loaded, and exports its number of threads."""
    if path not in _OPENED:
        try:
            opened = ctypes.CDLL(path, mode=_NOT_LOADED_YET)
        except OSError:
            return None  # not loaded yet: it is looked for again
        _OPENED[path] = next(
            (
                BlasLibrary(getattr(opened, read), getattr(opened, write))
                for read, write in _NAMES
                if hasattr(opened, read) and hasattr(opened, write)
            ),
            None,
        )
    return _OPENED[path]
