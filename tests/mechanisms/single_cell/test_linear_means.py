"""Linear mechanisms: their figures are the worst case over all values; the published cell."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from accounting.small_cells import VECTORS

GRAIN = 8 * 7 * 2.0**-26
"""Rounding of up to seven weights, for bounds of width 8."""
CAPS = ["median", "sqrt", "minimax", "surrogate", "exact"]
MECHANISMS = [
    hv.mechanisms.Baseline(),
    hv.mechanisms.OptimalClipping(),
    *(hv.mechanisms.ArrayAveraging(cap=cap) for cap in (*CAPS, 1, 2, 9)),
    *(hv.mechanisms.ArrayAveraging("wrap_around", cap) for cap in ("median", "sqrt", 1)),
    hv.mechanisms.OptArrayAveraging(),
    hv.mechanisms.OptArrayAveraging(objective="surrogate"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize("bounds", [(0, 8), (-3, 5)], ids=str)
def test_figures_are_the_worst_case_over_all_values(mechanism, bounds):
    """Bias and sensitivity are reached by some values and passed by none, to the weights' grain.

    The estimate misses most, and moves most, with each user mean at a bound. Weights are
    whole parts of 2^-26 of the largest.
    """
    for counts, epsilon in itertools.product(VECTORS, ("0.5", 4)):
        plan = mechanism.plan(counts, bounds=bounds, epsilon=epsilon)
        means = np.array(list(itertools.product(plan.cell.bounds, repeat=len(counts))))
        quiet = plan.noiseless_estimates(plan.cell.sums(means))
        true = means @ np.array(counts) / sum(counts)
        assert plan.worst_case_bias == pytest.approx(np.abs(quiet - true).max(), abs=GRAIN)
        cube = quiet.reshape((2,) * len(counts))
        moved = max(float(np.ptp(cube, axis=user).max()) for user in range(len(counts)))
        assert plan.sensitivity == pytest.approx(moved, abs=GRAIN)
        assert plan.noise_scale == pytest.approx(moved / float(epsilon), rel=GRAIN)
        assert plan.worst_case_error == plan.worst_case_bias + plan.noise_scale
        assert plan.bound95 == pytest.approx(plan.worst_case_bias + plan.noise_scale * np.log(20))


@pytest.fixture(scope="session")
def published(shared):
    """Return the counts that match the papers' private cell."""
    return json.loads((shared / "data" / "itms_like_counts.json").read_text())


def test_the_published_cell(published):
    """Square-root cap 60, 160 arrays under WRAPAROUND, 164 under BESTFIT, Baseline 1.579.

    Source: IOT section IV-B for the arrays; 65 * 417 / 17166 for BASELINE at ε = 1.
    """
    facts = {"bounds": (0, 65), "epsilon": 1}
    wrapped = hv.mechanisms.ArrayAveraging("wrap_around", "sqrt").plan(published, **facts)
    fitted = hv.mechanisms.ArrayAveraging("best_fit", "sqrt").plan(published, **facts)
    assert (wrapped.allocation.groups.cap, wrapped.allocation.groups.n_arrays) == (60, 160)
    assert (fitted.allocation.groups.cap, fitted.allocation.groups.n_arrays) == (60, 164)
    assert hv.mechanisms.ArrayAveraging().plan(published, **facts).allocation.groups.cap == 46
    baseline = hv.mechanisms.Baseline().plan(published, **facts)
    assert baseline.worst_case_error == pytest.approx(1.579, abs=5e-4)
    assert baseline.worst_case_bias == 0


@pytest.mark.parametrize("objective", ["minimax", "minimax_std", "surrogate", "surrogate_printed"])
def test_opt_array_averaging_is_best_fit_with_that_cap(objective, published):
    """OptArrayAveraging is ArrayAveraging under BESTFIT with the cap of its objective."""
    facts = {"bounds": (0, 65), "epsilon": 1}
    one = hv.mechanisms.OptArrayAveraging(objective).plan(published, **facts)
    other = hv.mechanisms.ArrayAveraging("best_fit", objective).plan(published, **facts)
    assert one.allocation.groups.cap == other.allocation.groups.cap
    assert one.worst_case_error == other.worst_case_error


# ---- a cap of contributions ----

THRESHOLDS = [hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping()]
COUNTS = st.lists(st.integers(1, 10**6), min_size=1, max_size=12)
EPSILONS = st.fractions(Fraction(1, 100), Fraction(100))


@given(COUNTS, EPSILONS)
def test_plan_is_that_of_the_theory(counts, epsilon):
    """The mechanism's plan is theory.optimal_clipping, and shifting the bounds changes nothing."""
    clip = hv.theory.optimal_clipping(counts, 8.0, epsilon)
    for bounds in ((0, 8), (-100, -92)):
        plan = hv.mechanisms.OptimalClipping().plan(counts, bounds=bounds, epsilon=epsilon)
        assert 8 * plan.allocation.contribution_cap == pytest.approx(clip.threshold)
        assert plan.worst_case_error == pytest.approx(clip.worst_case_error)


@given(st.sampled_from(THRESHOLDS), st.integers(1, 300), EPSILONS)
def test_rank_and_its_losses_belong_together(mechanism, rank, epsilon):
    """`epsilon_range` of a rank holds exactly the losses whose rank it is."""
    reach = mechanism.epsilon_range(rank)
    inside = reach is not None and reach[0] <= epsilon and (reach[1] is None or epsilon < reach[1])
    assert inside == (mechanism.rank(epsilon) == rank)
    if reach is not None and reach[0] > 0:
        assert mechanism.rank(reach[0]) == rank
