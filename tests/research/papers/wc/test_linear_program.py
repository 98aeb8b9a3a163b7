"""Claims about the optimal error: a wrong formula turns their verdicts."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from hexveil_research.papers.wc import linear_program

DRAWN = linear_program.instances(seed=1, number=60)


@pytest.mark.parametrize("number", range(12))
def test_the_dual_program_is_solved_by_the_largest_users_first(number):
    """Its value is what a solver finds for the program (8) itself."""
    one = DRAWN[number]
    users = one.counts.size
    found = linprog(
        np.append(np.ones(users), 1 / float(one.epsilon)),
        A_ub=np.hstack([-2.0 * np.eye(users), -np.ones((users, 1))]),
        b_ub=-one.span * one.counts,
    )
    assert linear_program.dual_value(one) == pytest.approx(found.fun / one.counts.sum(), rel=1e-7)


def test_an_error_that_is_not_optimal_is_found():
    """One percent more, one percent less, and the printed form fail."""
    assert linear_program.program_claim(DRAWN, linear_program.optimal_error).holds
    for factor in (0.99, 1.01):
        wrong = linear_program.program_claim(
            DRAWN, lambda *cell, f=factor: f * linear_program.optimal_error(*cell)
        )
        assert not wrong.holds
    printed = linear_program.program_claim(
        DRAWN, lambda m, span, e: linear_program.printed_error(linear_program.Instance(m, span, e))
    )
    assert not printed.holds


def test_the_claim_of_the_printed_error_can_hold():
    """Users of one sample each, nobody projected: eq. (12) is right; with larger ones it is not."""
    alike = linear_program.Instance(np.ones(3, dtype=np.int64), 1.0, Fraction(2, 3))
    unlike = linear_program.Instance(np.array([4, 4, 1, 1]), 1.0, Fraction(1))
    assert linear_program.printed_error(alike) == pytest.approx(alike.error)
    assert [claim.holds for claim in linear_program.closed_form([alike])] == [True, True]
    assert [claim.holds for claim in linear_program.closed_form([unlike])] == [False, True]


def test_the_claim_of_the_proofs_multipliers_can_hold():
    """Where nothing is kept of anybody, T = 0, the proof's multipliers are right; else they lack.

    Fewer than 2/ε users lie above the ⌈2/ε⌉-th, so that for T > 0 their sum is below 1/ε.
    """
    few = [one for one in DRAWN if one.threshold == 0]
    many = [one for one in DRAWN if one.threshold > 0]
    assert len(few) > 3
    assert [claim.holds for claim in linear_program.multipliers(few)] == [True, True]
    for one in many:
        assert [claim.holds for claim in linear_program.multipliers([one])] == [False, True]
