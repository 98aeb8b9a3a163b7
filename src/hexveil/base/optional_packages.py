"""Optional packages: the sentence that names the extra of one that is missing, and pandas unused.

pyarrow imports pandas, where it is installed, with the first array that it makes of Python objects
or gives to numpy: about half a second, for types that no command ever handles.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType


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


class _UnusedPandas(MetaPathFinder, Loader):
    """A finder of pandas whose module cannot be loaded."""

    def find_spec(
        self, fullname: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return where pandas is: here."""
        return ModuleSpec(fullname, self) if fullname == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Say that there is none: pyarrow then does without."""
        raise ModuleNotFoundError("a command has no data frames.", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: no module was created."""


_UNUSED_PANDAS = _UnusedPandas()


def skip_pandas() -> None:
    """Let pandas appear missing to this process: for a command alone, which has no data frames."""
    # Not `sys.modules["pandas"] = None`: compiled code takes that for the module.
    sys.meta_path.insert(0, _UNUSED_PANDAS)


def admit_pandas() -> None:
    """Undo `skip_pandas`."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not _UNUSED_PANDAS]
