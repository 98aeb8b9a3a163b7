"""Sums are seen by few modules, and what these make of them leaves through the noise door alone.

Three ways to look: at the code (who names sums, who knocks at the door), at a run (who touches
them), and through a deaf door, which answers without listening: if what is released still hangs on
the values, something has gone past it.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack import leak_neighbours as near
from hexveil.ledger.unit_losses import make_key
from hexveil.mechanisms import noise
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.records.dataset import Dataset, Sums
from source_trees import parsed

SOURCE = Path(hv.__file__).resolve().parent
RESEARCH = SOURCE.with_name("hexveil_research")
PRIVATE = ("total", "total_sq", "map_cells")
"""What of the sums of records tells of values."""
READERS = {"publishing/pipeline.py"}
"""Modules that hand the sums of records to the stages of a release."""
MEASURES = {
    "mechanisms/looks/bounds.py", "mechanisms/looks/clipped_mean.py",
    "mechanisms/looks/clipped_variance.py",
    "mechanisms/looks/weighted_ranges.py", "mechanisms/looks/cell_looks.py",
    "mechanisms/looks/weighted_mean.py", "mechanisms/looks/weighted_variance.py",
    "mechanisms/private_quantile.py",
    "mechanisms/looks/pooled_means.py", "mechanisms/looks/cell_stages.py",
    "mechanisms/presence/shape_allocation.py",
    "mechanisms/per_cell_allocation.py",
    "mechanisms/contract.py", "mechanisms/stage_data.py",
    "mechanisms/presence/__init__.py", "mechanisms/presence/contribution.py",
    "mechanisms/presence/count_map.py",
    "mechanisms/distribution/binned_stage.py", "mechanisms/distribution/__init__.py",
}  # fmt: skip
"""Modules that make integers of sums, each with a proof of their sensitivity in its head."""
STUDIES = {
    "simulation/own_cells.py", "hexveil_research/pictures/releases.py",
    "hexveil_research/pictures/car_map.py",
    "hexveil_research/mechanisms/foresight.py",
}  # fmt: skip
"""Studies of records that are one's own, or invented; nothing of them is a release."""
TAKERS = {
    "measure", "values", "execute", "_prepared", "total_over_units",
    "tally", "total", "sums", "_with_bins",
}  # fmt: skip
"""Functions of mechanisms that are given private sums; studies of one cell have their own."""
KERNELS = {
    "map_cells", "map_bins", "_beside", "__init__", "_measure", "_tally_means",
    "_scored", "_cell_bins", "_pooled_bins",
}  # fmt: skip
"""Functions that are given the sums, or the counts by bin, of a block of pairs."""
HOLDERS = "__init__", "binned_stage"
SINGLE_CELL = {"outputs", "estimates", "noiseless_estimates", "_outcomes", "_errors"}
"""Functions of `mechanisms/single_cell/` that run a study on simulated sums."""
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


