from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil import theory
from planning import plan_grid
from planning.plan_grid import TINY
from strategies import occupancies

BOTH = ("mean", "variance")
CLOSE = 3e-3
"""The width at which a search ends (2e-3), and what its last steps leave undecided."""


def planned(dense, **options):
    """Return the joint plan on bounds of width 1 unless told, without advice."""
    occupancy = dense if isinstance(dense, hv.Occupancy) else hv.Occupancy.from_dense(dense)
    return hv.plan(occupancy, **{"bounds": (0, 1), "advise": False} | options)


TARGETS = (
    *({"mean": one} for one in (0.05, 0.2, 0.33, 0.45, 0.499)),
    *({"variance": one} for one in (0.01, 0.06, 0.11)),
    *({"mean": one, "variance": other} for one, other in (
        (0.3, 0.05), (0.45, 0.12), (0.2, 0.2), (0.6, 0.1), (0.1, 0.02)
    )),
)  # fmt: skip


@pytest.mark.parametrize("dense", TINY)
@pytest.mark.parametrize("targets", TARGETS, ids=str)
def test_no_factors_reach_targets_at_less_loss(dense, targets):
    """Of all factors on a grid none loses less than the bound, or than the plan less its gap."""
    plan = planned(dense, target_error=targets, statistics=tuple(targets))
    least = plan_grid.least_loss(dense, plan_grid.factor_grid(len(dense), 21), **targets)
    assert plan.lower_bound <= least * (1 + 1e-12)
    assert float(plan.epsilon) * (1 - plan.gap) <= least * (1 + 1e-12)
    if set(targets) == {"mean"}:
        assert float(plan.epsilon) <= least * (1 + CLOSE)
        assert 0 <= plan.gap <= CLOSE


@pytest.mark.parametrize("dense", TINY)
@pytest.mark.parametrize("epsilon", [0.3, 1, 4, 20])
@pytest.mark.parametrize("statistics", [("mean",), ("variance",), BOTH])
def test_no_factors_reach_less_error_within_a_loss(dense, epsilon, statistics):
    """Below the error that is proved impossible, all factors on a grid lose more than asked."""
    plan = planned(dense, epsilon=epsilon, objective="max", statistics=statistics)
    below, grid = plan.lower_bound, plan_grid.factor_grid(len(dense), 21)
    if len(statistics) == 2:
        least = plan_grid.least_loss(dense, grid, below / 2, below / 8)
    elif statistics == ("mean",):
        least = plan_grid.least_loss(dense, grid, mean=below)
        assert plan.gap <= CLOSE
    else:
        least = plan_grid.least_loss(dense, grid, variance=below)
    assert least >= epsilon * (1 - 1e-12)


@examples(40)
@given(occupancies(), st.floats(0.01, 0.6), st.floats(0.001, 0.15), st.sampled_from([1, 65]))
def test_targets_are_met_in_every_cell(occupancy, mean, variance, span):
    """No cell's error is above its target, and the loss is never below its own bound."""
    targets = {"mean": mean * span, "variance": variance * span**2}
    plan = planned(occupancy, target_error=targets, statistics=BOTH, bounds=(0, span))
    for name, target in targets.items():
        assert (plan.error_models[name].error <= target * (1 + 1e-12)).all() or target >= {
            "mean": span / 2,
            "variance": span**2 / 8,
        }[name]
    assert plan.epsilon >= plan.lower_bound


@examples(40)
@given(
    occupancies(), st.sampled_from([0.05, 0.5, 3, 50, "1000000"]), st.sampled_from(["max", "mean"])
)
def test_nobody_loses_more_than_asked(occupancy, epsilon, objective):
    """Nor less, unless all cells are constants; the error is not below the bound."""
    plan = planned(occupancy, epsilon=epsilon, objective=objective)
    assert plan.epsilon <= plan.requested_epsilon
    used_up = plan.requested_epsilon * Fraction(999_999_999, 10**9)
    assert plan.epsilon >= (used_up if plan.contribution_cap.any() else 0)
    assert plan.with_lower_bound().gap >= 0


@examples(40)
@given(occupancies(users=8, cells=1), st.floats(0.03, 0.49))
def test_one_cell_is_optimal_clipping(occupancy, target):
    """For one cell a factor is a threshold: the error is that of optimal clipping at the loss."""
    plan = planned(occupancy, target_error=target)
    assume(plan.epsilon > 0)
    best = theory.optimal_clipping(occupancy.n, 1.0, plan.epsilon * (1 - 2 * CLOSE))
    assert target <= best.worst_case_error * (1 + 1e-6)
    least = theory.optimal_clipping(occupancy.n, 1.0, plan.epsilon)
    assert least.worst_case_error <= plan.worst_case_error * (1 + 1e-9)


@examples(40)
@given(occupancies(users=8, cells=1), st.sampled_from([0.3, 1, 2.5, 7]))
def test_one_cell_within_a_loss_is_optimal_clipping(occupancy, epsilon):
    """For one cell the least error within a loss is optimal clipping's, within the gap."""
    best = theory.optimal_clipping(occupancy.n, 1.0, epsilon).worst_case_error
    plan = planned(occupancy, epsilon=epsilon, objective="max")
    assert plan.worst_case_error <= best * (1 + CLOSE)
    assert plan.lower_bound <= best
    average = planned(occupancy, epsilon=epsilon, objective="mean")
    assert best * (1 - 1e-9) <= average.worst_case_error


@examples(40)
@given(occupancies(), st.floats(0.03, 0.5), st.integers(2, 1000))
def test_only_shares_matter(occupancy, target, times):
    """Each count times the same number leaves the loss as it is."""
    more = hv.Occupancy.from_coo(occupancy.cell, occupancy.user, occupancy.n * times)
    one, other = planned(occupancy, target_error=target), planned(more, target_error=target)
    assert float(other.epsilon) == pytest.approx(float(one.epsilon), rel=1e-6)
