"""Intervals of quantiles hold whatever the values are: one number, whole numbers, zeros, any."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from examples import some
from publishing import noise_library

LEVELS, CELLS, UNITS, RECORDS = {"p50": 0.5, "p85": 0.85}, 12, 400, 25
STATISTICS, ENDS = tuple(LEVELS), ("estimate", "low", "high")
KINDS = {
    "all zero": lambda speed, _: 0.0 * speed,
    "zeros": lambda speed, rng: np.where(rng.random(speed.size) < 0.6, 0.0, speed),
    "limiter": lambda speed, _: np.minimum(speed + 45.0, 80.0),
    "fives": lambda speed, _: 5.0 * np.rint(speed / 5.0),
    "continuous": lambda speed, _: speed,
}


def records(kind):
    """Return records of buses on lines, and the ends of each line's true quantiles."""
    rng = np.random.default_rng(11)
    bus = np.repeat(np.arange(UNITS), RECORDS)
    line = rng.integers(0, CELLS, bus.size)
    speed = 35.0 + rng.normal(0, 5, CELLS)[line] + rng.normal(0, 4, UNITS)[bus]
    speed = np.clip(KINDS[kind](speed + rng.normal(0, 9, bus.size), rng), 0, 120).round(1)
    table = pa.table({"bus": bus.astype(str), "line": line.astype(str), "speed": speed})
    ordered = [np.sort(speed[line == number]) for number in range(CELLS)]
    return table, {
        name: np.array([own[[int(level * own.size) - 1, int(level * own.size)]] for own in ordered])
        for name, level in LEVELS.items()
    }


def intervals(table, way):
    """Return estimate, ends and error of each quantile by line, in the order of numbers."""
    options = {"user": "bus", "value": "speed", "bounds": (0, 120), "quantum": "0.1"}
    options |= {"statistics": STATISTICS}
    names = [str(number) for number in range(CELLS)]
    if way == "presence":
        options |= {"protect": "presence", "cells": hv.Labels("line", values=names)}
        planned = {"fleet": hv.FleetDeclaration(UNITS, RECORDS, CELLS)}
    else:
        options |= {"cells": hv.Labels("line")}
        planned = {"estimator": way}
    dataset = hv.read(table, **options)
    plan = hv.plan(dataset, epsilon=6, statistics=STATISTICS, advise=False, **planned)
    book = hv.Ledger("memory://", dataset="buses", budget=6)
    with noise_library.seeded(5):
        made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    order = [made["cell"].tolist().index(name) for name in names]
    if way == "presence":
        # Of cells together: a map states no error of each.
        stated = made.manifest["components"][0]["accuracy"]
        errors = {one["statistic"]: np.array([one["typical_error"]]) for one in stated}
        columns = {name: [name, f"{name}_low", f"{name}_high"] for name in STATISTICS}
    else:
        errors = {name: made[f"{name}_error"] for name in STATISTICS}
        columns = {name: [f"{name}_{end}" for end in ENDS] for name in STATISTICS}
    return {
        name: [*(made[column][order] for column in columns[name]), errors[name]]
        for name in STATISTICS
    }


@pytest.mark.parametrize("way", ["bins", "ranks", "presence"])
@pytest.mark.parametrize("kind", some(KINDS, 2))
def test_intervals_hold_for_each_kind_of_value(kind, way):
    """Of 24 intervals of 95 percent at least 21 hold: within a bin nothing is known."""
    table, truth = records(kind)
    held, errors, found = [], [], intervals(table, way)
    for name, (estimate, low, high, error) in found.items():
        lower, upper = truth[name].T
        held.append((low <= upper + 1e-9) & (lower <= high + 1e-9))
        assert (high - low > 0.9).all()
        assert (error > 0.9).all()
        errors.append(np.maximum(lower - estimate, 0.0))
    assert np.sum(held) >= 21
    # A bin at a bound is read as the bound where it alone holds the records.
    if kind == "all zero":
        assert np.max(errors) == 0.0
        assert all(not one[0].any() for one in found.values())
