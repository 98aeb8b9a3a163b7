"""Estimates before clipping: what is published of a posterior, and what lies beyond ranges."""

import numpy as np
import pytest

from hexveil.accounting.noise_law import Laplace
from hexveil.mechanisms.pooled_law import MeanView, PooledLaw
from hexveil.publishing.estimates.accuracy import deviation_of
from hexveil.publishing.estimates.posterior_estimates import estimate_view
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

BOUNDS = 0.0, 100.0
SPREAD = UserMeanSpread(40.0, 8.0, 8.0, 5.0)


def design_of(n_cells, users=50):
    """Return cells of users with equal weights, which are their shares of the records."""
    same, none = np.full(n_cells, 1.0 / users), np.zeros(n_cells)
    return CellDesign(np.full(n_cells, users), same, same, none, none)


def look_at(noisy, lower=30.0, upper=50.0, scale=0.2):
    """Return a look at cells, with one range and scale unless they are given by cell."""
    noisy = np.array(noisy, dtype=float)
    ends = (np.broadcast_to(np.asarray(one, dtype=float), noisy.shape) for one in (lower, upper))
    return ClippedLook(noisy, *ends, np.broadcast_to(np.asarray(scale, dtype=float), noisy.shape))


def made_of(*looks):
    """Return the estimates of looks at cells of fifty users."""
    return estimates_of(looks, design_of(looks[0].noisy.size))


def estimates_of(looks, design, spread=SPREAD, bounds=BOUNDS):
    """Return the estimates of looks, without a law of what lies beyond."""
    return estimate_view(MeanView(tuple(looks), design, spread, bounds, design.weight_squares))


def test_a_range_that_is_tight_against_the_spread_within_cells_is_known():
    """It holds less than half of a cell's users by the fitted law; an end at a bound is none."""
    level = [40.0, 41.0, 39.0, 40.5]
    ends = {"lower": [39.5, 20.0, 0.0, 38.0], "upper": [40.5, 60.0, 41.0, 43.0]}
    made = made_of(look_at(level, **ends))
    assert made.tight.tolist() == [True, False, False, True]
    wide = made_of(look_at(level, *BOUNDS))
    assert not wide.tight.any()


def test_the_last_look_at_a_cell_decides():
    """A second look in a range of its own replaces the first; a cell without one keeps it."""
    first = look_at([49.9, 49.9, 40.0, 38.0, 41.0])
    second = look_at([70.0, 0.0, 0.0, 0.0, 0.0], 55.0, 85.0, [0.2, *[np.inf] * 4])
    made = made_of(first, second)
    assert made.cut_off.above.tolist() == [False, True, False, False, False]
    assert abs(made.estimate[0] - 70.0) < 1.0
    alone = made_of(first)
    assert made.expected_error[0] < alone.expected_error[0]


def test_the_deviation_by_moments_solves_its_equation():
    """Σ (y - m)² / (v + d²) is n - 1 with the weighted average m, for unequal noise."""
    rng = np.random.default_rng(3)
    variance = rng.uniform(0.5, 40.0, 60)
    numbers = rng.normal(20.0, np.sqrt(variance + 25.0))
    columns = {"noisy": numbers, "scale": np.sqrt(variance / 2.0), "bias": 0.0, "bound95": 0.0}
    weight = 1.0 / (variance + deviation_of("mean", columns, None) ** 2)
    centre = np.average(numbers, weights=weight)
    assert np.sum(weight * (numbers - centre) ** 2) == pytest.approx(59.0)


def test_one_outlying_cell_does_not_make_all_others_good():
    """The deviation is that of the middle 68 percent: a cell at the far end hardly moves it."""
    usual = np.linspace(38.0, 42.0, 21)
    alone = made_of(look_at(usual, *BOUNDS, 0.1)).deviation
    with_outlier = made_of(look_at([*usual, 95.0], *BOUNDS, 0.1)).deviation
    assert with_outlier < 1.3 * alone < 3.0


def test_a_narrow_law_within_wide_bounds_is_no_pile():
    """Air sensors: user means that fill a thirtieth of the bounds keep their precise numbers.

    They were taken for values piled at one point, whose spread nothing is known of: estimates were
    three times as far off as the raw numbers that they were made from.
    """
    rng = np.random.default_rng(5)
    bounds, n, users = (0.0, 500.0), 44, 14
    truth = rng.normal(23.0, 5.0, n)
    noisy = truth + rng.laplace(0.0, 1.5, n) + rng.normal(0.0, 1.0, n)
    seen = look_at(noisy, 10.0, 40.0, 1.5)
    narrow = UserMeanSpread(23.4, 8.1, 8.1, None)
    made = estimates_of([seen], design_of(n, users), narrow, bounds)
    raw, estimated = (np.abs(one - truth).mean() for one in (noisy, made.estimate))
    assert estimated < 1.2 * raw
    assert ((made.low <= truth) & (truth <= made.high)).mean() > 0.9


# ---- what lies beyond the ranges ----

ENDS, CELLS, USERS = (0.0, 64.0), 6, 500


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
    votes, edges = np.histogram(values, 16, ENDS)
    law = PooledLaw.of(edges, votes.astype(float), Laplace(noise), float(values.size))
    shares = np.full(CELLS, 1.0 / CELLS)
    spread, design = UserMeanSpread(12.0, 4.0, 4.0, 4.0), design_of(CELLS, USERS)
    return estimate_view(MeanView((look,), design, spread, ENDS, shares, law if beyond else None))


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
