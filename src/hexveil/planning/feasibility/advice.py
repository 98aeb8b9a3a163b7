"""Advice for a grid that is too fine: a larger ε, or the finest grid that is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.base.work_share import COUNTING, SEARCH, part_of_work, parts_of_work, share_of_work
from hexveil.model.cells import Cells
from hexveil.model.column_facts import ColumnFacts
from hexveil.model.public_metadata import many_repeats
from hexveil.planning.feasibility.grid_assessment import grid_in_words
from hexveil.planning.feasibility.grids import (
    MIN_CELLS,
    MIN_HEXAGONS,
    KeptCounts,
    grids_to_try,
    most_cells_of,
)
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
from hexveil.planning.guarantees.planning_problem import PlanningProblem
from hexveil.planning.methods import allocate
from hexveil.planning.plan import Plan

if TYPE_CHECKING:
    from hexveil.model.public_metadata import PublicMetadata


NEAR = 1.01
"""Ratio of two losses at which the search for the one needed ends."""
USABLE_GRID = "Looking for a usable grid"
"""Name of this work, of which parts are told."""
PREDICTION_EXCESS = 1.06
"""Largest ratio of a fast prediction to the error of the plan that is then made."""


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


@dataclass(frozen=True)
class Advice:
    """Advice, and its sentence.

    Attributes
    ----------
    epsilon_needed : float or None
        Loss at which this grid would say more than one constant; None if none would.
    coarser : Plan or None
        The coarser grid of most cells that says more at the asked loss, planned.
    text : str
    """

    epsilon_needed: float | None
    coarser: Plan | None
    text: str


def brief_advice(plan: Plan) -> str:
    """Return advice without other grids: records are not counted again."""
    sentence = _text(plan, epsilon_needed(plan), None)
    if plan.facts is None or plan.facts.recount is None:
        return sentence
    return f"{sentence} hv.capacity or hexveil inspect finds grids that this fleet supports."


def advice(plan: Plan) -> Advice:
    """Return advice for a plan with too fine a grid; for distributed pairs without a search."""
    if not plan.occupancy.is_local or plan.delta:
        enough = epsilon_needed(plan)
        return Advice(enough, None, _text(plan, enough, None))
    with share_of_work(USABLE_GRID, 0.0, 0.5, SEARCH):
        needed = epsilon_needed(plan)
    with share_of_work(USABLE_GRID, 0.5, 1.0, SEARCH):
        coarser = finest_useful(plan)
    return Advice(needed, coarser, _text(plan, needed, coarser))


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
    if (plan.method, plan.request.objective) == ("joint", "mean"):
        epsilon = _by_newton(plan)
    else:  # what is made small is not what is judged: only that it falls is known
        epsilon = _by_halving(plan)
    return None if epsilon is None else two_figures_up(epsilon)


def _by_newton(plan: Plan) -> float | None:
    aim, begin = plan.support.baseline_error * UNDER, plan.requested_epsilon or Fraction(1)
    if plan.facts is not None and plan.request.clipping_range != "bounds":
        predictor = ErrorPredictor(plan, plan.facts)
        if predictor.is_fast:
            # Both are enough; a plan under an interval takes too long to make a dozen of them.
            searched = predictor.epsilon_needed(plan.support.baseline_error)
            enough = (sufficient_epsilon(plan, aim), searched)
            return min((one for one in enough if one is not None), default=None)
    return epsilon_for_error(
        lambda loss: predict_in_full(plan.problem.within(loss)), aim, begin, NEAR
    )


def _by_halving(plan: Plan) -> float | None:
    low, high = 1e-4, 100.0
    if not _beats_constant(plan, high):
        return None
    steps = math.ceil(math.log2(math.log(high / low) / math.log(NEAR)))
    for step in count():
        if high / low <= NEAR:
            break
        middle = math.sqrt(low * high)
        with part_of_work(SEARCH, min(step, steps - 1), steps):
            good = _beats_constant(plan, middle)
        low, high = (low, middle) if good else (middle, high)
    return high


def _beats_constant(plan: Plan, loss: float) -> bool:
    """Return whether the errors at another loss are below those of one constant on average."""
    prediction = predict_in_full(plan.problem.within(Fraction(loss)))
    return prediction.mean_error < plan.support.baseline_error


def regrid(plan: Plan, facts: PublicMetadata) -> Plan:
    """Return the plan of the same request on other public facts; targets become the loss."""
    size = facts.occupancy.n_cells
    lower, upper = np.full(size, plan.lower.min()), np.full(size, plan.upper.max())
    request = plan.request.within(plan.requested_epsilon)
    problem = PlanningProblem(facts.occupancy, upper - lower, request, facts)
    return Plan(
        occupancy=facts.occupancy,
        lower=lower,
        upper=upper,
        allocation=allocate(problem),
        request=request,
        baseline_error=plan.baseline_error,
        facts=facts,
    )


def finest_useful(plan: Plan) -> Plan | None:
    """Return the plan of the coarser grid of most cells that says more than one constant."""
    facts = plan.facts
    if facts is None or facts.recount is None or not isinstance(facts.cells.grid, Cells):
        return None
    grids = grids_to_try(facts, most_cells=most_cells_of(plan))
    # Kept by whoever reads a run already, or here: all are looked at for their numbers of cells.
    kept = facts.recount if isinstance(facts.recount, KeptCounts) else KeptCounts(facts.recount)
    with share_of_work(USABLE_GRID, 0.0, 0.5, COUNTING):
        counts = kept(grids, facts.privacy_unit)
        # The same number of cells would be the same map by another name, or a finer one.
        cells = [
            0
            if metadata is None or not _is_coarser(metadata, facts)
            else metadata.occupancy.n_cells
            for metadata in counts
        ]
    # Finest first: the first that is useful is the answer, and coarse ones are never planned.
    finest_first = sorted(range(len(grids)), key=lambda number: -cells[number])
    with share_of_work(USABLE_GRID, 0.5, 1.0):
        for number in parts_of_work(USABLE_GRID, finest_first):
            if cells[number] < MIN_CELLS:
                break  # no map, and neither are the coarser grids that follow
            (candidate,) = kept((grids[number],), facts.privacy_unit)
            assert candidate is not None  # noqa: S101  it has cells
            if (made := _useful(plan, candidate)) is not None:
                return made
    return None


def _is_coarser(counts: PublicMetadata, facts: PublicMetadata) -> bool:
    """Return whether counts are of a map with fewer cells than a data set's own."""
    places = counts.cells.n_places or 0
    return places >= MIN_HEXAGONS and counts.occupancy.n_cells < facts.occupancy.n_cells


