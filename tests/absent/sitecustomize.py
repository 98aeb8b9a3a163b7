"""Packages hidden from Python, in child processes too: HEXVEIL_ABSENT="pandas polars".

Used with this folder on PYTHONPATH. Python imports a module of this name as it starts.
"""

import os
import sys
from importlib.machinery import PathFinder

ABSENT = tuple(os.environ.get("HEXVEIL_ABSENT", "").split())


class Finder(PathFinder):
    """The usual finder of modules, to which the hidden packages are not installed."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """Return where a module is; None for a hidden package and all that it holds."""
        if any(f"{fullname}.".startswith(f"{name}.") for name in ABSENT):
            return None
        return super().find_spec(fullname, path, target)


sys.meta_path = [Finder if finder is PathFinder else finder for finder in sys.meta_path]
