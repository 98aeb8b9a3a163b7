"""The page of troubleshooting quotes the messages that the program has."""

import ast
import re
from functools import cache

import pytest

from source_trees import ROOT

PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
HOLE = "…"


def sections():
    """Return the text below each quoted message of the page."""
    parts = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(re.split(r"\n+", part, maxsplit=1) for part in parts)


def text(node):
    """Return a string of the source with a mark for each name or number that it is given."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        parts = [text(part) if isinstance(part, ast.Constant) else HOLE for part in node.values]
        return "".join(parts)
    return ""


@cache
def messages():
    """Return every string of the package that is no docstring."""
    found = []
    for file in sorted((ROOT / "src" / "hexveil").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [text(node) for node in ast.walk(tree) if id(node) not in docs]
    return "\n".join(filter(None, found))


def is_said(quoted):
    """Return whether a message of the package reads as quoted, whatever stands in its holes."""
    parts = [re.escape(part.strip()) for part in quoted.split(HOLE) if part.strip()]
    return re.search(r"[^\n]*?".join(parts), messages()) is not None


@pytest.mark.parametrize("quoted", sections())
def test_a_quoted_message_is_in_the_source(quoted):
    """Each heading of the page is a message that the package can still give."""
    assert is_said(quoted)


def test_every_message_has_a_cause_and_a_remedy():
    """Below each message stand its cause and what to do."""
    bare = [quoted for quoted, below in sections().items() if len(below.split("\n")) < 2]
    assert bare == []
    for quoted, below in sections().items():
        cause, remedy = below.split("\n")[:2]
        assert cause.startswith("- **Cause**: "), quoted
        assert remedy.startswith("- **What to do**: "), quoted
    assert len(sections()) > 30
