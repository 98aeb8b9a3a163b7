"""Names an engineer can search for: the share of everyday words, and names that are used twice."""

import ast
import functools
import math
import re
from collections import defaultdict

import pytest

from source_trees import SOURCE, parsed

PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *DEFINITIONS)

EVERYDAY = frozenset(
    """
    after again apart asked at away before big both chosen cut done each few first found given held
    here kept known last least left less likely listed lost made more most moved much named near of
    off one other own part parts plain rest said second seen shown so some stuff such taken then
    there thing things told tried until wanted way ways what where which whole wrong
    """.split()  # noqa: SIM905  a list of sixty strings reads worse
)
CLAUSE = re.compile(r"\b(what|of which|in whose|whose)\b", re.IGNORECASE)
ENGINE_CONTRACT = {"counting", "reading", "regrid", "session"}
"""Modules that each engine of hexveil/records has, by the same name."""
ENGINES = {"hexveil/records/duckdb", "hexveil/records/spark"}

MAX_EVERYDAY, MAX_CLAUSES = 3.0, 1.0
"""Per cent of a package's bindings, and of its docstrings."""


@functools.cache
def trees(package):
    """Return the syntax tree of each file of a package, by its path below src."""
    return {
        path.relative_to(SOURCE): parsed(path.read_text(encoding="utf-8"))
        for path in sorted((SOURCE / package).rglob("*.py"))
    }


def bindings(tree):
    """Return the names that a file gives to functions, parameters, variables and classes."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            arguments = (*node.args.args, *node.args.kwonlyargs)
            names += [node.name, *(a.arg for a in arguments if a.arg not in {"self", "cls"})]
        elif isinstance(node, ast.ClassDef):
            names.append(node.name.lower())
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
    return [bare for name in names if (bare := name.strip("_"))]


def summaries(tree):
    """Return the first paragraph of each docstring of a file."""
    texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
    return [text.split("\n\n")[0] for text in texts if text]


def repeated(places):
    """Return the names that have more than one place, with their places."""
    return {name: sorted(at) for name, at in sorted(places.items()) if len(at) > 1}


def class_places(files):
    """Return the places of each class name."""
    places = defaultdict(set)
    for path, tree in files.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(f"{path}:{node.lineno}")
    return places


def module_places(files):
    """Return the places of each module name, those of the engine contract as one."""
    places = defaultdict(set)
    for path in files:
        engine = path.stem in ENGINE_CONTRACT and path.parent.as_posix() in ENGINES
        places[path.stem].add("the engines" if engine else path.as_posix())
    del places["__init__"]
    return places


def percent(part, whole):
    """Return a share in per cent, rounded up to a tenth."""
    return math.ceil(1000 * part / max(whole, 1)) / 10


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_terms_and_not_everyday_words(package):
    """Few functions, parameters, variables and classes have a bare everyday word for a name."""
    names = [(path, name) for path, tree in trees(package).items() for name in bindings(tree)]
    everyday = [f"{path}: {name}" for path, name in names if name in EVERYDAY]
    assert percent(len(everyday), len(names)) <= MAX_EVERYDAY, "\n".join(everyday)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_open_with_a_noun_or_a_verb(package):
    """Few docstrings open with a clause ("what ...", "whose ...") in place of a noun."""
    texts = [(path, text) for path, tree in trees(package).items() for text in summaries(tree)]
    clauses = [f"{path}: {text.splitlines()[0]}" for path, text in texts if CLAUSE.search(text)]
    assert percent(len(clauses), len(texts)) <= MAX_CLAUSES, "\n".join(clauses)


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("places", [class_places, module_places])
def test_a_name_stands_for_one_thing(package, places):
    """No two classes or modules have the same name, unless both engines must have the module."""
    assert repeated(places(trees(package))) == {}
