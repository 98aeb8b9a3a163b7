"""The checkout, and syntax trees of its sources, which several tests look at."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS, SOURCE = ROOT / "docs", ROOT / "src"


@cache
def parsed(text):
    """Return the tree of a source text, parsed once in a process; nobody changes it."""
    return ast.parse(text)
