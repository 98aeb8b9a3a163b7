"""WC's studies: each runs, and has the stated lines and claims."""

import numpy as np
import pytest
from scipy.optimize import linprog

import hexveil as hv
from hexveil import theory
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers.wc import clipping_claims, curve_claims, linear_program
from hexveil_research.papers.wc.count_collections import ThresholdCurve, X

# ---- Claims about clipping in general: a wrong formula turns their verdicts ----


def test_a_wrong_bias_is_found():
    """One percent less than the truth fails, and the printed sum is not taken for exact."""

    def less(lower, upper):
        return 0.99 * theory.clipping_bias(lower, upper, 1.0)

    assert not clipping_claims.lemma_1(less)[1].holds
    assert not clipping_claims.lemma_1(clipping_claims.printed_bias)[1].holds


# ---- Claims of what the figures show: that they hold, and that other curves turn them ----


LAPLACE, OPTIMAL, HALVES = (
    one.name
    for one in (hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping(), hv.mechanisms.AKMV())
)
OURS = [Foresight().name, hv.mechanisms.Auto().name]
FALLING = 10 / X


def curve(error, noise=0.01):
    return ThresholdCurve(np.asarray(error, dtype=float), np.full(X.size, noise))


@pytest.fixture
def curves():
    """Return curves of which all claims of a figure hold."""
    jump = np.where(X >= 1.5, 1.2, 1.0) * FALLING / 4
    found = {LAPLACE: curve(FALLING), OPTIMAL: curve(jump), HALVES: curve(1.1 * FALLING)}
    return found | dict.fromkeys(OURS, curve(FALLING / 8))


def average(curves, optimal=FALLING / 2):
    return [claim.holds for claim in curve_claims.average_claims("Figure 2", "", curves, optimal)]


@pytest.mark.parametrize(
    ("name", "error", "turned"),
    [
        (HALVES, 2 * FALLING, [1]),  # not similar to Laplace
        (HALVES, 0.9 * FALLING, [2]),  # better than Laplace
        (HALVES, np.where(X == 1, 0.9, 1.1) * FALLING, [2]),  # better at one ε
        (HALVES, 0.45 * FALLING, [0, 1, 2]),
        (OPTIMAL, 1.2 * FALLING, [3, 4]),  # worse than AKMV, and monotonic
        (OURS[0], 0.9 * FALLING, [5]),
        (OURS[1], 0.9 * FALLING, [6]),
    ],
)
def test_claims_of_averages_can_fail(curves, name, error, turned):
    """Every claim holds on curves as the paper describes them, and fails where they are not so."""
    assert average(curves) == [True] * 7
    curves[name] = curve(error)
    assert [i for i, holds in enumerate(average(curves)) if not holds] == turned


def test_claims_of_the_worst_case_can_fail(curves):
    """Errors that are not much lower, that rise, or exceed their bound turn the verdicts."""

    def verdicts(optimal, akmv):
        found = curve_claims.worst_case_claims(optimal, akmv, curves, curves)
        return [claim.holds for claim in found[:4]]

    low, high, rising = curve(FALLING / 3, 0), curve(FALLING), curve(40 * X)
    assert verdicts(low, high) == [True] * 4
    assert verdicts(curve(0.8 * FALLING, 0), high) == [False, True, True, True]
    assert verdicts(curve(X, 0), rising) == [True, False, False, False]


# ---- Claims about the optimal error: a wrong formula turns their verdicts ----


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


# ---- Claims about AKMV and the sensitivities: wrong formulas turn their verdicts ----
