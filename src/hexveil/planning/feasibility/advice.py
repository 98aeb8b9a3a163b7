"""Advice for a grid that is too fine: a larger ε, or the finest grid that is not."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.base.work_share import COUNTING, SEARCH, share_of_work
from hexveil.model.cells import Cells
from hexveil.model.column_facts import ColumnFacts
from hexveil.model.public_metadata import many_repeats
from hexveil.planning.feasibility.grid_assessment import assess, order_by_cells
from hexveil.planning.feasibility.grids import grids_to_try, most_cells_of, on_each_grid
from hexveil.planning.feasibility.prediction import (
    MAX_EPSILON,
    UNDER,
    ErrorPredictor,
    epsilon_for_error,
    predict_in_full,
    prediction_of,
    scaled_epsilon,
    two_figures_up,
)
from hexveil.planning.methods import allocate

if TYPE_CHECKING:
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.feasibility.grid_assessment import GridAssessment
    from hexveil.planning.plan import Plan


NEAR = 1.01
"""Ratio of two losses at which the search for the one needed ends."""
USABLE_GRID = "Looking for a usable grid"
"""Name of this work, of which parts are told."""


class GridTooFineWarning(UserWarning):
    """The map would say no more than one constant for all cells."""


def describe_repeats(facts: PublicMetadata | ColumnFacts) -> str | None:
    """Return how many records are left out as repeats, with the way out; None if few are."""
    columns = facts.columns.values() if isinstance(facts, ColumnFacts) else (facts,)
    counts = next(
        (many for column_facts in columns if (many := many_repeats(column_facts.rules))), None
    )
    if counts is None:
        return None
    repeats, records = counts
    return (
        f"{repeats:,} of {records:,} records ({repeats / records:.0%}) have the user and time of "
        "another and are left out: one place of each group counts, with its average. If the times "
        'are coarser than the reports, count all: repeats = "keep" (in [read], or --set '
        "read.repeats=keep)."
    )


def brief_advice(plan: Plan) -> str:
    """Return advice without other grids: records are not counted again."""
    sentence = _text(plan, epsilon_needed(plan), None)
    if plan.facts is None or plan.facts.recount is None:
        return sentence
    return f"{sentence} hv.capacity or hexveil inspect finds grids that this fleet supports."


def advice(plan: Plan) -> str:
    """Return advice for a plan with too fine a grid; for distributed pairs without a search."""
    if not plan.occupancy.is_local or plan.delta:
        return _text(plan, epsilon_needed(plan), None)
    with share_of_work(USABLE_GRID, 0.0, 0.5, SEARCH):
        needed = epsilon_needed(plan)
    with share_of_work(USABLE_GRID, 0.5, 1.0, SEARCH, COUNTING):
        coarser = finest_useful(plan)
    return _text(plan, needed, coarser)


def sufficient_epsilon(plan: Plan, error: float) -> float | None:
    """Return a loss, rounded up to two figures, at which the average error is at most `error`.

    The plan's own noise, scaled to that loss, would be enough, and so is the plan that is made
    there: but where "auto" takes another kind of range there, it is made and scaled. None above
    100.
    """
    requested = plan.requested_epsilon or Fraction(1)
    epsilon = _scaled_to(plan, error, requested)
    if plan.delta or epsilon is None:
        return epsilon
    larger, request = Fraction(str(epsilon)), plan.request
    kinds = {request.resolve_range(plan.occupancy, loss) for loss in (requested, larger)}
    if len(kinds) == 1:
        return epsilon
    problem = plan.problem.within(larger)
    other = replace(plan, allocation=allocate(problem), request=problem.request)
    return epsilon if other.support.mean_error <= error else _scaled_to(other, error, larger)


def _scaled_to(plan: Plan, error: float, epsilon: Fraction) -> float | None:
    """Return the loss at which the plan's noise, scaled to it, is small enough."""
    scaled = scaled_epsilon(prediction_of(plan), epsilon, error)
    if plan.delta and math.isfinite(scaled):
        # The noise falls with the root of the square of μ, which is not in proportion to ε.
        times = Fraction(scaled) / epsilon
        square = calibrated_square(epsilon, plan.delta) * times**2
        scaled = square_epsilon(square, plan.delta)
    return two_figures_up(scaled) if scaled <= MAX_EPSILON else None


def epsilon_needed(plan: Plan) -> float | None:
    """Return the loss, rounded up to two figures, at which the map says more than one constant.

    What plans, releases, tables of grids and their warnings name for this grid. None if 100 is not
    enough.
    """
    # Of distributed pairs each plan tried would be a search of its own; predictions of other grids
    # are those of Laplace noise.
    if not plan.occupancy.is_local or plan.delta:
        requested = plan.requested_epsilon or Fraction(1)
        return _scaled_to(plan, plan.support.baseline_error * UNDER, requested)
    aim, begin = plan.support.baseline_error * UNDER, plan.requested_epsilon or Fraction(1)
    if plan.facts is not None and plan.request.clipping_range != "bounds":
        predictor = ErrorPredictor(plan, plan.facts)
        if predictor.is_fast:
            # Both are enough; a plan under an interval takes too long to make a dozen of them.
            searched = predictor.epsilon_needed(plan.support.baseline_error)
            enough = (sufficient_epsilon(plan, aim), searched)
            return min((one for one in enough if one is not None), default=None)
    epsilon = epsilon_for_error(
        lambda loss: predict_in_full(plan.problem.within(loss)), aim, begin, NEAR
    )
    return None if epsilon is None else two_figures_up(epsilon)


def finest_useful(plan: Plan) -> GridAssessment | None:
    """Return the coarser grid of most cells that says more than one constant."""
    facts = plan.facts
    if facts is None or facts.recount is None or not isinstance(facts.cells.grid, Cells):
        return None

    def assessed(_: object, counts: PublicMetadata | None) -> GridAssessment | None:
        # The same number of cells would be the same map by another name, or a finer one.
        is_coarser = counts is not None and counts.occupancy.n_cells < facts.occupancy.n_cells
        return assess(plan, counts) if counts is not None and is_coarser else None

    grids = grids_to_try(facts, most_cells=most_cells_of(plan))
    offers = on_each_grid(
        facts, grids, facts.privacy_unit, assessed, every=False, activity=USABLE_GRID
    )
    usable = (one for one in offers if one is not None and one.is_map and one.beats_constant)
    return max(usable, key=order_by_cells, default=None)


def _text(plan: Plan, needed: float | None, coarser: GridAssessment | None) -> str:
    cells = plan.support.cells
    sentence = (
        "this grid is too fine for this fleet: its expected error is "
        f"{plan.support.mean_error:.3g} on average, and the assumed error of one number for all "
        f"{cells:,} cells is {plan.support.baseline_error:.3g}"
    )
    options = []
    if coarser is not None:
        options.append(f"{coarser.description} ({coarser.cells:,} cells), the finest usable grid")
    if needed is not None:
        options.append(f"this grid with epsilon {needed:g}")
    return sentence + ("; use " + ", or ".join(options) if options else "") + "."
