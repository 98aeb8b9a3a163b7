"""Plans with a clipping range per cell: shares of epsilon, losses, errors, and what is refused."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil.accounting.error_model import LN20
from hexveil.mechanisms.looks import cell_ranges
from hexveil.mechanisms.looks.cell_stages import CellRangeOutputs
from hexveil.mechanisms.looks.pooled_means import HALF_WIDTH, PooledChoice
from hexveil.mechanisms.looks.user_weights import max_bias
from strategies import occupancies

CROWD = hv.Occupancy.from_dense(1 + np.random.default_rng(3).poisson(1.0, (400, 6)))


def planned(occupancy=CROWD, **options):
    """Return a plan with a range per cell, for bounds of width 60."""
    usual = {"epsilon": 1, "bounds": (0, 60), "clipping_range": "per-cell", "advise": False}
    return hv.plan(occupancy, **usual | options)


def decisions(plan):
    """Return the decisions on ranges."""
    return plan.allocation.clipping


# ---- shares of epsilon ----


@examples(200)
@given(
    st.fractions(min_value=1, max_value=10**7, max_denominator=1000),
    st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=1000),
)
def test_the_share_of_the_histogram_falls_with_votes(votes, epsilon):
    """It lies within 2 and 20 percent, and more votes never take more of epsilon."""
    share = cell_ranges.histogram_share(votes, epsilon)
    assert Fraction(2, 100) <= share <= Fraction(20, 100)
    assert cell_ranges.histogram_share(2 * votes, epsilon) <= share
    rough = 160 / (votes * epsilon)
    assert share >= min(rough, Fraction(20, 100))
    assert share <= max(rough + Fraction(1, 1000), Fraction(8, 100))


# ---- losses ----


@pytest.mark.parametrize(
    ("kind", "statistics"), [("per-cell", "mean"), ("private", "mean"), ("private", ("mean", "sd"))]
)
@examples(15)
@given(occupancies(), st.sampled_from(["0.1", "1", "7"]))
def test_losses_are_those_of_all_stages(kind, statistics, occupancy, epsilon):
    """In exact fractions: pooled choices in full, and a cell's weight over each of its noises."""
    plan = planned(occupancy, epsilon=epsilon, clipping_range=kind, statistics=statistics)
    ranges, local = decisions(plan), occupancy.local()
    exact = [ranges.shared(Fraction(0)).amount] * occupancy.n_users
    totals, noises = ranges.weight.totals, (plan.mean_noise, plan.allocation.variance_noise)
    for cell, user, weight in zip(local.cell, local.user, ranges.weight.of(local), strict=True):
        share = Fraction(int(weight), int(totals[cell]))
        # Of a cell of one record the variance has no noise: it is known.
        drawn = [Fraction(float(noise[cell])) for noise in noises if noise[cell] > 0]
        exact[user] += sum(share / noise for noise in drawn)
    stated = [Fraction(float(one)) for one in plan.losses()]
    assert all(one >= true for one, true in zip(stated, exact, strict=True))
    assert all(one - true < Fraction(1, 10**9) for one, true in zip(stated, exact, strict=True))
    assert Fraction(epsilon) * (1 - Fraction(1, 10**6)) < plan.epsilon <= Fraction(epsilon)
    assert plan.l0_epsilon >= plan.epsilon * (1 - Fraction(1, 10**12))


def test_a_share_is_that_of_the_histogram():
    """What is asked for is spent on it, and the rest on the cells."""
    crowd = hv.Occupancy.from_dense(np.ones((4000, 2), dtype=int))
    assert decisions(planned(crowd, range_share="0.3")).histogram_loss == Fraction(3, 10)


# ---- errors ----


def test_errors_are_those_of_the_assumed_width_before_a_release():
    """Every cell is taken to keep the first range, as wide as the prior says."""
    plan = planned()
    model, width = plan.error_models["mean"], 60 * 2 * HALF_WIDTH / 8
    assert np.allclose(model.scale, width * plan.mean_noise)
    assert np.allclose(model.bias, width * max_bias(decisions(plan).weight))
    assert np.allclose(model.bound95, model.bias + model.scale * LN20)
    assert (model.error > model.scale).all()


def released(plan, moved, lower, upper):
    """Return the plan with ranges that a release might choose, of 600 quanta."""
    arrays = map(np.array, (moved, lower, upper))
    outputs = CellRangeOutputs((5, 9), 14, PooledChoice(50, 350, 200, 90, 90), *arrays, 600)
    clipping = replace(decisions(plan), outputs=outputs)
    return plan.changed(allocation=replace(plan.allocation, clipping=clipping))


def test_errors_are_those_of_the_released_ranges_afterwards():
    """A cell that was measured anew has the rest of its loss for a range of its own."""
    plan = planned()
    moved = [False, True, False, True, False, False]
    lower, upper = [50, 400, 50, 0, 50, 50], [350, 600, 350, 600, 350, 350]
    model = released(plan, moved, lower, upper).error_models["mean"]
    width = (np.array(upper) - np.array(lower)) / 10.0
    share = np.where(moved, 0.7, 1.0)
    assert np.allclose(model.scale, width * plan.mean_noise / share)
    assert np.allclose(model.bias, width * max_bias(decisions(plan).weight))
    # Losses do not depend on what was chosen.
    assert np.array_equal(released(plan, moved, lower, upper).losses(), plan.losses())
