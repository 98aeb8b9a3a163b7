"""Claims of what the figures show: that they hold, and that other curves turn them."""

import numpy as np
import pytest

from hexveil.mechanisms import AKMV, Auto, Baseline, OptimalClipping
from hexveil_research.mechanisms.foresight import Foresight
from hexveil_research.papers.wc import curve_claims
from hexveil_research.papers.wc.count_collections import ThresholdCurve, X

LAPLACE, OPTIMAL, HALVES = (one.name for one in (Baseline(), OptimalClipping(), AKMV()))
OURS = [Foresight().name, Auto().name]
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


def test_noise_is_no_evidence(curves):
    """AKMV a tenth above Laplace is not called worse where the simulation cannot tell."""
    curves[HALVES] = curve(1.1 * FALLING, noise=10.0)
    claim = curve_claims.average_claims("Figure 2", "", curves, FALLING / 2)[2]
    assert (claim.holds, claim.verdict) == (None, "undecided")


@pytest.mark.parametrize("claim", [0, 2, 3, 4])
def test_noise_at_one_point_leaves_a_claim_about_all_open(curves, claim):
    """Errors at 19 of 20 ε settle no claim about every ε; one rise, though, is enough of a rise."""
    noise = np.where(X == 0.5, 50.0, 0.01)
    for name in (OPTIMAL, HALVES):
        curves[name] = ThresholdCurve(curves[name].error, noise)
    expected = True if claim == 4 else None
    assert average(curves)[claim] is expected


def test_claims_of_the_worst_case_can_fail(curves):
    """Errors that are not much lower, that rise, or exceed their bound turn the verdicts."""

    def verdicts(optimal, akmv):
        found = curve_claims.worst_case_claims(optimal, akmv, curves, curves)
        return [claim.holds for claim in found[:4]]

    low, high, rising = curve(FALLING / 3, 0), curve(FALLING), curve(40 * X)
    assert verdicts(low, high) == [True] * 4
    assert verdicts(curve(0.8 * FALLING, 0), high) == [False, True, True, True]
    assert verdicts(curve(X, 0), rising) == [True, False, False, False]
