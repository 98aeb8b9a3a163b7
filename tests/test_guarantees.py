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


def name(line):
    """Return how a line begins, for the list of tests."""
    return re.sub(r"\W+", " ", f"{line[0].stem} {line[1]}")[:50]


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


@pytest.mark.parametrize("line", LINES, ids=name)
def test_every_line_is_checked(line):
    """A promise names its tests; a weakness names what shows it, or why nothing can."""
    page, *_, checked = line
    named = re.findall(r"`(tests/[^`]+)`", checked)
    for test in named:
        path, _, function = test.partition("::")
        tests = {name for name in functions_of(path) if name.startswith("test_")}
        assert function in tests if function else tests, test
    if not named:
        assert page == WEAKNESSES
        assert re.fullmatch(r"none: .{10,}", checked)


@pytest.mark.parametrize("line", [one for one in LINES if one[0] == PROMISES], ids=name)
def test_every_promise_says_where_it_is_kept(line):
    """The middle column names a file or a folder of the source, or a test that is the rule."""
    _, _, where, _ = line
    (place,) = re.findall(r"`([^`]+)`", where)
    assert (ROOT / "src" / "hexveil" / place).exists() or (ROOT / place).exists()
