"""The grid: what is published is made of whole numbers and public facts, and of nothing else.

Declared, in each manifest, for each cell and statistic: where its grid starts, and its step. A
published mean is lower + y q / (2 N) for a whole number y, q the quantum and N the records; a
published variance is a public constant and a whole multiple of its scale / 2^30. Every whole
number can come out under every input.
"""

import random
from contextlib import ExitStack
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack.path_audit import draws, pair_of
from attack.path_files import Setting
from examples import some
from hexveil.mechanisms import noise
from hexveil.mechanisms.looks.clipped_variance import STEPS
from publishing.releases import said as manifest_of

EVERY = ("mean", "variance", "sd")
COUNTS = {"x": [6, 3, *[1] * 30], "y": [4, 2, *[1] * 30], "z": [5, 0, *[1] * 29]}
SETTINGS = {
    "each cell alone": Setting(COUNTS, {"method": "per-cell", "epsilon": 4, "statistics": EVERY}),
    "factors": Setting(
        COUNTS, {"epsilon": 2, "clipping_range": "bounds"}, {"bounds": (-20, 60), "quantum": "0.1"}
    ),
    "factors, both": Setting(
        COUNTS, {"epsilon": 3, "statistics": EVERY, "objective": "max"}, {"quantum": "0.001"}
    ),
    "suppression": Setting(COUNTS, {"method": "clip-user", "epsilon": 2, "statistics": EVERY}),
    "a constant beside others": Setting(
        COUNTS | {"lonely": [1]}, {"method": "per-cell", "epsilon": 1, "statistics": EVERY}
    ),
}


def published(setting, folder, *, right=False):
    """Return the folder, and the whole numbers that the ledger stored."""
    dataset = setting.dataset(setting.files(folder)[right])
    side = "right" if right else "left"
    book = hv.Ledger(folder / f"{side}.sqlite", dataset="buses", budget=100)
    released = hv.release(dataset, setting.planned(dataset), ledger=book, accept_noise=True)
    (booking,) = book.entries()
    ((stage, numbers),) = booking.published.items()
    assert stage == "cells"
    return released.write(folder / side), numbers


@pytest.mark.parametrize("name", some(SETTINGS, 2))
def test_published_numbers_lie_on_the_declared_grid(name, tmp_path):
    """From the folder alone: each is its cell's start and whole steps, which are public facts.

    Only rounding of the last digits of a double is allowed.
    """
    one, other = (published(SETTINGS[name], tmp_path, right=right)[0] for right in (False, True))
    said = manifest_of(one)
    assert said["cells"] == manifest_of(other)["cells"]
    for place in (one, other):
        table = pq.read_table(place / "cells.parquet")
        numbers = {column: table[column].to_numpy() for column in table.column_names}
        for k, key in enumerate(part["statistic"] for part in said["cells"][0]["noised"]):
            parts = [cell["noised"][k] for cell in said["cells"]]
            start, step = (
                np.array([part[end] for part in parts]) for end in ("grid_start", "grid_step")
            )
            noisy, live = numbers[f"{key}_noisy"], step > 0
            assert (noisy[~live] == start[~live]).all()
            steps = (noisy - start)[live] / step[live]
            assert np.abs(steps - np.rint(steps)).max() < 1e-2
            assert np.abs(steps).max() > 1
            if key == "mean":
                grain = float(Fraction(said["bounds"]["quantum"])) / (
                    2 * table["records"].to_numpy()
                )
                assert np.allclose(step[live], grain[live], rtol=1e-12)
            else:
                assert np.allclose(step, numbers[f"{key}_scale"] / STEPS, rtol=1e-12)


NEAR = Setting(
    {"x": [2, 1, 1, 1]},
    {"method": "per-cell", "mechanism": hv.mechanisms.Baseline(), "epsilon": 2},
    {"bounds": (0, 4), "quantum": 1},
)
"""Noise of 8 steps; the two inputs are 16 steps apart."""
N = 40_000


@pytest.mark.slow
def test_every_whole_number_can_come_out_under_either_input(tmp_path):
    """Around both inputs' numbers, each whole number comes out under both: no gap, no offset.

    The rarest is 24 steps off at scale 8: its chance is tanh(1/16) exp(-3) = 0.0031, so that 124
    are expected of 40,000, and none with a chance of exp(-124); there are 33, under two inputs.
    """
    left, right, plan = NEAR.both(tmp_path)
    pair = pair_of(left, right, plan)
    assert pair.scales.tolist() == pytest.approx([8.0])
    assert (pair.right - pair.left).tolist() == [16]
    window = set(range(int(pair.left[0]) - 8, int(pair.right[0]) + 9))
    for dataset in (left, right):
        assert window <= set(draws(dataset, plan, N).ravel().tolist())


def test_the_door_takes_and_gives_whole_numbers_alone(tmp_path):
    """The library's noise is that on 64-bit integers, and the door hands on what it says."""
    for scale in (0.3, 7.0, float(STEPS)):
        measurement = noise._measurement(scale)
        assert str(measurement.input_domain) == "VectorDomain(AtomDomain(T=i64))"
        drawn = measurement(np.zeros(5, dtype=np.int64))
        assert {type(one) for one in drawn} == {int}
    seen, real = [], noise.add_laplace

    def watched(values, scales):
        seen.append((values, real(values, scales)))
        return seen[0][1]

    with patch.object(noise, "add_laplace", watched):
        _, stored = published(SETTINGS["each cell alone"], tmp_path)
    ((values, drawn),) = seen
    assert values.dtype == drawn.dtype == np.int64
    assert drawn.tolist() == list(stored)
    assert {type(y) for y in stored} == {int}


POISONED = (
    *((np.random, name) for name in ("default_rng", "laplace", "normal", "random", "uniform")),
    *((random, name) for name in ("random", "uniform", "gauss", "expovariate", "normalvariate")),
)


def test_a_release_asks_no_continuous_sampler(tmp_path):
    """With numpy's and Python's samplers out of order, a release is made as ever."""

    def refuse(*_, **__):
        raise AssertionError("a continuous sampler was asked")

    with ExitStack() as stack:
        for owner, name in POISONED:
            stack.enter_context(patch.object(owner, name, refuse))
        place, _ = published(SETTINGS["factors, both"], tmp_path)
    assert (place / "cells.parquet").is_file()
