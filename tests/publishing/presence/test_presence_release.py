"""Releases with private presence through a ledger: one balance for any unit, nothing else told."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import BudgetError, FleetDeclaration, InputError

MANY, FEW = FleetDeclaration(2000, 100, 3), FleetDeclaration(500, 100, 3)
SHAPES = ("p50", "p85", "share<15")
READ = {
    "user": "taxi", "value": "speed", "bounds": (0, 60), "quantum": "0.1",
    "cells": hv.Labels("route", values=["4", "7", "9", "12"]), "protect": "presence",
    "statistics": SHAPES,
}  # fmt: skip
REQUESTS = {
    "three stages": {"fleet": MANY},
    "one shot": {"fleet": FEW},
    "counts": {"fleet": MANY, "statistics": "users"},
    "shapes": {"fleet": MANY, "statistics": SHAPES},
    "counted": {"fleet": MANY, "statistics": ("mean", "users")},
}


def records(n_units=1800, seed=1):
    """Return records of so many units."""
    unit = np.repeat(np.arange(n_units), 3)
    route = np.random.default_rng(seed).integers(0, 3, unit.size)
    table = {
        "taxi": unit.astype(str),
        "route": np.array(["4", "7", "9"])[route],
        "speed": 10.0 + 10.0 * route + unit % 50 / 10.0,
    }
    return hv.read(pa.table(table), **READ)


def ledger_of(tmp_path, name="ledger", budget="2"):
    """Return a new ledger."""
    return hv.Ledger(tmp_path / f"{name}.sqlite", dataset="taxis", budget=budget)


def released(dataset, name, ledger, **more):
    """Return a release of one of the requests."""
    plan = hv.plan(dataset, epsilon="1.5", advise=False, **REQUESTS[name] | more)
    return hv.release(dataset, plan, ledger=ledger, accept_noise=True)


def facts_of(ledger):
    """Return all that the ledger says of its bookings, but for noisy numbers and instants."""
    return [
        (entry.request, dict(entry.facts), {k: len(v) for k, v in entry.stages.items()})
        for entry in ledger.entries()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_nothing_but_noisy_numbers_depends_on_records(name, tmp_path):
    """No records at all, or others: facts, bookings, stages and their sizes are the same."""
    told = []
    for number, given in enumerate(((1800, 1), (1799, 1), (0, 1), (5, 2))):
        ledger = ledger_of(tmp_path, f"{number}")
        made = released(records(*given), name, ledger)
        columns = (made.table.column_names, made.table["cell"].to_pylist())
        told.append((facts_of(ledger), ledger.spent, made.manifest["grid"], columns))
    assert all(one == told[0] for one in told)


def test_a_budget_is_refused_for_any_unit(tmp_path):
    """A second edition in the same account adds up, whoever is in it."""
    ledger = ledger_of(tmp_path)
    released(records(), "one shot", ledger)
    with pytest.raises(BudgetError):
        released(records(0), "one shot", ledger, edition="June")
    assert ledger.spent == Fraction("1.5")


def test_an_account_is_pinned_to_one_model(tmp_path):
    """An account that promises private presence books no release of public occupancy."""
    ledger = ledger_of(tmp_path)
    released(records(), "counts", ledger)
    users = [f"{number}" for number in range(99)]
    sums = pa.table({"cell": ["4"] * 99, "user": users, "n": [2] * 99, "sum": [9.0] * 99})
    public = hv.from_sums(sums, bounds=(0, 60))
    plan = hv.plan(public, epsilon="0.4", advise=False)
    assert plan.epsilon
    with pytest.raises(InputError, match="presence is private"):
        hv.release(public, plan, ledger=ledger, accept_noise=True)
    assert ledger.spent == Fraction("1.5")
