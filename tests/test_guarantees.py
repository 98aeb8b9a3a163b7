"""Pages of guarantees and weaknesses: every line names a test that is there, and runs."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROMISES, WEAKNESSES = (
    ROOT / "docs" / "understand" / name for name in ("guarantees.md", "weaknesses.md")
)
HEAD = {PROMISES: "| promise |", WEAKNESSES: "| weakness |"}


def lines(page):
    """Return the cells of each line of the tables whose last column names tests."""
    found, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        inside = (inside or line.startswith(HEAD[page])) and line.startswith("|")
        if inside and not line.startswith((HEAD[page], "|--")):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


LINES = [(page, *cells) for page in (PROMISES, WEAKNESSES) for cells in lines(page)]


@cache
def functions_of(path):
    """Return the names of the functions of a test file, without importing it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_no_line_is_missed():
    """Both pages have their tables, and every line has its three cells."""
    assert {page for page, *_ in LINES} == {PROMISES, WEAKNESSES}
    assert len(LINES) > 30
    assert [line for line in LINES if len(line) != 4] == []


def is_there(test):
    """Return whether a test, or a file with some test, is there."""
    path, _, function = test.partition("::")
    tests = {name for name in functions_of(path) if name.startswith("test_")}
    return function in tests if function else bool(tests)


@pytest.mark.slow
def test_every_line_is_checked():
    """A promise names its tests; a weakness names what shows it, or why nothing can."""
    named = {line: re.findall(r"`(tests/[^`]+)`", line[-1]) for line in LINES}
    assert [test for tests in named.values() for test in tests if not is_there(test)] == []
    without = [line for line, tests in named.items() if not tests]
    assert [line for line in without if line[0] != WEAKNESSES] == []
    assert [line for line in without if not re.fullmatch(r"none: .{10,}", line[-1])] == []


def test_every_promise_says_where_it_is_kept():
    """The middle column names a file or a folder of the source, or a test that is the rule."""
    places = [re.findall(r"`([^`]+)`", line[2]) for line in LINES if line[0] == PROMISES]
    assert [names for names in places if len(names) != 1] == []
    bases = ROOT / "src" / "hexveil", ROOT
    missing = [place for (place,) in places if not any((base / place).exists() for base in bases)]
    assert missing == []
