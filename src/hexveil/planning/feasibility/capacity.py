"""Capacity of a fleet: a table of grids, privacy units and predicted errors.

Errors are predicted (planning/feasibility/prediction.py). A grid whose error is certainly no
smaller than one constant's is not planned at all: its error and its ε are then said to be above
something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, get_args

import pyarrow as pa

from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.base.work_share import SEARCH, parts_of_work, share_of_work
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.planning.feasibility.advice import epsilon_needed
from hexveil.planning.feasibility.grid_assessment import (
    MAX_EPSILON_RATIO,
    GridAssessment,
    assess,
    near_loss,
    recommend,
    recommendation_text,
)
from hexveil.planning.feasibility.grids import (
    MIN_CELLS,
    OTHER_GRIDS,
    counted,
    grids_to_try,
    most_cells_of,
    on_each_grid,
)
from hexveil.planning.feasibility.prediction import UNDER, ErrorPredictor
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.plan_moments import HasPublicMetadata, plan_moments
from hexveil.planning.request import Method, Objective, WithinEpsilon

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.rational import Number
    from hexveil.mechanisms import ThresholdMechanism
    from hexveil.planning.plan_data import MomentFigures
    from hexveil.planning.request import ClippingRangeMode

Losses = Literal["all", "planned", "cheapest", "none"]
"""Grids for which losses that would do are searched: all, those that are not certainly too fine,
the one that needs the least, which a sentence names, or none."""

_COLUMNS = (
    ("privacy_unit", pa.string(), "privacy unit"),
    ("resolution", pa.int64(), "resolution"),
    ("timeslot", pa.string(), "timeslot"),
    ("slot", pa.string(), ""),
    ("labels", pa.list_(pa.string()), "labels"),
    ("hexagons", pa.int64(), "hexagons"),
    ("kilometres", pa.float64(), "km wide"),
    ("cells", pa.int64(), "cells"),
    ("users", pa.int64(), "users"),
    ("floor", pa.float64(), "floor"),
    ("predicted_error", pa.float64(), "predicted error"),
    ("baseline_error", pa.float64(), "baseline error"),
    ("better", pa.int64(), ""),
    ("planned", pa.bool_(), ""),
    ("beats_constant", pa.bool_(), "usable"),
    ("halved", pa.bool_(), "below half"),
    ("epsilon_needed", pa.float64(), ""),
    ("epsilon_halved", pa.float64(), ""),
    ("epsilon_least", pa.float64(), ""),
    ("proposed", pa.bool_(), "proposed"),
)
"""Columns of the table of grids, their types, and the headings of those that a notebook shows."""
_SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])
_SHOWN = {name: heading for name, _, heading in _COLUMNS if heading}


@dataclass(frozen=True)
class Capacity:
    """Capacity of a fleet: one assessment per grid and privacy unit.

    Attributes
    ----------
    offers : tuple of GridAssessment
    epsilon : float
        The loss they are compared at.
    privacy_unit : str
        The privacy unit of the data set: proposals are made for it.
    """

    offers: tuple[GridAssessment, ...]
    epsilon: float
    privacy_unit: Unit

    @cached_property
    def proposed(self) -> GridAssessment | None:
        """Grid of most cells with an error below half the baseline error; None without one."""
        return recommend(self.offers, self.privacy_unit)

    @cached_property
    def sentence(self) -> str:
        """Recommendation in words, for the data set's privacy unit and for weaker ones."""
        return recommendation_text(self.offers, self.privacy_unit, self.epsilon)

    def to_arrow(self) -> pa.Table:
        """Return the offers as a table, a column per attribute, and which one is proposed."""
        names = _SCHEMA.names[:-1]
        columns = [[getattr(offer, name) for offer in self.offers] for name in names]
        columns.append([offer is self.proposed for offer in self.offers])
        # What is not a number, as the error where no cell is left, becomes a null.
        arrays = [
            pa.array(column, kind, from_pandas=True)
            for column, kind in zip(columns, _SCHEMA.types, strict=True)
        ]
        return pa.table(arrays, schema=_SCHEMA)

    def to_pandas(self) -> object:
        """Return the offers as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """Return the recommendation and the table for a notebook."""
        offers = self.to_arrow()
        index = offers.column_names.index("predicted_error")
        errors = pa.array([_error_text(offer) for offer in self.offers], pa.string())
        offers = offers.set_column(index, "predicted_error", errors)
        # Columns that every grid leaves empty, such as the labels of hexagons, say nothing.
        filled = [name for name in _SHOWN if offers[name].null_count < len(offers)]
        sentence = f"{self.sentence[:1].upper()}{self.sentence[1:]}"
        return paragraph(sentence) + html_table(offers.select(filled), _SHOWN)


def _error_text(offer: GridAssessment) -> str | None:
    """Return the predicted error; a grid that was not planned has a bound that it is above."""
    if not offer.cells:
        return None
    return f"{'' if offer.planned else '> '}{offer.predicted_error:.4g}"


def capacity(  # noqa: PLR0913  a public door
    source: PublicMetadata | HasPublicMetadata,
    *,
    epsilon: Number,
    resolutions: Sequence[int] | None = None,
    timeslots: Sequence[str | None] | None = None,
    levels: Sequence[Sequence[str]] | None = None,
    privacy_units: Sequence[Unit] | None = None,
    baseline_error: Number | None = None,
    method: Method = "joint",
    mechanism: ThresholdMechanism | None = None,
    objective: Objective | None = None,
    clipping_range: ClippingRangeMode = "auto",
    range_share: Number | None = None,
    search: bool = True,
) -> Capacity:
    """Return this fleet's capacity at `epsilon`: grids, privacy units, and a recommendation.

    Public facts only; nothing is spent. The records are counted again on every grid. Proposed is
    the grid of most cells whose predicted error is under half of what one constant misses by the
    prior, for the data set's own privacy unit. Predictions are a little above what `hv.plan`
    then reaches.

    Parameters
    ----------
    source : Dataset or PublicMetadata
    epsilon : number
        Largest loss of any privacy unit.
    resolutions : sequence of int, optional
        Default: from a map of few hexagons to one beyond the finest that may be usable, by where
        the records are and how many units there are; and the data set's own. Without any choice
        of grids, what is the same map as another is left out.
    timeslots : sequence of str or None, optional
        Default: the data set's and the coarser of 1h, 3h, 6h, 1d.
    levels : sequence of sequences of str, optional
        Where cells are combinations of labels: some of their columns each. Default: every choice.
    privacy_units : sequence of str, optional
        Default: the data set's privacy unit.
    baseline_error : number, optional
        What one constant misses on average; default span / 20.
    method, mechanism, objective, clipping_range, range_share
        As for `hv.plan`.
    search : bool
        Whether the loss at which a grid would do is searched for on every grid; otherwise only the
        one that halves the error, on grids that are not certainly too fine.

    Raises
    ------
    InputError
        If the data set has no places to count again, or an argument is wrong.
    """
    facts = getattr(source, "public", source)
    if not isinstance(facts, PublicMetadata):
        raise InputError(
            "capacity counts records on other grids, which needs public presence; under private "
            "presence plan on each declared grid (hv.plan, hexveil inspect)."
        )
    grid_options = (resolutions, timeslots, levels)
    places = isinstance(facts.cells.grid, Cells)
    # For its refusals, before a plan is made: which resolutions there are depends on the plan.
    grids_to_try(facts, (resolutions or ()) if places else resolutions, timeslots, levels)
    options = PlanArguments(
        epsilon=epsilon,
        baseline_error=baseline_error,
        mechanism=mechanism,
        method=method,
        objective=objective,
        clipping_range=clipping_range,
        range_share=range_share,
    )
    result = plan_moments(facts, options)
    grids = (
        None
        if grid_options == (None, None, None)
        else grids_to_try(facts, *grid_options, most_cells=most_cells_of(result))
    )
    losses: Losses = "all" if search else "planned"
    return assess_grids(result, privacy_units=privacy_units, grids=grids, losses=losses)


def assess_grids(
    plan: MomentFigures,
    *,
    privacy_units: Sequence[Unit] | None = None,
    grids: tuple[Cells | Labels, ...] | None = None,
    losses: Losses = "all",
) -> Capacity:
    """Return assessments of other grids and privacy units for a plan's request.

    Parameters
    ----------
    plan : MomentFigures
        Of a data set; its targets, if it has any, become what they cost.
    privacy_units : sequence of str, optional
        Default: the data set's privacy unit.
    grids : tuple of Cells or Labels, optional
        Default: those that fit the records and the fleet (`hexveil.planning.feasibility.grids`).
    losses : "all", "planned", "cheapest" or "none"
        Grids for which a loss is named: searches take longest.

    Raises
    ------
    InputError
        If the data set cannot be counted on them.
    """
    facts = plan.facts
    if facts is None:
        raise InputError("grids are compared for a data set, not for a bare occupancy.")
    if not isinstance(plan.request.limit, WithinEpsilon):
        plan = replace(plan, request=plan.request.within(plan.requested_epsilon))
    has_grids = grids is not None
    if grids is None:
        grids = grids_to_try(facts, most_cells=most_cells_of(plan))
    units = (facts.privacy_unit,) if privacy_units is None else tuple(privacy_units)
    unknown = next((unit for unit in units if unit not in get_args(Unit)), None)
    if unknown is not None:
        raise InputError(
            f"privacy_unit must be one of {', '.join(get_args(Unit))}, got {unknown!r}."
        )
    all_parts = len(units) + (1 if losses == "cheapest" else 0)
    offers: list[GridAssessment] = []
    for place, unit in enumerate(units):
        work = partial(_assessed, plan, unit, losses)
        portion = place / all_parts, (place + 1) / all_parts
        offers += on_each_grid(facts, grids, unit, work, every=has_grids, part=portion)
    if losses == "cheapest":
        with share_of_work(OTHER_GRIDS, len(units) / all_parts, 1.0, SEARCH):
            offers = _with_cheapest(plan, facts, offers)
    return Capacity(tuple(offers), float(plan.requested_epsilon), facts.privacy_unit)


def _assessed(
    plan: MomentFigures,
    unit: Unit,
    losses: Losses,
    grid: Cells | Labels,
    facts: PublicMetadata | None,
) -> GridAssessment:
    """Return the assessment of one grid, with the losses that are looked for."""
    if facts is None:
        return GridAssessment(grid, unit, baseline_error=plan.support.baseline_error, better=0)
    offer = assess(plan, facts)
    if losses in ("none", "cheapest") or (losses == "planned" and not offer.planned):
        return offer
    predictor, miss = ErrorPredictor(plan, facts), offer.baseline_error
    if predictor.is_planned and losses == "all" and offer.predicted_error >= miss:
        # What the plan itself names, not another search with another last digit.
        needed = _near(plan, epsilon_needed(plan))
    else:
        needed = near_loss(predictor, offer, miss) if losses == "all" else None
    halved = near_loss(predictor, offer, miss / 2.0)
    return replace(offer, epsilon_needed=needed, epsilon_halved=halved)


def _with_cheapest(
    plan: MomentFigures, facts: PublicMetadata, offers: Sequence[GridAssessment]
) -> list[GridAssessment]:
    """Return the offers with the loss that halves the error where that loss is least, or near.

    One prediction at the least loss so far rules out a grid that needs more.
    """
    recommended = recommend(offers, facts.privacy_unit)
    at_least = max(0 if recommended is None else recommended.cells, MIN_CELLS - 1)
    order = sorted(
        (
            number
            for number, item in enumerate(offers)
            if item.privacy_unit == facts.privacy_unit and item.cells > at_least
        ),
        key=lambda number: (offers[number].epsilon_least, offers[number].relative_error),
    )
    found, minimum = list(offers), math.inf
    for number in parts_of_work(SEARCH, order):
        if offers[number].epsilon_least > minimum:
            continue
        metadata = next(counted(facts, (offers[number].grid,), facts.privacy_unit))
        assert metadata is not None  # noqa: S101  the grid has cells
        predictor, error = ErrorPredictor(plan, metadata), offers[number].baseline_error / 2.0
        if minimum < math.inf and predictor.predict(Fraction(minimum)).mean_error > error * UNDER:
            continue
        needed = near_loss(predictor, offers[number], error)
        found[number] = replace(offers[number], epsilon_halved=needed)
        minimum = min(minimum, math.inf if needed is None else needed)
    return found


def _near(plan: MomentFigures, epsilon: float | None) -> float | None:
    """Return a loss unless it is none, or far away."""
    far = MAX_EPSILON_RATIO * float(plan.requested_epsilon)
    return None if epsilon is None or epsilon > far else epsilon
