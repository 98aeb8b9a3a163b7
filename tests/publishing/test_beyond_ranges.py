"""Estimates of averages whose range cuts off a few vehicles that are far from all others."""

import numpy as np

import hexveil as hv
from golden_releases import fixed_noise
from planning.sums import sums_of


def test_cells_near_an_end_of_the_range_have_more_beyond_it():
    """What all cells lack is added to each by its place in the range: most where it is highest."""
    rng, levels = np.random.default_rng(4), np.arange(6, 18, 2)
    speed = np.clip(rng.normal(levels, 3, (600, 6)), 0, 64).round(1)
    speed = np.where(rng.random(speed.shape) < 0.05, 62.0, speed)
    counts, sums = np.full(speed.shape, 2), 2 * speed.T.ravel()
    data = sums_of(counts, sums, sums**2 / 2, bounds=(0, 64), quantum="0.1")
    plan = hv.plan(data, epsilon=1, clipping_range="private", advise=False)
    with fixed_noise():
        book = hv.Ledger("memory://", dataset="buses", budget=1)
        made = hv.release(data, plan, ledger=book, accept_noise=True)
    added = made["mean_estimate"] - made["mean_noisy"]
    assert added[-1] > 2 * added[0] > 0
    assert (np.diff(added) > 0).all()
