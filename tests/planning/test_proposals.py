"""Proposed runs: which, with which errors, and why none."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from fleets import fleet, recount
from hexveil.mechanisms.looks.range_search import ErrorPrediction
from hexveil.model.cells import CellTable
from hexveil.planning.feasibility.grid_assessment import GridAssessment, smoothed_error
from hexveil.planning.feasibility.grids import MIN_CELLS
from hexveil.planning.feasibility.prediction import ErrorPredictor, scaled_epsilon
from hexveil.planning.feasibility.proposals import (
    choose,
    dominant_share,
    propose_runs,
    with_min_users,
)

RUN = GridAssessment(
    grid=hv.Cells(6, "1h", "Europe/Warsaw"),
    min_users=10,
    privacy_unit="user",
    cells=20,
    users=300,
    predicted_error=2.0,
    smoothed_error=1.0,
    baseline_error=4.0,
    planned=True,
)


def made(source, **options):
    """Return a plan at a loss of 1 without its warning."""
    return hv.plan(source, **{"epsilon": 1, "clipping_range": "auto"} | options, advise=False)


def on(resolution, timeslot="1h", **changes):
    """Return a run on another grid."""
    grid = replace(RUN.grid, resolution=resolution, timeslot=timeslot)
    return replace(RUN, grid=grid, **changes)


def test_finest_accurate_and_in_between():
    """The most cells, the least error, and the most cells weighed by what they gain."""
    fine = on(7, cells=60, predicted_error=3.9)
    middle = on(6, cells=30, predicted_error=2.0)
    coarse = on(4, cells=4, predicted_error=0.5)
    assert choose([coarse, fine, middle]) == {
        "finest": fine,
        "balanced": middle,
        "accurate": coarse,
    }
    assert choose([]) == {}


@pytest.mark.parametrize("order", [1, -1])
def test_a_tie_goes_to_smaller_hexagons_then_shorter_slots(order):
    """Equal cells and errors never lead to larger hexagons, in whatever order they come."""
    runs = [on(r, slot) for r in (3, 4, 6) for slot in ("1d", "1h", None)][::order]
    assert {(run.grid.resolution, run.grid.timeslot) for run in choose(runs).values()} == {
        (6, "1h")
    }


@pytest.mark.slow
def test_every_proposed_run_is_usable_and_what_a_plan_reaches():
    """Errors are those of the plan that is then made; there are hexagons for a map."""
    advice = propose_runs(made(fleet(7, recount=recount)), min_users=10)
    assert advice.nearest is None
    assert set(advice.proposals) == {"finest", "balanced", "accurate"}
    for run in advice.proposals.values():
        assert run.is_usable
        assert run.hexagons >= 3
        plan = made(fleet(run.grid.resolution))
        assert plan.expected_error == pytest.approx(run.predicted_error, rel=0.1)
        assert run.smoothed_error < min(run.predicted_error, run.baseline_error)
    assert advice.proposals["finest"].cells >= advice.proposals["accurate"].cells


def test_without_a_usable_run_the_nearest_is_named():
    """No run is proposed at a tiny loss; the one that needs the least is named with its loss."""
    advice = propose_runs(made(fleet(7, recount=recount), epsilon="0.001"), min_users=10)
    assert advice.proposals == {}
    assert advice.nearest.cells >= MIN_CELLS
    again = made(fleet(7, recount=recount), epsilon=advice.epsilon_needed)
    assert propose_runs(again, min_users=10).proposals
    less = made(fleet(7, recount=recount), epsilon=advice.epsilon_needed * 0.5)
    assert propose_runs(less, min_users=10).proposals == {}


def test_a_weaker_unit_is_named_only_if_it_gains_much():
    """Days of vehicles are tried when asked for, and named if their map is much better."""

    def days(grids, unit):
        users = 60 if unit == "user" else 600
        return tuple(fleet(g.resolution, unit, users=users) for g in grids)

    plan = made(fleet(7, recount=days))
    assert propose_runs(plan, min_users=10).weaker == ()
    (weaker,) = propose_runs(plan, min_users=10, weaker_units=("user-day",)).weaker
    assert (weaker.privacy_unit, weaker.users) == ("user-day", 600)
    same = made(fleet(7, recount=recount))
    assert propose_runs(same, min_users=10, weaker_units=("user-day",)).weaker == ()


def test_cells_below_the_smallest_number_of_users_are_left_out():
    """As if the records had been read with it: cells, users and records of the rest."""
    dense = np.array([[1, 0, 2, 0], [1, 3, 0, 0], [1, 1, 0, 4]])
    facts = fleet(5)
    table = CellTable(
        facts.cells.grid,
        hexagon=facts.cells.hexagon[:1].repeat(4) + np.arange(4, dtype=np.uint64),
        slot=np.zeros(4, dtype=np.int64),
    )
    facts = replace(facts, occupancy=hv.Occupancy.from_dense(dense), cells=table)
    assert with_min_users(facts, 1) is facts
    assert with_min_users(facts, 4) is None
    kept = with_min_users(facts, 2)
    assert kept.cells.hexagon.tolist() == table.hexagon[:2].tolist()
    expected = hv.Occupancy.from_dense(dense[:, :2])
    for name in ("cell", "user", "n"):
        assert getattr(kept.occupancy, name).tolist() == getattr(expected, name).tolist()


def lopsided(share):
    """Return a fleet in which one bus has about a share of all records, and others have few."""
    dense = np.ones((60, 16), dtype=int)
    dense[0] = round(59 * share / (1 - share))
    facts = fleet(6, recount=lambda grids, _: tuple(lopsided_facts(dense) for _ in grids))
    return replace(facts, occupancy=hv.Occupancy.from_dense(dense))


def lopsided_facts(dense):
    """Return public facts of sixteen cells with these counts."""
    return replace(fleet(6), occupancy=hv.Occupancy.from_dense(dense))


def test_a_dominant_user_is_named_where_noise_comes_from_it():
    """One bus with most records needs more noise than all others: its share is stated."""
    plan = made(
        lopsided(0.8),
        clipping_range="bounds",
        method="per-cell",
        mechanism=hv.mechanisms.Baseline(),
    )
    assert dominant_share(plan) == pytest.approx(0.8, abs=0.01)
    assert dominant_share(made(lopsided(0.2))) is None
    assert dominant_share(made(fleet(6))) is None


def test_smoothed_errors_are_those_of_normal_cells():
    """Simulated cells with normal noise have the error of the formula; no noise has none."""
    rng = np.random.default_rng(5)
    between, noise = 3.0, 2.0
    cells = rng.normal(0, between * math.sqrt(math.pi / 2), 200_000)
    deviation = math.sqrt(2) * noise
    raw = cells + rng.normal(0, deviation, cells.size)
    t = between**2 * math.pi / 2
    errors = np.abs(raw * t / (t + deviation**2) - cells)
    predicted = smoothed_error(ErrorPrediction(np.array([noise]), np.zeros(1)), between)
    assert predicted == pytest.approx(errors.mean(), abs=5 * errors.std() / math.sqrt(cells.size))
    assert smoothed_error(ErrorPrediction(np.zeros(2), np.zeros(2)), 3.0) == 0.0


def test_the_scaled_loss_is_enough():
    """At the loss that scaling names, the plan's error is at most the wanted one."""
    # One clipping range at both losses: "auto" may take another one from some epsilon on.
    plan = hv.plan(fleet(7), epsilon=1, clipping_range="private", advise=False)
    prediction = ErrorPredictor(plan, plan.facts).predict(Fraction(1))
    aim = prediction.mean_error / 2
    enough = scaled_epsilon(prediction, Fraction(1), aim)
    assert ErrorPredictor(plan, plan.facts).predict(Fraction(enough)).mean_error <= aim * 1.001
    biased = ErrorPrediction(np.ones(1), np.full(1, 2.0))
    assert scaled_epsilon(biased, Fraction(1), 1.0) == math.inf
