"""The page of a release: a map, a table and the promise, made from released numbers only.

Nothing here reads records. Everything drawn comes from the released table, from the manifest and
from a public file of lines, so the page costs no privacy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.report.geography.context import read_context

if TYPE_CHECKING:
    from hexveil.report.page import render

__all__ = ["read_context", "render"]


def __getattr__(name: str) -> object:
    """Load `render` on first use: drawing is slow to import."""
    if name != "render":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hexveil.report.page import render  # noqa: PLC0415  on first use

    globals()[name] = render
    return render
