"""Pages name tests that are there: every guarantee, weakness and erratum at least one."""

import ast
import re
from functools import cache

from source_trees import ROOT

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


def test_every_test_that_a_page_names_is_there():
    """Pages and figures of the docs name test files, and functions of them."""
    files = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.csv")]
    texts = {file.name: file.read_text(encoding="utf-8") for file in files}
    named = {name: re.findall(r"tests/[\w/]+\.py(?:::\w+)?", text) for name, text in texts.items()}
    assert sum(map(len, named.values())) > 300
    assert [
        (page, one) for page, tests in named.items() for one in tests if not is_there(one)
    ] == []


def test_every_line_is_checked():
    """A promise names its tests; a weakness names what shows it, or why nothing can."""
    without = [line for line in LINES if "`tests/" not in line[-1]]
    assert [line for line in without if line[0] != WEAKNESSES] == []
    assert [line for line in without if not re.fullmatch(r"none: .{10,}", line[-1])] == []


def test_every_erratum_names_a_test():
    """The page has the fifteen errata that are numbered, and further ones."""
    text = (ROOT / "docs" / "understand" / "errata.md").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=\*\*)|^#.*$", text, flags=re.MULTILINE)
    errata = [block for block in blocks if re.match(r"\*\*(\d+\. )?.*?\.\*\* ", block)]
    assert {str(n) for n in range(1, 16)} <= set(re.findall(r"^\*\*(\d+)\. ", text, re.MULTILINE))
    assert len(errata) == 27
    assert [block.splitlines()[0] for block in errata if "`tests/" not in block] == []


def test_every_promise_says_where_it_is_kept():
    """The middle column names a file or a folder of the source, or a test that is the rule."""
    places = [re.findall(r"`([^`]+)`", line[2]) for line in LINES if line[0] == PROMISES]
    assert [names for names in places if len(names) != 1] == []
    bases = ROOT / "src" / "hexveil", ROOT
    missing = [place for (place,) in places if not any((base / place).exists() for base in bases)]
    assert missing == []
