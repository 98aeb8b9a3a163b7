from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil import theory
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from strategies import occupancies

BOTH = ("mean", "variance")


def planned(occupancy, **options):
    """Return a plan of cells apart by Baseline, without advice."""
    usual = {"bounds": (0, SPAN), "method": "equal-split", "mechanism": hv.mechanisms.Baseline()}
    return hv.plan(occupancy, **usual | {"statistics": BOTH, "advise": False} | options)


@examples(50)
@given(occupancies(), st.sampled_from([1, 6]))
def test_both_statistics_share_a_cells_loss(occupancy, epsilon):
    """Nothing reduced, sensitivities over scales add up to the loss, at the best split.

    That makes the sum of both scales least, each as a share of a constant's error. The variance of
    one record takes no part: the mean has all of it.
    """
    plan = planned(occupancy, epsilon=epsilon)
    loss = float(epsilon) / int(occupancy.cells_per_user.max())
    for cell in range(occupancy.n_cells):
        counts = occupancy.n[occupancy.cell == cell]
        moved = theory.mean_sensitivity(counts, SPAN)
        varied = theory.user_variance_sensitivity(counts, SPAN)[counts.argmax()]
        own = plan.error_models["mean"].scale[cell], plan.error_models["variance"].scale[cell]
        if counts.sum() == 1:
            assert own == pytest.approx((moved / loss, 0.0), rel=1e-6)
            continue
        assert moved / own[0] + varied / own[1] == pytest.approx(loss, rel=1e-6)
        errors = own[0] / (SPAN / 2) + own[1] / (SPAN**2 / 8)
        for split in (0.05, 0.3, 0.5, 0.8):
            other = moved / (split * loss) / (SPAN / 2)
            other += varied / ((1 - split) * loss) / (SPAN**2 / 8)
            assert errors <= other * (1 + 1e-6)


@pytest.mark.parametrize("statistics", [BOTH, ("variance",)])
def test_per_cell_takes_the_largest_common_loss(statistics):
    """The common cell loss is used up: a little more would be above ε."""
    plan = planned(comp_setting(3, 0), epsilon=2, method="per-cell", statistics=statistics)
    assert Fraction(2) * Fraction(999, 1000) <= plan.epsilon <= 2
    composed = planned(comp_setting(3, 0), epsilon=2, statistics=statistics)
    assert (plan.error <= composed.error * (1 + 1e-9)).all()


def test_clipping_puts_samples_at_the_middle():
    """CLIP keeps at most t samples of a user and states the bias of the rest."""
    occupancy = comp_setting(9, 0)
    plan = planned(
        occupancy, epsilon=6, method="per-cell", mechanism=hv.mechanisms.OptimalClipping()
    )
    reduced = (occupancy.n > plan.contribution_cap[occupancy.cell]).any()
    assert reduced
    assert (plan.error_models["mean"].bias > 0).any()
    assert (plan.error_models["variance"].bias > 0).any()
    assert np.array_equal(plan.contribution_cap, plan.allocation.variance_cap)


def test_clip_user_suppresses_whole_pairs():
    """CLIP-USER drops (cell, user) pairs, keeps others whole, and is charged exactly."""
    occupancy = comp_setting(6, 0)
    plan = hv.plan(
        occupancy, bounds=(0, SPAN), epsilon=4, method="clip-user", statistics=BOTH, advise=False
    )
    dropped = plan.allocation.suppressed_pairs.of(occupancy)
    assert dropped.any()
    assert not plan.contributions("mean")[dropped].any()
    assert np.array_equal(plan.contributions("mean")[~dropped], occupancy.n[~dropped])
    assert plan.epsilon <= 4
    assert plan.l0_epsilon > 2 * plan.epsilon


@examples(40)
@given(
    occupancies(),
    st.sampled_from([{}, {"statistics": ("mean",)}]),
    st.sampled_from(["0.3", "1", "5"]),
)
def test_clip_user_spends_all_of_epsilon(occupancy, options, epsilon):
    """Whatever the suppression, the most exposed user loses ε to within 0.1 %, never more."""
    plan = planned(occupancy, method="clip-user", mechanism=None, epsilon=epsilon, **options)
    assert Fraction(epsilon) * Fraction(999, 1000) <= plan.epsilon <= Fraction(epsilon)
    assert plan.l0_epsilon * (1 + Fraction(1, 2**20)) >= plan.epsilon


@examples(20)
@given(occupancies(), st.sampled_from(["0.3", "5"]))
def test_clip_user_is_no_worse_than_suppressing_nobody(occupancy, epsilon):
    """Baseline's plan of least cell loss that spends ε is among the candidates."""
    options = {"epsilon": epsilon}
    plan = planned(occupancy, method="clip-user", mechanism=None, **options)
    nobody = planned(occupancy, method="per-cell", **options)
    largest = plan.objective_errors().max()
    assert largest <= nobody.objective_errors().max() * (1 + 1e-6)
