"""Several value columns under private presence: one loss of any unit, one folder."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import BudgetError, InputError
from publishing.releases import called

BOUNDS = {"pm25": (0, 100), "no2.air": (0, 200)}
STATISTICS = ("mean", "p50", "share<20")
WARDS = ("w0", "w1", "w2", "w3")
READ = {
    "user": "sensor", "value": (*BOUNDS,), "bounds": BOUNDS, "quantum": "0.1", "time": "time",
    "timezone": "UTC", "cells": hv.Labels("ward", values=WARDS), "protect": "presence",
    "value_unit": "ug/m3", "statistics": STATISTICS,
}  # fmt: skip


def records(n_sensors=200, but=None):
    """Return records of sensors, every eighth without a value of the second column."""
    rows = [(u, k) for u in range(n_sensors) for k in range(6) if u != but]
    return pa.table(
        {
            "sensor": [f"s{u}" for u, _ in rows],
            "ward": [WARDS[(u + k) % 3] for u, k in rows],
            "time": [f"2026-11-20T{k:02d}:00:00Z" for _, k in rows],
            "pm25": [15.0 + (7 * u + 3 * k) % 11 for u, k in rows],
            "no2.air": [None if u % 8 == 0 else 40.0 + (5 * u + k) % 31 for u, k in rows],
        }
    )


@pytest.fixture(scope="module")
def dataset():
    """Return both columns, with bins."""
    return hv.read(records(), **READ)


def rows_of(pairs):
    """Return the records of each unit, as a sorted list of rows."""
    units = np.repeat(np.arange(pairs.begin.size), np.diff(pairs.begin, append=pairs.cell.size))
    rows = zip(units, pairs.cell, pairs.records, pairs.mean, strict=True)
    grouped = itertools.groupby(rows, key=lambda row: row[0])
    return sorted([tuple(map(float, row[1:])) for row in own] for _, own in grouped)


@pytest.mark.slow
def test_neighbours_differ_in_one_unit_in_all_columns():
    """Without one unit's records exactly one unit is missing, in every column at once."""
    every, fewer = (hv.read(records(30, but), **READ).datasets for but in (None, 9))
    for column in BOUNDS:
        left = rows_of(every[column].pairs)
        for one in rows_of(fewer[column].pairs):
            left.remove(one)
        assert len(left) == 1


def apart(column, ids="s", but=None, **options):
    """Return a data set of 30 sensors with two records in each of two wards, and ids of its own."""
    rows = [(u, ward) for u in range(30) for ward in WARDS[:2] if u != but] * 2
    table = {
        "ward": [ward for _, ward in rows],
        "user": [f"{ids}{u}" for u, _ in rows],
        "value": [10.0 + u / 2 for u, _ in rows],
        "time": [1_795_176_000] * len(rows),
    }
    given = {"cells": READ["cells"], "protect": "presence", "bounds": BOUNDS[column]} | options
    return hv.read(pa.table(table), user="user", value="value", repeats="keep", **given)


def test_ids_of_columns_need_not_match():
    """A vehicle is one unit of each data set, under any id; the sum is booked for any unit."""
    every, fewer = (
        hv.combine_columns({"pm25": apart("pm25", "a", but), "no2.air": apart("no2.air", "b", but)})
        for but in (None, 9)
    )
    for column in BOUNDS:
        both = [len(rows_of(made.datasets[column].pairs)) for made in (every, fewer)]
        assert both == [30, 29]
        assert every.public.columns[column].value == column
    plan = hv.plan(every, epsilon=3, fleet=400, advise=False)
    assert plan.epsilon == sum(own.epsilon for own in plan.plans.values()) == 3
    assert plan.losses().size == 1


def test_columns_of_other_declarations_do_not_combine(dataset):
    """What a release has once must be declared alike; the sentence says what is not."""
    days = {"privacy_unit": "user-day", "time": "time", "timezone": "UTC"}
    two, three = (hv.Select(dates=("2026-11-20", f"2026-11-2{end}")) for end in (1, 2))
    first, dated = apart("pm25"), apart("pm25", **days, select=two)
    public = hv.from_sums(
        pa.table({"ward": ["w0"], "user": ["a"], "n": [1], "sum": [3.0]}), bounds=(0, 9),
        min_users=1, cells=hv.Labels("ward"), accept_single_records=True,
    )  # fmt: skip
    identity = {**dated.public.identity, "timezone": "Asia/Kolkata"}
    other_clock = replace(dated, public=replace(dated.public, identity=identity))
    in_use = replace(first.public, grid=replace(first.public.grid, is_in_use=False))
    pairs = (
        (first, apart("pm25", cells=hv.Labels("ward", values=WARDS[:3])), "their cells"),
        (first, replace(first, public=in_use), "their cells"),
        (first, dated, "the privacy unit"),
        (dated, apart("pm25", **days, select=three), "declared days"),
        (dated, other_clock, "the clock of their days"),
        (first, public, "the privacy model"),
        (public, first, "the privacy model"),
        (first, dataset, "'b' must be a data set of one value"),
    )
    for one, other, message in pairs:
        with pytest.raises(InputError, match=message):
            hv.combine_columns({"a": one, "b": other})


# ---- the release ----


@pytest.mark.slow
def test_columns_under_a_delta_are_released_once(dataset, tmp_path):
    """Together they cost less than the sum; another release does not fit into the account."""
    options = {"epsilon": 3, "fleet": 400, "statistics": STATISTICS}
    plan = hv.plan(dataset, delta="1e-6", advise=False, **options)
    assert 2.9 < plan.epsilon <= 3 < sum(plan.column_epsilons().values())
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="air", budget=3, delta="1e-6")
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    folder = made.write(tmp_path / "map")
    assert hv.verify(folder)["guarantee"]["delta"] == "0.000001"
    assert "(epsilon, delta)-differential privacy" in called("dossier", folder)
    assert hv.release(dataset, plan, ledger=book).replayed
    second = hv.plan(dataset, delta="1e-6", edition="second", advise=False, **options)
    with pytest.raises(BudgetError):
        hv.release(dataset, second, ledger=book, accept_noise=True)
