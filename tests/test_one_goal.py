"""No order, container, hash seed or spelling of an argument makes two requests of one goal."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from examples import some
from hexveil.cli import main
from hexveil.mechanisms import Levy

HOURS = [0, 1, 2]
TABLE = pa.table(
    {
        "bus": [f"b{k // 4}" for k in range(160)],
        "ward": [("9", "10")[k % 2] for k in range(160)],
        "v": [float(k % 60) for k in range(160)],
        "w": [float(k % 7) for k in range(160)],
        "at": [f"2026-11-20T0{k % 3}:10:00Z" for k in range(160)],
        "lat": [52.2 + k % 2 for k in range(160)],
        "lon": [21.0] * 160,
    }
)
READ = {"user": "bus", "value": "v", "bounds": (0, 60), "cells": hv.Labels("ward"),
        "time": "at", "timezone": "UTC"}  # fmt: skip
PLACED = {"lat": "lat", "lon": "lon"}


@pytest.fixture
def book(tmp_path):
    """Return a ledger, in which the same request is booked once."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100)


def released(book, dataset, **plan):
    """Return the name of the request of a release of records as they were read."""
    made = hv.plan(dataset, **{"epsilon": "1", "advise": False} | plan)
    return hv.release(dataset, made, ledger=book, accept_noise=True).manifest["request"]


def request_for(book, read=None, plan=None):
    """Return the name of the request that a reading and a plan make under private presence."""
    cells = hv.Labels("ward", values=["9", "10"])
    dataset = hv.read(TABLE, **READ | {"protect": "presence", "cells": cells} | (read or {}))
    return released(book, dataset, **{"fleet": 4000} | (plan or {}))


@pytest.fixture(scope="module")
def dataset():
    """Return the records with public presence."""
    return hv.read(TABLE, **READ, max_repeats=1, statistics=SHAPED)


SHAPED = ("p50", "share<10", "mean", "histogram")
HEXAGONS = ["871f53c93ffffff", "871f53cb2ffffff"]
FREE = {
    "hours": (HOURS, lambda one: ({"select": hv.Select(hours=one)}, {})),
    "drop_values": ([-1, 60, 70], lambda one: ({"select": hv.Select(drop_values=one)}, {})),
    "statistics": (["mean", "users"], lambda one: ({}, {"statistics": one})),
    "shapes": ([*SHAPED, "users"], lambda one: ({"statistics": one}, {"statistics": one})),
    "values": (["9", "10", "x"], lambda one: ({"cells": hv.Labels("ward", values=one)}, {})),
    "value columns": (
        ["v", "w"], lambda one: ({"value": one, "bounds": {"v": (0, 60), "w": (0, 7)}}, {}),
    ),
    "area": (HEXAGONS, lambda one: ({**PLACED, "cells": hv.Cells(7, None, "UTC", area=one)}, {})),
}  # fmt: skip
"""Arguments whose items have no order."""


def shuffled(items):
    """Return the items in every container, and in other orders."""
    back = items[::-1]
    keys, series = dict.fromkeys(back).keys(), pytest.importorskip("pandas").Series(back)
    return [
        back, tuple(back), set(items), frozenset(back), np.array(back), keys, series, iter(back),
    ]  # fmt: skip


@pytest.mark.parametrize("name", some(FREE, 2))
def test_items_without_an_order_are_one_request(book, name):
    """In every container and order."""
    items, arguments = FREE[name]
    first = request_for(book, *arguments(items))
    for one in shuffled(items):
        if isinstance(one, type(iter([]))) and name in ("shapes", "value columns"):
            continue  # more than one function reads it, and it can be read once
        assert request_for(book, *arguments(one)) == first, one
    assert book.spent == 1


ORDERED = {
    "bounds": ([0, 60], lambda one: ({"bounds": one}, {})),
    "dates": (["2026-11-20", "2026-11-21"], lambda one: ({"select": hv.Select(dates=one)}, {})),
    "box": ([20, 51.0, 22, 54], lambda one: ({**PLACED, "select": hv.Select(box=one)}, {})),
}
"""Arguments whose items have one."""


@pytest.mark.parametrize("name", some(ORDERED, 1))
def test_items_with_an_order_are_one_request_in_every_container(book, name):
    """A set is refused where it would have to be read in some order of its own."""
    items, arguments = ORDERED[name]
    first = request_for(book, *arguments(items))
    same = {request_for(book, *arguments(one)) for one in (tuple(items), np.array(items))}
    assert same == {first}
    if name != "dates":  # two days are the first and the last, whichever comes first
        with pytest.raises(hv.InputError, match=f"{name} must be"):
            request_for(book, *arguments(set(items)))
    columns = pytest.importorskip("pandas").Series(items)
    assert request_for(book, *arguments(columns)) == first


