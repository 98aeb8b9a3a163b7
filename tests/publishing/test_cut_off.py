"""Cells that a private range cut off: graded so, with an interval that reaches to the bound."""

import functools

import numpy as np
import pytest

import hexveil as hv
from publishing import noise_library
from publishing.setting import dataset_of, hexagons

CELLS, USERS, FAST = 16, 240, 54.3
RELEASES = range(9, 17)
"""Seeds of eight releases. One in forty misses a hexagon that lies wholly beyond an end."""
SCALE = (0, 65, "0.1")


@functools.cache
def highway(seed=5):
    """Return buses at about 25 km/h in most hexagons, and at 54.3 in the first."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((USERS, CELLS), dtype=np.int64)
    for user in range(USERS):
        counts[user, rng.choice(np.arange(1, CELLS), 5, replace=False)] = 4
    counts[rng.choice(USERS, 60, replace=False), 0] = 4
    user, cell = np.nonzero(counts)
    speed = 25.0 + np.linspace(-3, 3, CELLS)[cell] + rng.normal(0, 2.5, cell.size)
    speed = np.where(cell == 0, FAST, speed)
    totals = np.zeros((USERS, CELLS), dtype=np.int64)
    totals[user, cell] = np.rint(40 * speed)
    return dataset_of(
        counts, totals.T[counts.T > 0], scale=SCALE, cells=hexagons(CELLS), value="speed",
        value_unit="km/h",
    )  # fmt: skip


def published(dataset, plan, tmp_path, seed, **options):
    """Return a release with seeded noise."""
    book = hv.Ledger(tmp_path / f"{seed}.sqlite", dataset="buses", budget=100)
    with noise_library.seeded(seed):
        return hv.release(dataset, plan, ledger=book, **options)


@pytest.mark.slow
@pytest.mark.parametrize("estimates", ["raw", ("raw", "smoothed")], ids=["raw", "smoothed"])
def test_a_hexagon_far_from_all_others_is_never_good(tmp_path, estimates):
    """In eight of eight releases it is graded as cut off, and its interval holds the truth.

    Its users' averages all lie beyond the range that was found for the whole map.
    """
    dataset = highway()
    plan = hv.plan(dataset, epsilon=4, clipping_range="private", advise=False)
    for seed in RELEASES:
        made = published(dataset, plan, tmp_path, seed, estimates=estimates)
        fast, *others = made.table.to_pylist()
        described = made.table.field("mean_high").metadata[b"description"].decode()
        assert "cut off" in described
        assert fast["mean_quality"] in ("cut off", "noise")
        assert fast["mean_low"] <= FAST <= fast["mean_high"] == 65.0
        usable = sum(row["mean_quality"] in ("good", "caution") for row in others)
        assert usable >= CELLS // 2
