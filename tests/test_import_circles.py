"""No module needs itself: imports close no circle, not even those for type checkers alone."""

import ast

import pytest

from source_trees import SOURCE, parsed


def module_of(path):
    """Return the dotted name of a source file, given below src."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree, modules):
    """Return those of the modules that a file imports: at its top, in functions, for types."""
    targets = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= names & modules
            if names - modules:  # something that the module itself, or the package, defines
                targets.add(node.module)
    return targets & modules


def graph_of(texts):
    """Return the modules that each module imports, from the text of each."""
    modules = set(texts)
    return {name: imported(parsed(text), modules) for name, text in texts.items()}


def reached(graph, start):
    """Return the modules that a module imports, or that these import, and so on."""
    seen, waiting = set(), [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def circles(graph):
    """Return the groups of modules that need one another, each sorted."""
    reach = {module: reached(graph, module) for module in graph}
    groups = {
        tuple(sorted(other for other in reach[module] if module in reach[other]))
        for module in graph
        if module in reach[module]
    }
    return sorted(groups)


@pytest.mark.slow
def test_imports_close_no_circle():
    """No module is imported by what it imports."""
    files = {path.relative_to(SOURCE): path for path in SOURCE.rglob("*.py")}
    texts = {module_of(name): path.read_text(encoding="utf-8") for name, path in files.items()}
    assert not (found := circles(graph_of(texts))), "\n".join(" <-> ".join(g) for g in found)


def test_every_kind_of_import_closes_a_circle():
    """Imports in functions and for type checkers count; a package's own names are its own."""
    texts = {
        "p": "from p.a import x", "p.a": "def f():\n    from p import b",
        "p.b": "if TYPE_CHECKING:\n    import p.c", "p.c": "from p.a import x",
        "p.d": "from p import a", "p.e": "from p.f import e", "p.f": "from p.e import f",
    }  # fmt: skip
    assert circles(graph_of(texts)) == [("p.a", "p.b", "p.c"), ("p.e", "p.f")]
    assert circles(graph_of({"p": "from p.a import x", "p.a": "from p import x"})) == [("p", "p.a")]
