"""Lines of code that each library takes for the comparison's job, counted in its script."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).resolve().parent
CUT = ("cut", "some_of_each")
"""Functions of common.py that choose the records of each user by hand."""
LEFT = {
    "hexveil": ("", "what counts as public; the bounds"),
    "diffprivlib": (
        "cut by hand",
        "choosing the records; dividing ε by their number; the bounds; a sum of all queries",
    ),
    "opendp": (  # its script has both ways of the table
        "cut by hand for public lengths",
        "declaring the data's margins correctly; whole numbers; the bounds",
    ),
    "pipeline-dp": ("", "both contribution limits; the cells; the bounds"),
    "tmlt.analytics": ("", "both contribution limits; the cells; the bounds; starting Spark"),
}
"""Of each library, whether its script needs records cut by hand, and what it leaves to its user."""


def code_lines(library: str) -> int:
    """Return the lines of a library's functions, without blank lines, comments and docstrings."""
    file = FOLDER / f"by_{library.replace('-', '_').replace('.', '_')}.py"
    return sum(_lengths(file, lambda name: name != "main"))


def cut_lines() -> int:
    """Return the lines that choose records of each user by hand."""
    return sum(_lengths(FOLDER / "common.py", lambda name: name in CUT))


def _lengths(file: Path, wanted: Callable[[str], bool]) -> Iterator[int]:
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        if not wanted(function.name):
            continue
        lines = text.splitlines()[function.lineno - 1 : function.end_lineno]
        first = function.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        skipped = range(first.lineno, (first.end_lineno or 0) + 1) if documented else range(0)
        yield sum(
            bool(line.strip()) and not line.strip().startswith("#") and number not in skipped
            for number, line in enumerate(lines, function.lineno)
        )


def table() -> Iterator[str]:
    """Yield the lines of the page's table."""
    yield "| | lines | and by hand | left to you |"
    yield "|---|---|---|---|"
    for library, (cut, left) in LEFT.items():
        by_hand = f"{cut_lines()} lines: {cut}" if cut else ""
        yield f"| {library} | {code_lines(library)} | {by_hand} | {left} |"
