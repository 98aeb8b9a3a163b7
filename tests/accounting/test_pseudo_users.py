"""The two groupings against the papers' rules applied user by user."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import theory
from hexveil.base.errors import InputError

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=40)


def by_size(counts):
    return sorted(range(len(counts)), key=lambda user: -counts[user])


def one_by_one(counts, cap):
    """IOT Algorithm 2 as printed: (array of each user, fill of each array)."""
    fill, home = [0] * len(counts), [0] * len(counts)
    for user in by_size(counts):
        size = min(counts[user], cap)
        fits = [a for a in range(len(fill)) if cap - fill[a] >= size]
        home[user] = max(fits, key=lambda a: (fill[a], -a))
        fill[home[user]] += size
    return home, [places for places in fill if places]


def sample_by_sample(counts, cap):
    """IOT Algorithm 1 as printed: the owner of each place of each kept array."""
    arrays = [[]]
    for user in by_size(counts):
        for _ in range(min(counts[user], cap)):
            if len(arrays[-1]) == cap:
                arrays.append([])
            arrays[-1].append(user)
    return [array for array in arrays if len(array) == cap]


def compositions(total):
    if not total:
        yield ()
    for first in range(1, total + 1):
        for rest in compositions(total - first):
            yield (first, *rest)


def assert_best_fit(counts, cap):
    groups = theory.best_fit(counts, cap)
    home, fill = one_by_one(list(counts), cap)
    assert groups.array_of_user.tolist() == home
    assert groups.fill.tolist() == fill
    assert groups.n_arrays == len(fill)


def assert_wrap_around(counts, cap):
    groups = theory.wrap_around(counts, cap)
    arrays = sample_by_sample(list(counts), cap)
    held = np.zeros((groups.n_arrays, len(counts)), dtype=int)
    held[groups.piece_array, groups.piece_user] = groups.piece_size
    truth = [np.bincount(array, minlength=len(counts)).tolist() for array in arrays]
    assert held.tolist() == truth
    first = [next((a for a, x in enumerate(arrays) if u in x), -1) for u in range(len(counts))]
    assert groups.array_of_user.tolist() == first
    assert groups.fill.tolist() == [cap] * len(arrays)


@pytest.mark.parametrize("total", range(1, 10))
def test_every_small_count_vector_is_grouped_as_the_rules_say(total):
    """All count vectors of a total up to nine, in every order, for every cap."""
    for counts in compositions(total):
        for cap in range(1, max(counts) + 2):
            assert_best_fit(counts, cap)
            if sum(min(m, cap) for m in counts) >= cap:
                assert_wrap_around(counts, cap)


@given(COUNTS, st.integers(1, 40))
def test_larger_cells_are_grouped_as_the_printed_loops_do(counts, cap):
    """Runs of equal users and cumulative sums place each sample where the loops do, ties too."""
    assert_best_fit(counts, cap)
    assert_wrap_around(counts, min(cap, max(counts)))


@given(COUNTS, st.integers(1, 30))
def test_best_fit_needs_at_least_the_arrays_of_wrap_around(counts, cap):
    """K̄ >= K, and under BESTFIT every user is in exactly one array (IOT section III-A)."""
    cap = min(cap, max(counts))
    fit, wrap = theory.best_fit(counts, cap), theory.wrap_around(counts, cap)
    assert fit.n_arrays >= wrap.n_arrays
    assert fit.piece_user.tolist() == list(range(len(counts)))
    most = np.bincount(wrap.piece_user).max()
    assert most <= 2
    assert wrap.piece_size.min() > 0
    assert wrap.user_sensitivity(1.0, 1e-9).max() == pytest.approx(most * 1e-9 / wrap.n_arrays)


def measured_sensitivity(groups, low, high):
    """Exhaustive: user means on a 5-point grid of [0, 1], array means projected to [low, high]."""
    n_users = groups.weights.size
    means = np.array(list(product(np.linspace(0, 1, 5), repeat=n_users)))
    held = np.zeros((n_users, groups.n_arrays))
    held[groups.piece_user, groups.piece_array] = groups.piece_share
    values = np.clip(means @ held, low, high).mean(axis=1).reshape((5,) * n_users)
    return [float(np.ptp(values, axis=user).max()) for user in range(n_users)]


@pytest.mark.parametrize("total", range(1, 8))
def test_plain_sensitivity_is_exact_and_below_the_printed_one(total):
    """ERRATA 7: U max w <= U/K is attained under both groupings; IOT's 2U/K never is."""
    for counts in compositions(total):
        if len(counts) > 5:
            continue
        for cap in range(1, max(counts) + 1):
            wrap, fit = theory.wrap_around(counts, cap), theory.best_fit(counts, cap)
            for groups in (wrap, fit):
                truth = measured_sensitivity(groups, 0.0, 1.0)
                assert groups.user_sensitivity(1.0).tolist() == pytest.approx(truth, abs=1e-9)
            printed = 2.0 / wrap.n_arrays
            assert wrap.user_sensitivity(1.0).max() == pytest.approx(printed / 2, abs=1e-12)


def test_projected_wrap_around_needs_the_factor_two():
    """ERRATA 7: a user in two arrays moves both projected means by the width: 2(b - a)/K."""
    groups = theory.wrap_around([4, 3, 3, 2], 4)
    truth = measured_sensitivity(groups, 0.5, 0.625)
    stated = groups.user_sensitivity(1.0, 0.125)
    assert max(truth) == pytest.approx(2 * 0.125 / groups.n_arrays, abs=1e-9)
    assert stated.max() == pytest.approx(max(truth), abs=1e-9)
    assert theory.best_fit([4, 3, 3, 2], 4).user_sensitivity(1.0, 0.125).max() == pytest.approx(
        0.125 / 4, abs=1e-12
    )


@pytest.mark.parametrize("cap", [0, -1, 2.0, True, "3"])
def test_a_cap_that_is_no_positive_whole_number_is_refused(cap):
    """The error names the cap and what it must be."""
    with pytest.raises(InputError, match="cap must be a whole number of at least 1"):
        theory.best_fit([2, 1], cap)


def test_bad_counts_and_an_unfillable_array_are_refused():
    """A count below one, and a cap of more samples than the cell has under WRAPAROUND."""
    with pytest.raises(InputError, match="counts must be whole numbers"):
        theory.best_fit([2, 0], 1)
    with pytest.raises(InputError, match="more than the cell's 3 samples"):
        theory.wrap_around([2, 1], 4)
