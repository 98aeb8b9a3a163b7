"""Broken twins of the publishing path: slips that an audit must notice. They live in tests alone.

A user under two spellings needs no change of the program, for ids are read byte for byte: the
holder has to bring them into one form (`path_files.two_spellings`).
"""

import sys
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from hexveil.mechanisms import noise
from hexveil.mechanisms.looks.clipped_mean import ClippedMean
from hexveil.records import dataset as datasets
from hexveil.records.duckdb import validation
from publishing.drawing import executed


@contextmanager
def scale_halved():
    """Draw half the noise that was planned and booked."""
    real = noise.add_laplace
    with patch.object(noise, "add_laplace", lambda values, scales: real(values, scales / 2)):
        yield


def unclamped(value, scale):
    """Return a value in whole quanta above the lower bound, outside the bounds where it is."""
    parts = scale.quantum.denominator, scale.quantum.numerator
    whole = f"CAST(round({value} * {parts[0]} / {parts[1]}) AS BIGINT)"
    return f"{whole} - {int(scale.lower / scale.quantum)}"


def clamped_late(mean, sums):
    """Return the statistic with cells clamped to their bounds, not values."""
    occupancy = mean.occupancy
    total = np.add.reduceat(sums.total, occupancy.start[:-1], axis=1)
    whole = 2 * np.clip(total, 0, mean.lattice.width * occupancy.records_per_cell)
    return whole[:, mean.noised_cells]


@contextmanager
def clamping_after_summing():
    """Clamp each cell's sum, and no value before: all three clamps, one behind the other, slip."""
    with (
        patch.object(validation, "quanta", unclamped),
        patch.object(datasets.Dataset, "__post_init__", lambda _: None),
        patch.object(ClippedMean, "measure", clamped_late),
    ):
        yield


@contextmanager
def forgotten():
    """Answer a request that was answered before with fresh noise, at no cost."""
    module, seen = sys.modules["hexveil.publishing.pipeline"], []
    select = module._select_plan

    def noted(dataset, plan, book):
        selected = select(dataset, plan, book)
        seen.append((dataset, selected[0]))
        return selected

    with (
        patch.object(module, "_select_plan", noted),
        patch.object(module, "replay", lambda *_: executed(*seen[-1])[1]),
    ):
        yield
