"""Tilted shapes and the pooled shape: closed forms, limits without noise, sums of 1."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil.mechanisms.distribution.pooled_shape import NARROW, WIDE, PooledShape
from hexveil.mechanisms.distribution.shape_statistics import AskedPoints, pooled_ranks
from hexveil.mechanisms.distribution.tilt_estimation import (
    fit_bins,
    legendre_terms,
    solve_tilts,
    tilt,
    tilt_to_means,
)
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.occupancy import LocalOccupancy

SHARES = np.array([0.05, 0.2, 0.3, 0.1, 0.25, 0.1])


def test_tilts_are_solved_for_ranks_and_means():
    """The mean rank, or the mean value, is the one that was asked for."""
    ranks = pooled_ranks(SHARES)
    asked = np.array([0.2, 0.35, 0.5, 0.8])
    tilts = solve_tilts(SHARES, ranks, asked)
    found = tilt(SHARES, legendre_terms(SHARES, 1), tilts[:, None])
    assert np.allclose(found @ ranks, asked, atol=1e-9)
    assert np.allclose(tilt(SHARES, legendre_terms(SHARES, 1), np.zeros((1, 1))), SHARES)
    values = np.linspace(0.05, 0.95, 6)
    means = np.array([0.1, 0.4, 0.6, 0.9])
    assert np.allclose(tilt_to_means(found, values, means) @ values, means, atol=1e-6)


@pytest.mark.parametrize("levels", [(), (0.5,), (0.01, 0.3, 0.85, 0.999)])
@pytest.mark.parametrize("thresholds", [(), (0, 3), (2,)])
def test_ranks_count_the_points_below_a_record(levels, thresholds):
    """Of records spread evenly within bins; their mean is that of the shares above the points."""
    above = np.array([np.arange(6) > edge for edge in thresholds], dtype=bool).reshape(-1, 6)
    points = AskedPoints(np.array(levels), above)
    ranks, place = points.ranks(SHARES), (np.arange(100_000) + 0.5) / 100_000
    own = np.searchsorted(np.cumsum(SHARES), place)
    counted = [
        place / 2,
        *(place > level for level in levels),
        *(own > edge for edge in thresholds),
    ]
    weight = len(counted) - 0.5
    mean = np.bincount(own, np.sum(counted, axis=0)) / np.bincount(own) / weight
    assert np.allclose(ranks, mean, atol=1e-4)
    assert (np.diff(ranks) > 0).all()
    assert 0 < ranks[0] < ranks[-1] < 1
    shares = [0.25, *(1 - level for level in levels), *(above @ SHARES)]
    assert ranks @ SHARES == pytest.approx(np.sum(shares) / weight)


def test_bins_without_noise_are_fitted():
    """With next to no noise, the fitted shapes have the measured bins."""
    place = np.array([0, 0, 1, 2, 2, 3])
    rng = np.random.default_rng(1)
    true = tilt(SHARES, legendre_terms(SHARES), rng.normal(0, 0.5, (40, 3)))
    noisy = 5.0 * np.stack([true[:, place == b].sum(axis=1) for b in range(4)], axis=1)
    fit = fit_bins(SHARES, noisy, place, np.full(40, 5.0), np.full(40, 1e-8))
    found = tilt(SHARES, legendre_terms(SHARES), fit.alpha)
    assert np.abs(found - true).max() < 0.01
    # With nothing but noise all cells are the same, and nothing collapses.
    vague = fit_bins(SHARES, noisy, place, np.full(40, 5.0), np.full(40, 1e6))
    assert np.abs(vague.alpha - vague.alpha.mean(axis=0)).max() < 1e-3
    assert (np.linalg.eigvalsh(vague.covariance) > 0.01).all()


def noisy_cells(alpha, deviation, seed):
    """Return noisy bins of tilted shapes, of weight 1, and their places."""
    place = np.array([0, 0, 1, 2, 2, 3])
    true = tilt(SHARES, legendre_terms(SHARES), alpha)
    bins = np.stack([true[:, place == b].sum(axis=1) for b in range(4)], axis=1)
    return bins + np.random.default_rng(seed).normal(0, deviation, bins.shape), place


def test_cells_take_after_those_of_their_labels():
    """Where tilts follow two labels, cells that share them halve the error; where not, no harm."""
    rng = np.random.default_rng(3)
    place, slot = np.divmod(np.arange(120), 20)
    of_place, of_slot, own = (rng.normal(0, 0.6, (n, 3)) for n in (6, 20, 120))
    for alpha, most in ((of_place[place] + of_slot[slot], 0.7), (own, 1.1)):
        noisy, bins = noisy_cells(alpha, 0.1, seed=4)
        known = (SHARES, noisy, bins, np.ones(120), np.full(120, 0.01))
        alone, together = fit_bins(*known), fit_bins(*known, groups=(place, slot))
        errors = [np.abs(fit.alpha[:, 0] - alpha[:, 0]).mean() for fit in (alone, together)]
        assert errors[1] < most * errors[0]
    # A label of its own for each cell says nothing.
    labelled = fit_bins(*known, groups=(np.arange(120),))
    assert np.array_equal(labelled.alpha, alone.alpha)


@pytest.mark.parametrize("epsilon", ["0.1", "400"])
def test_a_shape_is_positive_and_adds_up(epsilon):
    """Whatever the noise makes of the bins, shares are positive and add up to 1."""
    crowd = LocalOccupancy.from_dense([[1] * 30])
    plan = PooledShape(crowd.local(), np.arange(1, 65) * 3, Fraction(epsilon))
    rng = np.random.default_rng(2)
    for size in (0, 1, 10**9):
        rows = {WIDE: rng.integers(-size, size + 1, (1, plan.next_stage(Outputs()).entries))}
        if plan.bins.n_narrow:
            rows[NARROW] = rng.integers(-size, size + 1, (1, 20))
        shares = plan.shares(Outputs(rows))
        assert (shares > 0).all()
        assert shares.sum() == pytest.approx(1.0)