SPELLED = {
    "moments": ([["mean", "variance", "sd"], {"sd", "mean", "variance"}], {}),
    "shapes": ([SHAPED, SHAPED[::-1], {*SHAPED}, np.array(SHAPED)], {}),
    "epsilon": (["0.5", ".50", Fraction(1, 2), Decimal("0.50"), 0.5, "1/2", "5e-1"], {}),
    "mechanism": (["Levy(gamma=0.20, split=0.5)", Levy("0.2", split=Fraction(1, 2)), "Levy"],
                  {"method": "per-cell"}),
    "target_error": (["6", 6.0, "10%", {"mean": "10.0%"}], {"epsilon": None}),
    "weights": ([{"moments": 1, "distribution": "2"}, {"distribution": 2.0, "moments": "1.0"},
                 {"distribution": 2}], {"statistics": ("mean", "p50")}),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLED)
def test_numbers_are_one_request_in_every_spelling(dataset, book, name):
    """Of a plan: text, fractions, decimals, doubles, mappings in any order."""
    spelled, base = SPELLED[name]
    name = "statistics" if name in ("moments", "shapes") else name
    assert len({released(book, dataset, **base | {name: one}) for one in spelled}) == 1


def test_cells_and_readings_are_one_request_in_every_spelling(book):
    """Lengths of slots, quanta and bounds as text or number, and a version that is a number."""
    grids = [hv.Cells(7, text, "UTC") for text in ("1h", "60min", " 01h ")]
    assert len(set(map(repr, grids))) == 1
    readings = [
        {"quantum": "0.5", "version": "7"},
        {"quantum": 0.50, "version": 7, "bounds": ("0.0", "6e1")},
        {"quantum": Fraction(1, 2), "version": "7", "bounds": np.array([0.0, 60.0])},
    ]
    assert len({request_for(book, one) for one in readings}) == 1


@pytest.mark.parametrize("wrong", ["xy", {"word": ["x"]}, {"ward": "xy"}, [["x"], ["y"]], []])
def test_values_of_labels_that_could_mean_two_things_are_refused(wrong):
    """A text, which is no list of letters, another column, and a list too many or too short."""
    with pytest.raises(hv.InputError, match="values"):
        hv.Labels("ward", values=wrong)


RUN = """
source = "buses.parquet"
[columns]
user = "bus"
value = {value}
time = "at"
[values]
bounds = {bounds}
[privacy]
protect = "presence"
fleet = 4000
[cells]
labels = ["ward"]
timezone = "UTC"
values = {wards}
[select]
hours = {hours}
drop_values = {codes}
[plan]
epsilon = {epsilon}
statistics = {statistics}
[release]
out = "{out}"
accept_noise = true
[ledger]
url = "ledger.sqlite"
dataset = "buses"
"""
WRITTEN = [
    {"value": '"v"', "bounds": "[0, 60]", "hours": '"0-2"', "codes": "[-1, 70]", "epsilon": "0.5",
     "statistics": '["mean", "users"]', "wards": '["9", "10"]'},
    {"value": '["v"]', "bounds": '"0,60.0"', "hours": "[2, 1, 0]", "codes": '"70,-1.0"',
     "epsilon": '"1/2"', "statistics": '"users,mean"', "wards": '{ ward = ["10", "9"] }'},
]  # fmt: skip


@pytest.mark.slow
def test_a_run_file_is_one_request_in_every_spelling(tmp_path, monkeypatch, book):
    """Lists, texts, numbers: the same request as each other's, and as that of Python."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "buses.parquet")
    names = set()
    for number, fields in enumerate(WRITTEN):
        Path("run.toml").write_text(RUN.format(**fields, out=f"map {number}"))
        assert main(["release", "run.toml"]) == 0
        names.add(hv.load(f"map {number}").manifest["request"])
    chosen = hv.Select(hours={0, 1, 2}, drop_values=(70, -1))
    plan = {"epsilon": 0.5, "statistics": {"users", "mean"}, "fleet": 4000}
    names.add(request_for(book, {"select": chosen}, plan))
    assert len(names) == 1
    assert book.spent == Fraction(1, 2)


def test_priors_are_one_goal_in_every_spelling(dataset, tmp_path):
    """Whole numbers and doubles, lists and tuples, also inside of one another."""
    spelled = [
        hv.mechanisms.Auto(
            prior=hv.evaluation.PerUser(hv.evaluation.Uniform(low, 65)),
            candidates=box([hv.mechanisms.AKMV(split=half)]),
        )
        for low, box, half in ((0, list, "0.5"), (0.0, tuple, 0.5), (0, tuple, Fraction(1, 2)))
    ]
    book = hv.Ledger(tmp_path / "own.sqlite", dataset="buses", budget=9)
    names = {released(book, dataset, mechanism=one, method="per-cell") for one in spelled}
    assert len(names) == 1
