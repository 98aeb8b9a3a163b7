"""Syntax trees of source files, which several tests of the code look at."""

import ast
from functools import cache


@cache
def parsed(text):
    """Return the tree of a source text, parsed once in a process; nobody changes it."""
    return ast.parse(text)
