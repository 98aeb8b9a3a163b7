"""The page of a release: a map, a table and the promise, made from released numbers only.

Nothing here reads records. Everything drawn comes from the released table, from the manifest and
from a public file of lines, so the page costs no privacy.
"""

from typing import TYPE_CHECKING

from hexveil.base.optional_packages import load_on_use
from hexveil.report.geography.context import read_context

if TYPE_CHECKING:
    from hexveil.report.page import render

__all__ = ["read_context", "render"]


# Drawing is slow to import.
__getattr__ = load_on_use(__name__, {"render": "page"})
