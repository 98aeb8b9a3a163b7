"""Estimates before clipping: what is published of a posterior, and what recipients can check."""

import numpy as np
import pytest

from hexveil.mechanisms.pooled_law import MeanView
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


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_stated():
    """Over 60 maps of the model with a range that cuts, 93 to 99.5 percent are held."""
    rng, held, errors, expected = np.random.default_rng(12), [], [], []
    for _ in range(60):
        n_cells, users = 20, 40
        true = rng.normal(40.0, 6.0, n_cells)
        means = true[:, None] + rng.normal(0.0, 5.0, (n_cells, users))
        noisy = np.clip(means, 28.0, 52.0).mean(axis=1) + rng.laplace(0.0, 0.8, n_cells)
        made = estimates_of([look_at(noisy, 28.0, 52.0, 0.8)], design_of(n_cells, users))
        average = means.mean(axis=1)
        held.append((made.low <= average) & (average <= made.high))
        errors.append(np.abs(made.estimate - average))
        expected.append(made.expected_error)
    assert 0.93 <= np.mean(held) <= 0.995
    # The model allows for tails that these normal values do not have: it errs on the safe side.
    assert np.mean(errors) <= np.mean(expected) <= 1.8 * np.mean(errors)


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
