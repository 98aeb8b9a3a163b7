"""Names of a package that load on first use, so that no command waits for unused ones."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def load_on_use(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package with names imported on first use.

    Parameters
    ----------
    package : str
        Its dotted name.
    homes : mapping of str to str
        The module of each name, below the package.

    Examples
    --------
    >>> load_on_use("hexveil.base", {"scratch_folder": "scratch"})("other")
    Traceback (most recent call last):
    AttributeError: module 'hexveil.base' has no attribute 'other'
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
