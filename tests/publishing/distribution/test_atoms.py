"""Intervals of quantiles hold whatever the values are: one number, whole numbers, zeros, any."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from examples import some
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.distribution.binned_stage import BinnedSums
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.publishing.kinds.distribution_table import decode_distribution
from hexveil.publishing.kinds.presence_table import decode_outputs

LEVELS, CELLS, UNITS, RECORDS = {"p50": 0.5, "p85": 0.85}, 12, 400, 25
STATISTICS = tuple(LEVELS)
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


def drawn(stages, sums, meter):
    """Return the outputs of simulated noise."""
    return execute(
        stages, sums, SimulatedNoise(np.random.default_rng(5), 1), MemoryJournal(), meter
    )


def intervals(table, way):
    """Return estimate, ends and error of each quantile by line, in the order of numbers."""
    options = {"user": "bus", "value": "speed", "bounds": (0, 120), "quantum": "0.1"}
    options |= {"statistics": STATISTICS}
    if way == "presence":
        names = [str(number) for number in range(CELLS)]
        options |= {"protect": "presence", "cells": hv.Labels("line", values=names)}
        dataset = hv.read(table, **options)
        fleet = hv.FleetDeclaration(UNITS, RECORDS, CELLS)
        plan = hv.plan(dataset, epsilon=6, fleet=fleet, statistics=STATISTICS, advise=False)
        stages = plan.request.allocation()
        meter = Meter(stages.losses() * (1 + 1e-9), squared=bool(stages.delta))
        decoded = decode_outputs(plan.request, drawn(stages, PresenceSums(dataset.pairs), meter))
        order = [dataset.public.cells.names().index(name) for name in names]
        return {
            name: [decoded[f"{name}{end}"][order] for end in ("", "_low", "_high")]
            + [decoded.error[name][order]]
            for name in STATISTICS
        }
    dataset = hv.read(table, **options, cells=hv.Labels("line"))
    plan = hv.plan(dataset, statistics=STATISTICS, epsilon=6, estimator=way, advise=False)
    stages, sums = plan.stages(), dataset.sums
    own = BinnedSums(sums.total, sums.total_sq, sums.bins)
    decoded = decode_distribution(plan, drawn(stages, own, Meter(stages.losses() * (1 + 1e-9))))
    order = np.argsort([int(name) for name in plan.names])
    return {
        name: [column[order] for column in (one.estimate, one.low, one.high, one.error)]
        for name, one in decoded.items()
    }


@pytest.mark.parametrize("way", ["bins", "ranks", "presence"])
@pytest.mark.parametrize("kind", some(KINDS, 2))
def test_intervals_hold_for_each_kind_of_value(kind, way):
    """Of 24 intervals of 95 percent at least 21 hold: within a bin nothing is known."""
    table, truth = records(kind)
    held, errors = [], []
    for name, (estimate, low, high, error) in intervals(table, way).items():
        lower, upper = truth[name].T
        held.append((low <= upper + 1e-9) & (lower <= high + 1e-9))
        assert (high - low > 0.9).all()
        assert (error > 0.9).all()
        errors.append(np.maximum(lower - estimate, 0.0))
    assert np.sum(held) >= 21
    # A bin at a bound is read as the bound where it alone holds the records.
    if kind == "all zero":
        assert np.max(errors) == 0.0
        assert all(not one[0].any() for one in intervals(table, way).values())
