"""Docstrings describe parameters and attributes that exist: a renamed one takes its text along."""

import ast
import re

from source_trees import SOURCE, parsed

SECTION = re.compile(r"(?ms)^(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)")
ENTRY = re.compile(r"^(\w+(?:, \w+)*)(?: : .*)?$", re.MULTILINE)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def arguments(function):
    """Return the names of a function's parameters."""
    given = function.args
    extra = [argument for argument in (given.vararg, given.kwarg) if argument]
    return {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, *extra)}


def members(node):
    """Return the names of a class's attributes and methods, and of its methods' parameters."""
    names = set()
    for inner in ast.walk(node):
        if isinstance(inner, FUNCTIONS):
            names |= {inner.name} | arguments(inner)
        elif isinstance(inner, ast.Attribute):
            names.add(inner.attr)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            names.add(inner.id)
    return names


def stale_names(tree):
    """Return what docstrings of a file describe and its functions and classes do not have."""
    stale = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            continue
        present = members(node) if isinstance(node, ast.ClassDef) else arguments(node)
        for section in SECTION.findall(ast.get_docstring(node) or ""):
            described = [name for entry in ENTRY.findall(section) for name in entry.split(", ")]
            stale += [f"{node.name}: {name}" for name in described if name not in present]
    return stale


def test_what_is_described_is_there():
    """No section of parameters or attributes has an entry that its function or class lacks."""
    texts = {path.relative_to(SOURCE): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    stale = [f"{path}: {name}" for path in texts for name in stale_names(parsed(texts[path]))]
    assert stale == [], "\n".join(stale)
