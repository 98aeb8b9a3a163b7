"""Sums are named by few modules, and what these make of them leaves through the noise door alone.

This is a look at the code. A look at runs of every kind of release (who touches sums, and whether
anything passes the door but noise) is in test_kinds_at_the_door.py.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import hexveil as hv
from source_trees import parsed

SOURCE = Path(hv.__file__).resolve().parent
RESEARCH = SOURCE.with_name("hexveil_research")
READERS = {"publishing/pipeline.py"}
"""Modules that hand the sums of records to the stages of a release."""
STUDIES = {
    "simulation/own_cells.py", "hexveil_research/pictures/releases.py",
    "hexveil_research/pictures/car_map.py",
    "hexveil_research/mechanisms/foresight.py",
}  # fmt: skip
"""Studies of records that are one's own, or invented; nothing of them is a release."""
RELEASERS = {"publishing/pipeline.py"}
"""The module that releases."""
KNOCKS = RELEASERS | {"hexveil_research/audit/run.py"}
"""Modules that call the noise door, or make the source that does."""
SAMPLERS = {"_measurement", "_gaussian", "_selection"}
DOOR = {"add_laplace", "add_gaussian", "noisy_max"}


@cache
def sources():
    """Return every module outside records/: its path inside the package, and its tree."""
    found = []
    for path in sorted([*SOURCE.rglob("*.py"), *RESEARCH.rglob("*.py")]):
        name = path.relative_to(SOURCE if path.is_relative_to(SOURCE) else SOURCE.parent).as_posix()
        if not name.startswith("records/"):
            found.append((name, parsed(path.read_text("utf-8"))))
    return found


def sees_sums(tree):
    """Return whether a module names sums: as an attribute, an import or through a data set."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (node.attr == "sums" and id(node) in called):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            whole = node.attr == "map_cells" and of in ("dataset", "data", "ds", "records")
            if whole or node.attr in ("sums", "total_sq"):
                return True
        records = isinstance(node, ast.ImportFrom) and "hexveil.records" in (node.module or "")
        if records and any("Sums" in one.name for one in node.names):
            return True
        if isinstance(node, ast.Constant) and node.value in ("sums", "total_sq"):
            return True
    return False


def knocks(tree):
    """Return whether a module has a function of the door; a noise source that it is given has not.

    A constant of the door's module, as its bound on tails, is no function of it.
    """
    return any(map(_is_knock, ast.walk(tree)))


def _is_knock(node):
    if isinstance(node, ast.Attribute):
        return node.attr in DOOR and isinstance(node.value, ast.Name) and node.value.id == "noise"
    if not isinstance(node, ast.ImportFrom) or node.module != "hexveil.mechanisms.noise":
        return False
    return not all(one.name.isupper() for one in node.names)


def test_the_modules_that_name_sums_are_known():
    """The sums of records are handed to stages in one place; a new reader fails."""
    assert {name for name, tree in sources() if sees_sums(tree)} == READERS | STUDIES


def test_publishing_makes_no_noise_but_the_vetted_one():
    """No module of publishing imports simulated noise; only releasers make the vetted source."""
    makers = set()
    for name, tree in sources():
        if not name.startswith(("publishing/", "ledger/")):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert "simulated" not in (node.module or ""), name
                assert not any("Simulated" in one.name for one in node.names), name
            if isinstance(node, ast.Name) and node.id == "VettedNoise":
                makers.add(name)
    assert makers == RELEASERS


def test_the_modules_that_call_the_door_are_known():
    """The door is called where losses are booked before, and by the audit; a new caller fails."""
    assert {name for name, tree in sources() if knocks(tree)} == KNOCKS


def test_the_door_has_three_functions():
    """Nothing else of the noise module can be called, and its samplers are called in these."""
    tree = ast.parse((SOURCE / "mechanisms/noise.py").read_text("utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in functions if not name.startswith("_")} == DOOR
    calls = {
        name
        for name, node in functions.items()
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and inner.id in SAMPLERS
    }
    assert calls == DOOR


@pytest.mark.parametrize(
    "text",
    [
        "x = dataset.sums.total",
        "from hexveil.records import Sums",
        "def f(dataset):\n    return dataset.map_cells(f)",
        "getattr(dataset, 'sums')",
        "squares = private.total_sq",
    ],
)
def test_a_module_that_names_sums_is_found(text):
    """The look at the code sees each way, so that a green table means something."""
    assert sees_sums(ast.parse(text))
