"""Tests go through public doors: what lies behind them can be rebuilt without touching a test.

Public are the names of `hexveil.__all__`, those of the modules in `DOORS`, and the files that are
released. Mechanisms, accounting, attacks and the oracle of records are the core, which is also
tested from within; what else looks inside has a reason in `CLOSED_FORMS`.
"""

import ast
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from source_trees import DOCS, parsed

TESTS = Path(__file__).resolve().parent
DOORS = {
    "hexveil": "reference/python.md: `hv.read(",
    "hexveil.evaluation": "reference/python.md: `hv.evaluation.evaluate(",
    "hexveil.mechanisms": "reference/python.md: `hv.mechanisms.Levy(",
    "hexveil.theory": "reference/python.md: `hv.theory`",
    "hexveil.cli": "reference/command.md: `hexveil COMMAND --help`",
    "hexveil.learning.remembering": "understand/memory.md: from hexveil.learning.remembering",
}
"""Modules that others may import, each with the page that documents it and words of that page."""
CORE = ("accounting/", "attack/", "mechanisms/", "records/oracle.py")
CLOSED_FORMS = {
    "base/": "rounding, atomic files, interrupts: what all rooms rest on",
    "learning/": "likelihoods and forecasts against brute force",
    "model/": "pairs in memory and elsewhere, by brute force",
    "planning/test_distributed_search.py": "what searches ask of blocks, and give up for it",
    "planning/test_optimizers.py": "searches of plans, against brute force",
    "records/duckdb/test_spilling.py": "blocks on disk, which small data reach by lower limits",
    "smoothing/": "likelihoods and posteriors against quadrature",
    "test_imports.py": "the rule of rooms names the modules it judges",
}
"""Files and folders that look inside, each with the reason."""
MOST_FILES = 4
"""So many of them may be files: the list is to become shorter."""
OTHERS = {"_asdict", "_exit", "_jsc", "_mapping", "_repr_html_"}
"""Names with an underscore that are for everybody, or not ours."""
DOTTED = re.compile(r"hexveil(?:\.\w+)+")
PROGRAM = re.compile(
    r"(?:^|;)\s*((?:from hexveil[.\w]* import|import hexveil\.).+?)(?=;|$)", re.MULTILINE
)


@cache
def offered(door):
    """Return the public names of a module."""
    module = import_module(door)
    own = (name for name, one in vars(module).items() if getattr(one, "__module__", "") == door)
    named = {*getattr(module, "__all__", vars(module)), *own}
    return {name for name in named if not name.startswith("_")}


def is_public(dotted):
    """Say whether a name is that of a door, or one that a door offers."""
    door, _, name = dotted.rpartition(".")
    return dotted in DOORS or (door in DOORS and (name in offered(door) or name.startswith("__")))


def imported(nodes):
    """Yield what a file imports of the package: the name here, and its full name."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((one.asname or one.name, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def texts(nodes):
    """Yield the texts of a file but for its docstrings, which name what they like."""
    said = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            # What is filled in is some name.
            parts = (getattr(part, "value", None) for part in node.values)
            yield "".join(part if isinstance(part, str) else "name" for part in parts)


def spelled(node, homes):
    """Return the full name of what a file reads of the package; nothing where it is other's."""
    if isinstance(node, ast.Name):
        return homes.get(node.id, "")
    before = spelled(node.value, homes) if isinstance(node, ast.Attribute) else ""
    return before and f"{before}.{node.attr}"


def reached(nodes, homes):
    """Yield the attributes that a file reads of doors, and private ones."""
    for node in nodes:
        if not isinstance(node, ast.Attribute):
            continue
        before, own = spelled(node.value, homes), getattr(node.value, "id", "") in ("self", "cls")
        if before in DOORS:
            yield f"{before}.{node.attr}"
        elif node.attr.startswith("_") and not node.attr.startswith("__") and not own:
            yield f".{node.attr}"


def internals(text):
    """Return the names of a file's text that are not public."""
    nodes = list(ast.walk(parsed(text)))
    homes = {here: full for here, full in imported(nodes) if full.partition(".")[0] == "hexveil"}
    found = {*homes.values(), *reached(nodes, homes)}
    for one in texts(nodes):
        if DOTTED.fullmatch(one):
            found.add(one)
        for line in PROGRAM.findall(one) if "\n" in one or ";" in one else ():
            words = re.findall(r"[\w.]+", line.partition(" as ")[0])
            home, names = (words[1], words[3:]) if words[0] == "from" else ("", words[1:])
            found |= {f"{home}.{name}".lstrip(".") for name in names}
    return {name for name in found if not is_public(name) and name.rpartition(".")[2] not in OTHERS}


@cache
def breaches():
    """Return what each file of the tests imports that is not public, but for those of the core."""
    made = {path.relative_to(TESTS).as_posix(): path for path in sorted(TESTS.rglob("*.py"))}
    found = {
        name: internals(path.read_text(encoding="utf-8"))
        for name, path in made.items()
        if not name.startswith(CORE)
    }
    return {name: sorted(names) for name, names in found.items() if names}


def test_tests_import_public_names_only():
    """Outside the core no test names what is not public, unless its file or folder is listed."""
    listed = tuple(CLOSED_FORMS)
    assert {file: names for file, names in breaches().items() if not file.startswith(listed)} == {}


def test_each_exception_is_needed_and_has_a_reason():
    """Whatever is listed exists, still looks inside, and says why in at most ten words."""
    for name, reason in CLOSED_FORMS.items():
        assert (TESTS / name).exists(), name
        assert any(file.startswith(name) for file in breaches()), f"{name} is listed for nothing"
        assert 2 <= len(reason.split()) <= 10, reason
    assert len([name for name in CLOSED_FORMS if name.endswith(".py")]) <= MOST_FILES


@pytest.mark.parametrize("door", DOORS)
def test_each_door_is_documented(door):
    """A page of the docs names each module that others may import."""
    page, _, words = DOORS[door].partition(": ")
    assert words in (DOCS / page).read_text(encoding="utf-8")
    assert offered(door)


@pytest.mark.parametrize(
    "text",
    [
        "import PACKAGE.base.rational",
        "from PACKAGE import base",
        "from PACKAGE.mechanisms import noise",
        "def f():\n    from PACKAGE.ledger import events",
        "import PACKAGE as hv\nhv.planning.api",
        "import PACKAGE as hv\nhv._HOMES",
        "from PACKAGE import mechanisms\nmechanisms.noise",
        "plan._x",
        "patch('PACKAGE.records.read.engine')",
        "patch(f'PACKAGE.{module}.engine')",
        "run('import sys; from PACKAGE.base import scratch')",
        'CODE = """\\\nimport PACKAGE.base.scratch as made\n"""',
    ],
)
def test_every_way_inside_is_found(text):
    """The rule sees each of them, so that no breach means something."""
    assert len(internals(text.replace("PACKAGE", "hexveil"))) == 1