def functions_with_sums():
    """Yield each function of mechanisms that has a parameter of private sums, with its module."""
    for name, tree in sources():
        if not name.startswith("mechanisms/"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and takes_sums(node):
                yield name, node.name


def takes_sums(function):
    """Return whether a parameter is of private sums, or of integers that were measured."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    private = ("PrivateSums", "Measured", "PairSums", "PairBins")
    return any(
        word in ast.unparse(one.annotation) for one in given if one.annotation for word in private
    )


def test_sums_enter_by_measure_alone():
    """By signature: scale, sensitivity, branch, decoding and report never receive sums."""
    takers = set(functions_with_sums())
    whole = {(name, function) for name, function in takers if "/single_cell/" not in name}
    single_cell = takers - whole
    # Sums of several value columns are held together by one object; no other is made of sums.
    holders = {name for name, function in whole if function == "__init__"}
    assert holders == {f"mechanisms/distribution/{one}.py" for one in HOLDERS}
    assert {function for _, function in whole} == TAKERS | KERNELS | {"_noised"}
    assert {name for name, _ in whole} <= MEASURES
    assert {function for _, function in single_cell} <= TAKERS | SINGLE_CELL


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("def decode(self, sums: PrivateSums): ...", True),
        ("def report(self, *, numbers: Measured): ...", True),
        ("def row(self, drawn: Ints, earlier: Outputs): ...", False),
    ],
)
def test_a_function_that_is_given_sums_is_found(text, takes):
    """The look at signatures sees each kind, so that its table means something."""
    assert takes_sums(ast.parse(text).body[0]) == takes


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


PLANS = {
    "joint": {},
    "joint, largest error, every statistic": {
        "objective": "max", "statistics": ("mean", "variance", "sd"),
    },
    "each cell alone": {"method": "per-cell", "statistics": ("mean", "variance")},
    "equal-split": {"method": "equal-split", "mechanism": hv.mechanisms.Baseline()},
    "suppression": {"method": "clip-user", "statistics": ("mean", "variance")},
    "a private interval": {"clipping_range": "private", "statistics": ("mean", "variance")},
    "ranges of cells": {"clipping_range": "per-cell"},
    "an error to stay within": {"target_error": 5, "epsilon": None},
    "ranks": {"statistics": ("mean", "p50", "share<20"), "estimator": "ranks"},
    "bins": {"statistics": ("mean", "p50", "share<20"), "estimator": "bins"},
    "an indicator": {"statistics": "share<20", "estimator": "auto"},
}  # fmt: skip
USERS, CELLS = 40, ("x", "y", "z")


def records(values):
    """Return records of one fleet with values of a kind."""
    chance = np.random.default_rng(3)
    rows = [
        (f"b{user}", cell)
        for user in range(USERS)
        for cell in CELLS
        for _ in range(1 + (user + len(cell)) % 3)
        if (user + ord(cell)) % 4
    ]
    made = {
        "even": lambda: 30.0 + chance.normal(0, 5, len(rows)),
        "odd": lambda: np.where(np.arange(len(rows)) % 2, -1e300, 64.0),
    }[values]()
    user, cell = zip(*rows, strict=True)
    return pa.table({"bus": user, "line": cell, "speed": made})


def read(values, kind):
    binned = "estimator" in PLANS[kind] and {"statistics": PLANS[kind]["statistics"]}
    return hv.read(
        records(values), user="bus", value="speed", bounds=(0, 65), quantum="0.01",
        cells=hv.Labels("line"), **(binned or {}),
    )  # fmt: skip


def planned(dataset, kind):
    """Return the plan of a kind."""
    return hv.plan(dataset, **({"epsilon": 2, "advise": False} | PLANS[kind]))


@pytest.fixture
def asked(monkeypatch):
    """Put a deaf door in place of the real one; return what it is asked but for the values."""
    said = []

    def add_laplace(values, scales):
        said.append(("add_laplace", values.shape, str(values.dtype), scales.tobytes()))
        return np.round(scales * (np.arange(scales.size) % 7 - 3)).astype(np.int64)

    def noisy_max(scores, scale):
        said.append(("noisy_max", scores.shape, str(scores.dtype), scale))
        return scores.size // 3

    monkeypatch.setattr(noise, "add_laplace", add_laplace)
    monkeypatch.setattr(noise, "noisy_max", noisy_max)
    return said


def released(folder, kind, values, key):
    """Return all that a release of a kind makes of values: table, ledger, files."""
    folder.mkdir()
    near.put_key(folder / "book.sqlite", key)
    dataset = read(values, kind)
    plan = planned(dataset, kind)
    book = hv.Ledger(folder / "book.sqlite", dataset="buses", budget=1000)
    more = {"estimates": ("raw", "smoothed")} if kind == "joint" else {}
    made = hv.release(dataset, plan, ledger=book, accept_noise=True, **more)
    written = made.write(folder / "map")
    texts = {
        path.name: near.masked(path.read_text("utf-8"))
        for path in sorted(Path(written).iterdir())
        if path.suffix != ".parquet"
    }
    table = pq.read_table(folder / "map" / "cells.parquet")
    told = near.book(folder / "book.sqlite"), near.results(folder / "book.sqlite")
    return table.to_pylist(), *told, texts, repr(made)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANS)
def test_through_a_deaf_door_nothing_is_heard(tmp_path, asked, kind):
    """Whatever the values are, the door is asked the same, and all that is released is the same."""
    make_key(tmp_path / "one.key")
    key = (tmp_path / "one.key").read_bytes()
    even = released(tmp_path / "even", kind, "even", key)
    heard = list(asked)
    assert heard
    asked.clear()
    odd = released(tmp_path / "odd", kind, "odd", key)
    assert asked == heard
    for one, other in zip(even, odd, strict=True):
        assert one == other


def test_a_door_that_listens_is_heard(tmp_path, asked, monkeypatch):
    """The comparison sees what goes past the noise, so that finding nothing means something."""
    monkeypatch.setattr(noise, "add_laplace", lambda values, _: values)
    make_key(tmp_path / "one.key")
    key = (tmp_path / "one.key").read_bytes()
    even, odd = (released(tmp_path / v, "joint", v, key) for v in ("even", "odd"))
    assert even[0] != odd[0]


@pytest.fixture
def touched(monkeypatch):
    """Note which module touches the numbers of sums, of records and of stages, from within what."""
    seen = set()
    for kind, names in ((Sums, PRIVATE), (PrivateSums, ("total", "squares", "map_cells"))):
        monkeypatch.setattr(kind, "__getattribute__", watched(kind, names, seen))
    return seen


def watched(kind, names, seen):
    """Return how attributes of a kind of sums are read, noting by whom."""
    plain = kind.__getattribute__

    def read(self, name):
        # Whether there are squares is public; `Sums.squared` says it.
        if name in names and sys._getframe(1).f_code.co_name != "squared":
            seen.add(caller())
        return plain(self, name)

    return read


TYPES_OF_SUMS = {SOURCE / "records/dataset.py", SOURCE / "mechanisms/stage_data.py"}


def caller():
    """Return the nearest module of the package that is not a type of sums itself."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(SOURCE) and path not in TYPES_OF_SUMS:
            return path.relative_to(SOURCE).as_posix()
        frame = frame.f_back
    return "outside"


@pytest.mark.parametrize("kind", PLANS)
def test_only_measures_touch_sums(tmp_path, touched, kind):
    """Before a release nobody has touched them but who made them; then the known measures alone."""
    dataset = read("even", kind)
    assert touched <= {"records/duckdb/reading.py"}
    touched.clear()
    plan = planned(dataset, kind)
    if kind == "joint":
        hv.capacity(dataset, epsilon=1)
    assert touched == set()
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="buses", budget=1000)
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert touched
    assert touched <= MEASURES | READERS
    touched.clear()
    made.write(tmp_path / "map")
    assert touched == set()
    assert hv.release(dataset, plan, ledger=book).replayed
    assert touched <= MEASURES | READERS


def test_a_data_set_is_made_of_sums_alone():
    """Of the private side a data set has sums and ids, and both say nothing of themselves."""
    fields = Dataset.__dataclass_fields__
    assert set(fields) == {"public", "sums", "units"}
