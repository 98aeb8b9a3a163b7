"""Packages and their versions; the sentence that names the extra of one that is missing.

Names of a package that load on first use, so that no command waits for unused ones.
"""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from hexveil.base.errors import InputError


def require_package(package: str, extra: str = "") -> None:
    """Raise InputError with the line that installs a package if it is missing; import nothing.

    Parameters
    ----------
    package : str
        Name by which it is imported.
    extra : str, optional
        Extra of hexveil that brings it; default the name of the package.
    """
    if not is_installed(package):
        raise _missing(package, extra or package)


def is_installed(package: str) -> bool:
    """Return whether a package can be imported; import nothing."""
    # Looked up and not imported: a release must not wait for a library that it may never use.
    return importlib.util.find_spec(package) is not None


@cache
def installed_version(name: str = "hexveil") -> str:
    """Return the version of an installed distribution, which is read from a file."""
    return importlib.metadata.version(name)


_EXTRAS = dict.fromkeys(("opendp", "sqlalchemy", "duckdb", "scipy", "h3ronpy"), "publish")
"""The extra of a package that whoever reads a release can do without."""


@contextmanager
def extras_named() -> Iterator[None]:
    """Raise InputError with the line that installs it where a package of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise _missing(package, _EXTRAS[package]) from None


def _missing(package: str, extra: str) -> InputError:
    return InputError(f'{package} is not installed: pip install "hexveil[{extra}]".')


def load_on_use(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package with names imported on first use.

    Parameters
    ----------
    package : str
        Its dotted name.
    homes : mapping of str to str
        The module of each name, below the package, and after a colon its name there; or itself.

    Examples
    --------
    >>> load_on_use("hexveil.base", {"scratch_folder": "scratch"})("other")
    Traceback (most recent call last):
    AttributeError: module 'hexveil.base' has no attribute 'other'
    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, own_name = homes[name].partition(":")
        with extras_named():
            module = import_module(f"{package}.{home}")
            value = module if home == name else getattr(module, own_name or name)
        setattr(sys.modules[package], name, value)
        return value

    return load
