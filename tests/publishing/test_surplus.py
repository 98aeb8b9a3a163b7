"""What lies beyond the ranges of cells: moved estimates, wider intervals, intervals that hold."""

import numpy as np

from hexveil.accounting.noise_law import Laplace
from hexveil.mechanisms.pooled_law import MeanView, PooledLaw
from hexveil.publishing.estimates.posterior_estimates import estimate_view
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

BOUNDS, CELLS, USERS = (0.0, 64.0), 6, 500
SPREAD = UserMeanSpread(12.0, 4.0, 4.0, 4.0)


def fleet(far=0.05):
    """Return users' averages in each cell, a part of which lies far beyond the others."""
    rng = np.random.default_rng(4)
    values = np.clip(rng.normal(12.0, 4.0, (CELLS, USERS)), 0.0, 64.0)
    return np.where(rng.random(values.shape) < far, 62.0, values)


def estimates(values, upper=20.0, *, beyond=True, scale=0.05, noise=0.1):
    """Return the estimates from looks at cells in a range that ends at `upper`."""
    low, high = np.zeros(CELLS), np.full(CELLS, upper)
    draw = np.random.default_rng(5).laplace(0.0, scale, CELLS)
    look = ClippedLook(np.clip(values, 0, upper).mean(axis=1) + draw, low, high, low + scale)
    same = np.full(CELLS, 1.0 / USERS)
    design = CellDesign(np.full(CELLS, USERS), same, same, 0 * same, 0 * same)
    votes, edges = np.histogram(values, 16, BOUNDS)
    law = PooledLaw.of(edges, votes.astype(float), Laplace(noise), float(values.size))
    shares = np.full(CELLS, 1.0 / CELLS)
    return estimate_view(MeanView((look,), design, SPREAD, BOUNDS, shares, law if beyond else None))


def test_intervals_hold_where_a_few_users_lie_far_beyond():
    """The range alone says nothing of them; the histogram does, on the side where they are."""
    values = fleet()
    truth = values.mean(axis=1)
    blind, seen = estimates(values, beyond=False), estimates(values)
    assert not ((blind.low <= truth) & (truth <= blind.high)).any()
    assert ((seen.low <= truth) & (truth <= seen.high)).all()
    assert np.abs(seen.estimate - truth).mean() < 0.3 * np.abs(blind.estimate - truth).mean()
    assert (seen.surplus > 1.0).all()
    assert (seen.high - seen.estimate > 2 * (blind.high - blind.estimate)).all()
    assert (seen.expected_error > blind.expected_error).all()


def test_a_surplus_that_may_be_noise_moves_little_and_widens():
    """Of a law without a tail, noise of the histogram makes intervals wider, not estimates off."""
    values = fleet(far=0.0)
    calm, loud = estimates(values, noise=0.1), estimates(values, noise=20.0)
    truth = values.mean(axis=1)
    assert np.abs(calm.estimate - truth).max() < 0.5
    assert (loud.high >= calm.high - 0.1).all()
    assert ((loud.low <= truth) & (truth <= loud.high)).all()
