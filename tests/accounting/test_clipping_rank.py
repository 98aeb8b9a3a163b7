import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hexveil import theory

COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=9)
EPSILONS = st.fractions(Fraction(1, 20), Fraction(6))


def error_of(threshold, counts, span, epsilon):
    """Return worst-case bias plus expected |noise| of projecting to U/2 ± T/(2m)."""
    reach = span * np.asarray(counts, dtype=float)
    bias = np.maximum(reach - threshold, 0).sum() / 2
    return (bias + np.minimum(threshold, reach).max() / epsilon) / sum(counts)


def program(counts, span, epsilon):
    """Return the optimum of the linear program WC (8), divided by the samples.

    Variables: the bias of each user, then S; U m - 2 (bias of the user) <= S.
    """
    users = len(counts)
    rows = np.hstack([-2.0 * np.eye(users), -np.ones((users, 1))])
    cost = np.append(np.ones(users), 1.0 / epsilon)
    found = linprog(cost, A_ub=rows, b_ub=-span * np.asarray(counts, dtype=float))
    assert found.success
    return found.fun / sum(counts)


def free_program(counts, span, epsilon):
    """Return the least error over *all* projection intervals, with the exact bias of ERRATA 14.

    Variables: a and b per user (0 <= a, b <= U), the bias B and the sensitivity S.
    B >= Σ m a, B >= Σ m (U - b), S >= m (b - a).
    """
    m = np.asarray(counts, dtype=float)
    users = len(counts)
    zero = np.zeros(users)
    low = np.concatenate([m, zero, [-1, 0]])
    high = np.concatenate([zero, -m, [-1, 0]])
    width = np.hstack([-np.diag(m), np.diag(m), np.zeros((users, 1)), -np.ones((users, 1))])
    order = np.hstack([np.eye(users), -np.eye(users), np.zeros((users, 2))])  # a <= b
    found = linprog(
        np.concatenate([zero, zero, [1, 1 / epsilon]]),
        A_ub=np.vstack([low, high, width, order]),
        b_ub=np.concatenate([[0], [-span * m.sum()], zero, zero]),
        bounds=[(0, span)] * (2 * users) + [(0, None)] * 2,
    )
    assert found.success
    return found.fun / sum(counts)


def random_instance(seed):
    """Return heavy-tailed counts, a span and an ε."""
    rng = np.random.default_rng(seed)
    counts = np.ceil(rng.pareto(1.0, rng.integers(1, 12)) * 3 + 0.1).astype(int).clip(1, 500)
    return counts.tolist(), float(rng.uniform(0.5, 90)), float(rng.uniform(0.1, 3))


@pytest.mark.parametrize("seed", range(60))
def test_error_is_the_optimum_of_the_linear_program(seed):
    """The closed form equals WC (8), and no asymmetric interval does better."""
    counts, span, epsilon = random_instance(seed)
    ours = theory.optimal_clipping(counts, span, epsilon).worst_case_error
    assert ours == pytest.approx(program(counts, span, epsilon), rel=1e-7)
    assert ours == pytest.approx(free_program(counts, span, epsilon), rel=1e-7)


@given(COUNTS, EPSILONS)
def test_no_threshold_does_better(counts, epsilon):
    """Every other threshold, at a kink or between two, has at least the same error."""
    clip = theory.optimal_clipping(counts, 8.0, epsilon)
    kinks = sorted({0.0, *(8.0 * m for m in counts)})
    tried = kinks + [(a + b) / 2 for a, b in itertools.pairwise(kinks)]
    best = min(error_of(t, counts, 8.0, float(epsilon)) for t in tried)
    assert clip.worst_case_error == pytest.approx(best, rel=1e-9)
    assert clip.worst_case_error == pytest.approx(
        error_of(clip.threshold, counts, 8.0, float(epsilon)), rel=1e-12
    )


def test_printed_error_is_wrong():
    """WC eq. (12) as printed understates the least error; ours is what the program finds.

    ERRATA 5: it divides a user's bias by its count and takes the smallest noise for the largest.
    """
    counts, span, epsilon = [20, 8, 2, 1], 10.0, 1.0
    clip = theory.optimal_clipping(counts, span, epsilon)
    reach = span * np.array(counts)
    printed = (
        np.maximum((reach - clip.threshold) / (2 * np.array(counts)), 0).sum()
        + np.minimum(clip.threshold, reach).min() / epsilon
    ) / sum(counts)
    assert clip.worst_case_error == pytest.approx(program(counts, span, epsilon))
    assert clip.worst_case_error > 5 * printed


@given(COUNTS, EPSILONS)
def test_intervals_are_symmetric_and_as_wide_as_the_threshold(counts, epsilon):
    """Each interval lies in the bounds around their middle, T/m wide or whole."""
    clip = theory.optimal_clipping(counts, 8.0, epsilon)
    assert clip.lower + clip.upper == pytest.approx(np.full(len(counts), 8.0))
    width = np.minimum(clip.threshold / np.array(counts), 8.0)
    assert clip.upper - clip.lower == pytest.approx(width, abs=1e-12)
    assert (clip.lower >= 0).all()


@given(COUNTS, EPSILONS, EPSILONS)
def test_more_budget_is_never_more_error(counts, one, two):
    """The least error does not grow with ε."""
    small, large = sorted([one, two])
    errors = [theory.optimal_clipping(counts, 8.0, e).worst_case_error for e in (small, large)]
    assert errors[1] <= errors[0] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "rank"), [("0.1", 20), (0.1, 20), ("2/3", 3), (1, 2), (2, 1), (1.999, 2), (50, 1)]
)
def test_rank_is_exact(epsilon, rank):
    """The rank is ⌈2/ε⌉ in exact arithmetic: no step too many because 0.1 is no double."""
    assert theory.clipping_rank(epsilon) == rank


def test_too_few_users_publish_the_middle():
    """With fewer users than ⌈2/ε⌉ the threshold is 0: half the span of error and no noise."""
    clip = theory.optimal_clipping([5, 3], 8.0, "0.5")
    assert (clip.threshold, clip.worst_case_error) == (0.0, 4.0)
    assert clip.lower.tolist() == clip.upper.tolist() == [4.0, 4.0]
