"""The page of a release: a map, a table and the promise, made from released numbers only.

Nothing here reads records. Everything drawn comes from the released table, from the manifest and
from a public file of lines, so the page costs no privacy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from hexveil.report.context import read_context

if TYPE_CHECKING:
    from hexveil.report.columns.columns_page import render_columns
    from hexveil.report.distribution.distribution_page import render_distribution
    from hexveil.report.page import render
    from hexveil.report.presence.presence_page import render_presence

__all__ = ["read_context", "render", "render_columns", "render_distribution", "render_presence"]


_HOMES = {
    "render": "hexveil.report.page",
    "render_columns": "hexveil.report.columns.columns_page",
    "render_distribution": "hexveil.report.distribution.distribution_page",
    "render_presence": "hexveil.report.presence.presence_page",
}


def __getattr__(name: str) -> object:
    """Load a name on first use: drawing is slow to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(_HOMES[name]), name)
    return found
