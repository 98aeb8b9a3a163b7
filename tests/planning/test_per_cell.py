from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.planning.optimizers.per_cell import largest_cell_epsilon, max_relative_loss
from strategies import occupancies

MECHANISMS = st.sampled_from([hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping()])
LOSSES = st.fractions(Fraction(1, 50), Fraction(20)).filter(lambda e: e > 0)


def exact_loss(occupancy, cell_epsilon, mechanism):
    """Return the largest loss of a user by plain loops over exact fractions."""
    kept = occupancy.kth_largest(mechanism.rank(cell_epsilon))
    loss = [Fraction(0)] * occupancy.n_users
    for cell, user, n in zip(occupancy.cell, occupancy.user, occupancy.n, strict=True):
        if kept[cell]:
            loss[user] += cell_epsilon * Fraction(min(int(n), int(kept[cell])), int(kept[cell]))
    return max(loss)


@given(occupancies(), LOSSES, MECHANISMS)
def test_common_loss_is_within_the_budget(occupancy, epsilon, mechanism):
    """The common cell loss that is found never costs a user more than asked."""
    found = largest_cell_epsilon(occupancy, epsilon, mechanism)
    assert exact_loss(occupancy, found, mechanism) <= epsilon


@given(occupancies(), LOSSES, MECHANISMS, st.lists(st.integers(1, 2000), max_size=30))
def test_no_larger_common_loss_is_within_the_budget(occupancy, epsilon, mechanism, steps):
    """Every larger common cell loss that is tried costs some user more, or publishes nothing."""
    found = largest_cell_epsilon(occupancy, epsilon, mechanism)
    ends = [Fraction(2, k) for k in range(1, 12)]
    tried = [found * (1 + Fraction(s, 500)) for s in steps] + [e for e in ends if e > found * 1.001]
    for larger in tried:
        kept = occupancy.kth_largest(mechanism.rank(larger))
        if (kept > 0).any():
            assert exact_loss(occupancy, larger, mechanism) > epsilon * (1 - Fraction(1, 10**9))


def test_skipping_ranks_finds_the_same_as_trying_each():
    """On a large occupancy the search agrees with trying every rank in turn."""
    rng = np.random.default_rng(5)
    dense = rng.poisson(0.6, (400, 60)) * rng.integers(1, 30, (400, 60))
    dense[:, dense.sum(axis=0) == 0] = 1
    dense = dense[dense.sum(axis=1) > 0]
    occupancy, epsilon, mechanism = (
        hv.Occupancy.from_dense(dense),
        Fraction(1),
        hv.mechanisms.OptimalClipping(),
    )
    slow = next(
        min(epsilon / Fraction(max_relative_loss(occupancy, k, k)), Fraction(2, max(k - 1, 1)))
        for k in range(1, 400)
        if epsilon / Fraction(max_relative_loss(occupancy, k, k)) >= Fraction(2, k)
    )
    found = largest_cell_epsilon(occupancy, epsilon, mechanism)
    assert float(found) == pytest.approx(float(slow), rel=1e-9)
