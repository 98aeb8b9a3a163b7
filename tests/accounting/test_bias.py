"""Worst-case biases of dropping, weighing and clipping against exhaustive search over values."""

import numpy as np
import pytest

from accounting.small_cells import (
    SMALL,
    SPAN,
    VECTORS,
    keeps,
    mask,
    moved,
    name,
    owners,
    values,
    variance,
)
from hexveil import theory
from hexveil.base.errors import InputError


def printed_variance_bias(kept, counts):
    """COMP Theorem IV.2 with its conditions as printed."""
    n, total = sum(kept), sum(counts)
    if n == total:
        return 0.0
    if total > 2 * n:
        return SPAN**2 * n * (total - n) / total**2
    return SPAN**2 / 4 * (1 - total % 2 / total**2)


@pytest.mark.parametrize("counts", VECTORS, ids=name)
def test_truncation_biases_are_exact(counts):
    """COMP Theorem IV.1, and IV.2 as in ERRATA 1, for every number of kept samples."""
    x, total = values(sum(counts)), sum(counts)
    all_mean, all_var = x.mean(axis=1), x.var(axis=1)
    seen = set()
    for kept in keeps(counts):
        if not sum(kept) or sum(kept) in seen:
            continue  # exchangeable samples: only n and N matter
        seen.add(sum(kept))
        mass = mask(kept, counts) / sum(kept)
        mean, var = np.abs(x @ mass - all_mean).max(), np.abs(variance(x, mass) - all_var).max()
        assert theory.truncation_mean_bias(kept, counts, SPAN) == pytest.approx(mean, abs=1e-9)
        stated = theory.truncation_variance_bias(kept, counts, SPAN)
        assert stated == pytest.approx(var, abs=1e-9)
        if 2 * sum(kept) < total and total // 2 != sum(kept):
            assert printed_variance_bias(kept, counts) < var - 1e-3


def test_the_printed_variance_bias_has_its_cases_swapped():
    """ERRATA 1: with one of four samples kept it says 0.75, and 1 is reached; and the reverse."""
    assert printed_variance_bias([1, 0], [2, 2]) == 0.75
    assert theory.truncation_variance_bias([1, 0], [2, 2], SPAN) == 1.0
    assert printed_variance_bias([2, 1], [2, 2]) == 1.0
    assert theory.truncation_variance_bias([2, 1], [2, 2], SPAN) == 0.75


@pytest.mark.parametrize("counts", VECTORS, ids=name)
def test_linear_biases_are_exact(counts):
    """ERRATA 8 for weights that do and do not sum to one, with and without a constant."""
    draw = np.random.default_rng(sum(counts))
    x, m = values(sum(counts)), np.array(counts)
    for weights in (draw.dirichlet(np.ones(m.size)), draw.random(m.size), np.zeros(m.size)):
        error = x @ (weights / m)[owners(counts)] - x.mean(axis=1)
        plain = theory.linear_bias(weights, counts, SPAN)
        assert plain == pytest.approx(np.abs(error).max(), abs=1e-9)
        shifted = np.abs(error + theory.best_offset(weights, SPAN)).max()
        best = theory.linear_bias(weights, counts, SPAN, offset="best")
        assert best == pytest.approx(shifted, abs=1e-9)
        assert best == pytest.approx(np.ptp(error) / 2, abs=1e-9)  # no constant does better


@pytest.mark.parametrize("counts", VECTORS, ids=name)
def test_groupings_have_the_bias_of_their_weights(counts):
    """ERRATA 8, for both groupings at every cap."""
    x, m = values(sum(counts)), np.array(counts)
    for cap in range(1, max(counts) + 1):
        for group in (theory.best_fit, theory.wrap_around):
            weights = group(counts, cap).weights
            error = np.abs(x @ (weights / m)[owners(counts)] - x.mean(axis=1)).max()
            assert theory.linear_bias(weights, counts, SPAN) == pytest.approx(error, abs=1e-9)


@pytest.mark.parametrize("counts", VECTORS, ids=name)
def test_clipping_biases_are_exact(counts):
    """ERRATA 14 for random intervals per sample; the printed sum is only a bound."""
    draw, x = np.random.default_rng(sum(counts)), values(sum(counts))
    for _ in range(3):
        lower, upper = np.sort(draw.random((2, sum(counts))) * SPAN, axis=0)
        error = (np.clip(x, lower, upper) - x).mean(axis=1)
        stated = theory.clipping_bias(lower, upper, SPAN)
        assert stated == pytest.approx(np.abs(error).max(), abs=1e-9)
        assert stated <= printed_clipping_bias(lower, upper) + 1e-12
        best = theory.clipping_bias(lower, upper, SPAN, offset="best")
        assert best == pytest.approx(np.ptp(error) / 2, abs=1e-9)


def printed_clipping_bias(lower, upper):
    """WC Lemma III.1's bias term: the larger end of each interval, summed."""
    return float(np.maximum(lower, SPAN - upper).mean())


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 0.9, 2.0])
def test_optimal_clipping_has_the_error_of_its_intervals(epsilon):
    """ERRATA 5: its least error is this bias plus the noise of the widest interval."""
    for counts in VECTORS:
        clip = theory.optimal_clipping(counts, SPAN, epsilon)
        bias = theory.clipping_bias(clip.lower, clip.upper, SPAN, counts)
        noise = ((clip.upper - clip.lower) * counts).max() / sum(counts) / epsilon
        assert clip.worst_case_error == pytest.approx(bias + noise, abs=1e-9)


@pytest.mark.parametrize("kept", [[1], [3, 1], [-1, 1], [0.5, 1.0], [[1, 1]]])
def test_kept_samples_out_of_range_are_refused(kept):
    """Too few, more than the count, negative, broken numbers."""
    with pytest.raises(InputError, match="contributions need a whole number from 0 to the count"):
        theory.truncation_mean_bias(kept, [2, 1], 1.0)


def test_bad_arguments_are_refused_in_a_sentence():
    """Nothing kept, a weight missing, an interval turned round, an unknown offset."""
    with pytest.raises(InputError, match="at least one sample must contribute"):
        theory.truncation_variance_bias([0, 0], [2, 1], 1.0)
    with pytest.raises(InputError, match="weights needs one finite number for each of the 2"):
        theory.linear_bias([1.0], [2, 1], 1.0)
    for lower, upper in (([0.6], [0.5]), ([0.1, -0.1], [0.5, 0.5]), ([0.1, 0.1], [0.5, 1.1])):
        with pytest.raises(InputError, match=r"within \[0, 1.0\]"):
            theory.clipping_bias(lower, upper, 1.0)
    with pytest.raises(InputError, match='offset must be None or "best"'):
        theory.linear_bias([0.5, 0.5], [2, 1], 1.0, offset="worst")


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
