"""Assessment of grids: predicted errors of a plan's request on each, from public facts.

A grid whose error is certainly no smaller than one constant's is not predicted at all: its error
and its ε are then said to be above something (planning/feasibility/prediction.py). A declared grid
is judged on paper, by the plan of its declarations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hexveil.base.errors import InputError
from hexveil.base.hexagons import across
from hexveil.base.work_share import COUNTING, share_of_work
from hexveil.model.cells import Cells, Labels, slot_seconds
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.planning.feasibility.grids import (
    MIN_CELLS,
    MIN_HEXAGONS,
    OTHER_GRIDS,
    counted,
    grids_to_try,
    map_of,
    most_cells_of,
    with_min_users,
)
from hexveil.planning.feasibility.prediction import ErrorPredictor, epsilon_needed, prediction_of
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.presence.presence_plan import PresenceComponent
from hexveil.theory import noise_floor

MAX_EPSILON_RATIO = 10.0
"""Where more than this many times the asked loss is needed at least, no more is said."""


@dataclass(frozen=True)
class GridAssessment:
    """Assessment of one grid and privacy unit; value units.

    Attributes
    ----------
    grid : Cells or Labels
    privacy_unit : str
    cells, users : int
        0 cells: none is left after selection.
    floor, predicted_error, baseline_error : float
        Noise no unclipped plan can beat; the average error to expect; what one constant misses.
    planned : bool
        False where the error is certainly above one constant's: `predicted_error` then is a bound
        that it is above.
    epsilon_needed : float or None
        Where the error is not below what one constant misses: the loss at which it would be. None
        also where that is above 100, or above ten times the loss that was asked, and where it was
        not looked for.
    hexagons : int or None
        Different places of the cells; None for labels. One: a single number for the whole area.
    min_users : int
        Smallest number of users of a cell for which it is assessed.
    declared : PresenceComponent or None
        Plan of a declared grid.
    """

    grid: Cells | Labels
    privacy_unit: Unit
    cells: int = 0
    users: int = 0
    floor: float = math.nan
    predicted_error: float = math.nan
    baseline_error: float = math.nan
    planned: bool = False
    epsilon_needed: float | None = None
    hexagons: int | None = None
    min_users: int = 1
    declared: PresenceComponent | None = None

    @classmethod
    def on_paper(cls, plan: PresenceComponent) -> GridAssessment:
        """Return the assessment of a declared grid: averages or medians, or numbers of units."""
        error, baseline_error = plan.expected
        return cls(
            plan.facts.cells.grid,
            plan.facts.privacy_unit,
            cells=plan.facts.grid.n_cells,
            predicted_error=error,
            baseline_error=baseline_error,
            planned=True,
            declared=plan,
        )

    @property
    def beats_constant(self) -> bool:
        """Whether the error is below that of one constant."""
        if self.declared is not None:
            return self.declared.refusal is None
        return self.planned and self.predicted_error < self.baseline_error

    @property
    def description(self) -> str:
        """The grid in words."""
        remark = ", one number for the whole area" if self.hexagons == 1 else ""
        if not isinstance(self.grid, Cells):
            return " x ".join(self.grid.columns) + remark
        slots = "" if self.grid.timeslot is None else f" in {self.grid.timeslot} slots"
        return f"resolution {self.grid.resolution}{slots}{remark}"

    @property
    def kilometres(self) -> float | None:
        """Average width of a hexagon; None for labels."""
        return across(self.grid.resolution) if isinstance(self.grid, Cells) else None

    @property
    def is_map(self) -> bool:
        """Whether it has enough cells, and places, to be called a map."""
        places = MIN_HEXAGONS if self.hexagons is None else self.hexagons
        return self.cells >= MIN_CELLS and places >= MIN_HEXAGONS

    @property
    def is_usable(self) -> bool:
        """Whether raw estimates are expected to be a map, and better than one number for all."""
        return self.is_map and self.beats_constant

    @property
    def relative_error(self) -> float:
        """Predicted error as a part of the baseline error; of a declared grid the largest.

        Closed cells are off by the error of one constant, so that a grid on which few cells open
        does not seem accurate.
        """
        if self.declared is not None:
            return self.declared.prediction.relative_error
        return self.predicted_error / self.baseline_error


def fineness(grid: Cells | Labels) -> tuple[float, ...]:
    """Return the order of grids with equally many cells: smaller hexagons, then shorter slots.

    Examples
    --------
    >>> fineness(Cells(6, "1h", "UTC")) > fineness(Cells(6, "1d", "UTC")) > fineness(Cells(5, None))
    True
    """
    if not isinstance(grid, Cells):
        return -1.0, -math.inf
    seconds = math.inf if grid.timeslot is None else float(slot_seconds(grid.timeslot))
    return float(grid.resolution), -seconds


def printed(error: float) -> float:
    """Return an error with the two digits that are printed: a later one decides nothing."""
    return float(f"{error:.2g}")


# ---- the grids of a plan's request ----


def facts_of(plan: MomentComponent) -> PublicMetadata:
    """Return the facts of a plan; refuse a bare occupancy, which has no other grids."""
    if plan.facts is None:
        raise InputError("grids are compared for a data set, not for a bare occupancy.")
    return plan.facts


def survey(
    plan: MomentComponent, *, min_users: Sequence[int] = (1,), search: bool = False
) -> list[GridAssessment]:
    """Return the assessments of grids that fit the records and the fleet: the one loop over grids.

    With the first grid the records are read again. Pairs of a grid are freed before the next. What
    is the same map as another is left out: places far apart have as many hexagons at several
    resolutions.

    Parameters
    ----------
    plan : MomentComponent
        Of a data set, within a loss.
    min_users : sequence of int
        Smallest numbers of users of a cell: for the first one losses are searched; others are
        assessed where they leave other cells.
    search : bool
        Whether the loss is looked for at which grids would do that are not certainly too fine.

    Raises
    ------
    InputError
        If the data set cannot be counted on them.
    """
    facts = facts_of(plan)
    tried = grids_to_try(facts, most_cells_of(plan))
    maps, offers, one_by_one = {map_of(facts)}, [], counted(facts, tried)
    for number, grid in enumerate(tried):
        share = number / len(tried), (number + 1) / len(tried)
        with share_of_work(OTHER_GRIDS, *share, COUNTING):
            on_grid = next(one_by_one)
            name = None if on_grid is None else map_of(on_grid)
            if name is None or grid == facts.cells.grid or name not in maps:
                offers += _on_grid(plan, grid, on_grid, min_users, search=search)
            maps.add(name)
            del on_grid
    return offers


def _on_grid(
    plan: MomentComponent,
    grid: Cells | Labels,
    facts: PublicMetadata | None,
    min_users: Sequence[int],
    *,
    search: bool,
) -> list[GridAssessment]:
    """Return the assessments of one grid, which may have no cell left."""
    if facts is None:
        own, miss = facts_of(plan).privacy_unit, plan.support.baseline_error
        return [GridAssessment(grid, own, baseline_error=miss)]
    assessed: list[GridAssessment] = []
    for minimum in min_users:
        remaining = with_min_users(facts, minimum)
        if remaining is not None and remaining.occupancy.n_cells not in {o.cells for o in assessed}:
            predictor = ErrorPredictor(plan, remaining)
            offer = replace(assess(predictor), min_users=minimum)
            if search and not assessed and offer.planned:
                offer = replace(offer, epsilon_needed=_epsilon_needed(predictor, offer))
            assessed.append(offer)
    return assessed


def assess(predictor: ErrorPredictor) -> GridAssessment:
    """Return the assessment of a plan's request on public facts, without losses that would do."""
    plan, facts, requested = predictor.plan, predictor.facts, predictor.plan.requested_epsilon
    sizes = facts.occupancy.n_cells, facts.occupancy.n_users
    offer = GridAssessment(
        facts.cells.grid,
        facts.privacy_unit,
        *sizes,
        floor=noise_floor(predictor.span, *sizes, float(requested)),
        predicted_error=predictor.error_lower_bound(float(requested)),
        baseline_error=predictor.baseline_error,
        hexagons=facts.cells.n_places,
    )
    if predictor.is_planned:
        prediction = prediction_of(plan.primary_statistic)
    elif offer.predicted_error >= offer.baseline_error:
        # Above the constant already by the bound: planning could only confirm it.
        return offer
    else:
        prediction = predictor.predict(requested)
    return replace(offer, predicted_error=prediction.mean_error, planned=True)


def _epsilon_needed(predictor: ErrorPredictor, offer: GridAssessment) -> float | None:
    """Return the loss at which a grid would do; None if it does, and beyond ten times the asked."""
    maximum = MAX_EPSILON_RATIO * float(predictor.plan.requested_epsilon)
    # Nobody pays ten times the loss: the search would be for nothing.
    if offer.beats_constant or predictor.error_lower_bound(maximum) >= offer.baseline_error:
        return None
    if not predictor.is_planned:
        return predictor.epsilon_needed(offer.baseline_error)
    # What the plan itself names, not another search with another last digit.
    needed = epsilon_needed(predictor.plan)
    return None if needed is None or needed > maximum else needed
