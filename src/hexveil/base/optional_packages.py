"""Optional packages: the sentence that names the extra of one that is missing."""

from __future__ import annotations

import importlib.util

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
        raise InputError(f'{package} is not installed: pip install "hexveil[{extra or package}]".')


def is_installed(package: str) -> bool:
    """Return whether a package can be imported; import nothing."""
    # Looked up and not imported: a release must not wait for a library that it may never use.
    return importlib.util.find_spec(package) is not None