def _useful(plan: Plan, candidate: PublicMetadata) -> Plan | None:
    """Return the plan of a grid if it says more than one constant."""
    predictor, requested = ErrorPredictor(plan, candidate), plan.requested_epsilon
    miss = predictor.baseline_error
    # The bound takes no search, and rules out most grids of a fleet that is too small.
    if predictor.error_lower_bound(float(requested)) >= miss:
        return None
    if predictor.is_fast and predictor.predict(requested).mean_error >= PREDICTION_EXCESS * miss:
        return None
    made = regrid(plan, candidate)
    return made if made.support.mean_error < miss else None


def _text(plan: Plan, needed: float | None, coarser: Plan | None) -> str:
    cells = plan.support.cells
    sentence = (
        "this grid is too fine for this fleet: its expected error is "
        f"{plan.support.mean_error:.3g} on average, and the assumed error of one number for all "
        f"{cells:,} cells is {plan.support.baseline_error:.3g}"
    )
    options = []
    if coarser is not None:
        options.append(f"{_described(coarser)}, the finest usable grid")
    if needed is not None:
        options.append(f"this grid with epsilon {needed:g}")
    return sentence + ("; use " + ", or ".join(options) if options else "") + "."


def _described(plan: Plan) -> str:
    assert plan.facts is not None  # noqa: S101  a coarser grid comes from public facts
    cells = "1 cell" if plan.support.cells == 1 else f"{plan.support.cells:,} cells"
    return f"{grid_in_words(plan.facts.cells.grid)} ({cells})"
