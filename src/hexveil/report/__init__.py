"""The page of a release: a map, a table and the promise, made from released numbers only.

Nothing here reads records. Whatever is drawn comes from the released table, from the manifest and
from a public file of lines, so the page costs no privacy.
"""

from hexveil.report.context import read_context
from hexveil.report.page import render

__all__ = ["read_context", "render"]
