"""Worst-case biases against exhaustive search over values on a 5-point grid."""

import numpy as np
import pytest

from hexveil import theory
from hexveil.base.errors import InputError
from small_cells import SPAN, VECTORS, keeps, mask, name, owners, values, variance


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


def test_the_printed_worst_case_bias_of_best_fit_is_too_small():
    """Counts (2, 1) at cap 2: Lemma V.1 says no bias; arrays [2] and [1] weigh users equally."""
    printed = theory.truncation_mean_bias([2, 1], [2, 1], 6.0)
    assert printed == 0.0
    assert theory.linear_bias(theory.best_fit([2, 1], 2).weights, [2, 1], 6.0) == pytest.approx(1.0)


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


def test_the_printed_clipping_bias_ignores_cancelling_errors():
    """ERRATA 14: intervals [1, 2] and [0, 1] of [0, 2]: printed 1, true one half."""
    assert printed_clipping_bias(np.array([1.0, 0.0]), np.array([2.0, 1.0])) == 1.0
    assert theory.clipping_bias([1.0, 0.0], [2.0, 1.0], SPAN) == 0.5


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
