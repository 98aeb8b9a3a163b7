"""Nothing but a kind of clipping itself asks which kind one is."""

import ast
from pathlib import Path

from hexveil.mechanisms.looks.kinds import ClippingKind, ReleaseAllocation
from hexveil.planning import saved_plans  # noqa: F401  it knows all kinds
from source_trees import parsed

SOURCE = Path(__file__).resolve().parents[2] / "src"


def kinds(*bases):
    """Return all classes below these."""
    below = [kind for base in bases for kind in base.__subclasses__()]
    return [*below, *kinds(*below)] if below else []


def asked(tree, names):
    """Return the names of classes that are asked for, by `isinstance` or in a `match`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            yield from names & {node.cls.id}
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if called and node.func.id == "isinstance":
            yield from names & {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_nothing_asks_for_a_kind_of_clipping():
    """What differs between kinds is a method or an attribute of theirs."""
    homes = {kind.__name__: kind.__module__ for kind in kinds(ClippingKind, ReleaseAllocation)}
    assert len(homes) >= 9
    branches = []
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        names = {name for name, home in homes.items() if home != module}
        branches += [f"{module}: {name}" for name in asked(parsed(path.read_text("utf-8")), names)]
    assert branches == []
