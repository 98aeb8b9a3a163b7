"""Re-weighting and the midpoint against exhaustive search over values on a 5-point grid."""

import numpy as np
import pytest

from hexveil import theory
from small_cells import SMALL, SPAN, VECTORS, keeps, mask, moved, name, owners, values, variance


@pytest.mark.parametrize("counts", VECTORS, ids=name)
def test_reweighting_biases_hold(counts):
    """ERRATA 9: the mean's bias is exact and at most that of dropping, the variance's a bound."""
    x, m = values(sum(counts)), np.array(counts)
    squares, all_mean, all_var = x**2, x.mean(axis=1), x.var(axis=1)
    largest = {}
    for kept in keeps(counts):
        if not sum(kept):
            continue
        # All values are tried, so that users with equal counts can be exchanged.
        alike = tuple(sorted(zip(counts, kept, strict=True)))
        if alike not in largest:
            mass = (theory.contribution_weights(kept, counts) / m)[owners(counts)]
            mean = x @ mass
            var = squares @ mass - mean**2
            largest[alike] = np.abs(mean - all_mean).max(), np.abs(var - all_var).max()
        stated = theory.reweighted_mean_bias(kept, counts, SPAN)
        assert stated == pytest.approx(largest[alike][0], abs=1e-9)
        assert stated <= theory.truncation_mean_bias(kept, counts, SPAN) + 1e-12
        assert largest[alike][1] <= theory.reweighted_variance_bias(kept, counts, SPAN) + 1e-9


@pytest.mark.parametrize("counts", SMALL, ids=name)
def test_reweighting_sensitivities_hold(counts):
    """ERRATA 9: exact for weights up to one half, U²/4 a bound beyond."""
    x, m = values(sum(counts)), np.array(counts)
    for kept in keeps(counts):
        if not sum(kept):
            continue
        weights = theory.contribution_weights(kept, counts)
        mass = (weights / m)[owners(counts)]
        mean, var = x @ mass, variance(x, mass)
        for user, weight in enumerate(weights):
            s_mean = theory.user_reweighted_mean_sensitivity(kept, counts, SPAN)[user]
            s_var = theory.user_reweighted_variance_sensitivity(kept, counts, SPAN)[user]
            assert s_mean == pytest.approx(moved(mean, counts, user), abs=1e-9)
            assert moved(var, counts, user) <= s_var + 1e-9
            if weight <= 0.5:
                assert s_var == pytest.approx(moved(var, counts, user), abs=1e-9)


def test_kept_counts_in_the_sensitivity_of_plain_counts_are_not_private():
    """ERRATA 9: COMP Proposition III.1 on Γ = (2, 1) of m = (4, 1) gives 2/9, and 1/4 is true."""
    counts, kept = (4, 1), (2, 1)
    mass = (theory.contribution_weights(kept, counts) / np.array(counts))[owners(counts)]
    true = moved(variance(values(5), mass), counts, 0) / SPAN**2
    assert true == pytest.approx(0.25)
    assert theory.variance_sensitivity(kept, 1.0) == pytest.approx(2 / 9)
    assert theory.user_reweighted_variance_sensitivity(kept, counts, 1.0)[0] == 0.25


@pytest.mark.parametrize("counts", VECTORS, ids=name)
def test_midpoint_biases_are_exact(counts):
    """ERRATA 10, for every share of kept samples, none included."""
    x, total = values(sum(counts)), sum(counts)
    for n in range(total + 1):
        kept = np.clip(n - np.cumsum([0, *counts[:-1]]), 0, counts).tolist()
        filled = np.where(mask(kept, counts), x, SPAN / 2)
        mean = np.abs(filled.mean(axis=1) - x.mean(axis=1)).max()
        assert theory.midpoint_mean_bias(kept, counts, SPAN) == pytest.approx(mean, abs=1e-9)
        error = filled.var(axis=1) - x.var(axis=1)
        shifted = np.abs(error + theory.midpoint_variance_offset(kept, counts, SPAN)).max()
        stated = theory.midpoint_variance_bias(kept, counts, SPAN)
        assert stated == pytest.approx(shifted, abs=1e-9)
        assert stated == pytest.approx(np.ptp(error) / 2, abs=1e-9)  # no constant does better


def test_the_midpoint_halves_the_bias_of_dropping():
    """ERRATA 10: for a suppressed mass of at most one half, mean and variance alike."""
    kept, counts = [3, 2, 0], [3, 2, 2]
    mean, var = theory.truncation_mean_bias, theory.truncation_variance_bias
    assert theory.midpoint_mean_bias(kept, counts, 4.0) == pytest.approx(
        mean(kept, counts, 4.0) / 2
    )
    half = var(kept, counts, 4.0) / 2
    assert theory.midpoint_variance_bias(kept, counts, 4.0) == pytest.approx(half)
    delta = 2 / 7
    offset = theory.midpoint_variance_offset(kept, counts, 4.0)
    assert offset == pytest.approx(16 * delta * (1 - delta) / 4)


@pytest.mark.parametrize("counts", SMALL, ids=name)
def test_midpoint_sensitivities_hold(counts):
    """ERRATA 10: exact for the mean, never exceeded for the variance."""
    x = values(sum(counts))
    for kept in keeps(counts):
        filled = np.where(mask(kept, counts), x, SPAN / 2)
        mean, var = filled.mean(axis=1), filled.var(axis=1)
        for user in range(len(counts)):
            s_mean = theory.user_midpoint_mean_sensitivity(kept, counts, SPAN)[user]
            s_var = theory.user_midpoint_variance_sensitivity(kept, counts, SPAN)[user]
            assert s_mean == pytest.approx(moved(mean, counts, user), abs=1e-9)
            assert moved(var, counts, user) <= s_var + 1e-9
