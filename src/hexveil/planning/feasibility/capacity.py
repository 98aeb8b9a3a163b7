"""Capacity of a fleet: a table of grids and predicted errors; proposed runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.model.cells import Cells, Labels, OneCell
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.planning.feasibility.grid_assessment import (
    GridAssessment,
    facts_of,
    survey,
    with_prediction,
)
from hexveil.planning.feasibility.grids import (
    check_grids,
    counted,
    with_min_users,
)
from hexveil.planning.feasibility.prediction import ErrorPredictor, epsilon_needed
from hexveil.planning.feasibility.recommendation import (
    Choice,
    choose,
    recommendation_text,
)
from hexveil.planning.methods import plan_moments
from hexveil.planning.plan_arguments import PlanArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.planning.moment_component import MomentComponent

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
    ("epsilon_needed", pa.float64(), ""),
    ("epsilon_least", pa.float64(), ""),
    ("proposed", pa.bool_(), "proposed"),
)
"""Columns of the table of grids, their types, and the headings of those that a notebook shows."""
_SCHEMA = pa.schema([(name, kind) for name, kind, _ in _COLUMNS])
_SHOWN = {name: heading for name, _, heading in _COLUMNS if heading}


@dataclass(frozen=True)
class Capacity:
    """Capacity of a fleet: one assessment per grid.

    Attributes
    ----------
    offers : tuple of GridAssessment
    epsilon : float
        The loss they are compared at.
    privacy_unit : str
        The privacy unit of the data set.
    """

    offers: tuple[GridAssessment, ...]
    epsilon: float
    privacy_unit: Unit

    @cached_property
    def proposed(self) -> GridAssessment | None:
        """The balanced run; None if no grid is usable."""
        return choose(self.offers).get("balanced")

    @cached_property
    def sentence(self) -> str:
        """Recommendation in words."""
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


def capacity(
    source: Any,  # noqa: ANN401  a data set, or its public facts
    *,
    grids: Sequence[Cells | Labels] | None = None,
    **options: Any,  # noqa: ANN401  of `hv.plan`
) -> Capacity:
    """Return this fleet's capacity at `epsilon`: grids with their errors, and a recommendation.

    Public facts only; nothing is spent. The records are counted again on every grid. Proposed is
    the balanced of three runs (docs/understand/grids.md). Predictions are a little above what
    `hv.plan` then reaches.

    Parameters
    ----------
    source : Dataset or PublicMetadata
    grids : sequence of Cells or Labels, optional
        Default: resolutions from a map of few hexagons to one beyond the finest that may be usable,
        by where the records are and how many units there are, and the data set's own, in its
        timeslot and the coarser of 1h, 3h, 6h, 1d; of labels every choice of columns. Then what is
        the same map as another is left out.
    **options
        As for `hv.plan`: `epsilon`, and perhaps `baseline_error`, `method`, `mechanism`,
        `objective`, `clipping_range` and `range_share`.

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
    check_grids(facts, grids or ())
    asked = None if grids is None else tuple(grids)
    return assess_grids(plan_moments(facts, PlanArguments(**options)), grids=asked)


def assess_grids(
    plan: MomentComponent,
    *,
    grids: tuple[Cells | Labels, ...] | None = None,
    search: bool = True,
) -> Capacity:
    """Return assessments of other grids for a plan's request.

    Parameters
    ----------
    plan : MomentComponent
        Of a data set; its targets, if it has any, become what they cost.
    grids : tuple of Cells or Labels, optional
        Default: those that fit the records and the fleet (`hexveil.planning.feasibility.grids`).
    search : bool
        Whether the loss is looked for at which grids would do.

    Raises
    ------
    InputError
        If the data set cannot be counted on them.
    """
    unit = facts_of(plan).privacy_unit
    if plan.request.target is not None:
        plan = replace(plan, request=plan.request.within(plan.requested_epsilon))
    offers = survey(plan, grids=grids, search=search)
    return Capacity(tuple(offers), float(plan.requested_epsilon), unit)


# ---- proposed runs ----

MIN_USERS_FACTORS = (1, 2, 4)
"""Multiples of the run's smallest number of users that are tried."""
SEARCHED_MAPS = 2
"""Maps for which the needed loss is searched, where no run is usable."""


@dataclass(frozen=True)
class RunAdvice:
    """Proposed runs by choice, and why there are none.

    Attributes
    ----------
    table : Capacity
        The grids that runs were chosen from, for the cells of the data set's own selection.
    proposals : mapping of str to GridAssessment
        By "finest", "balanced" and "accurate"; empty where no run is usable.
    nearest : GridAssessment or None
        Where no run is usable, the one that would be at the least loss that was found.
    epsilon_needed : float or None
        That loss; None if 100 is not enough.
    """

    table: Capacity
    proposals: dict[Choice, GridAssessment] = field(default_factory=dict)
    nearest: GridAssessment | None = None
    epsilon_needed: float | None = None


def propose_runs(plan: MomentComponent, *, min_users: int = 1) -> RunAdvice:
    """Return the proposed runs for a plan's request, from public metadata.

    Nothing is spent. Errors are predicted for each grid around the plan's own and each of a few
    smallest numbers of users; a prediction costs about a tenth of a plan.

    Parameters
    ----------
    plan : MomentComponent
        Of a data set whose records can be counted again.
    min_users : int
        Smallest number of users with which the data set was read; smaller ones are not tried.

    Raises
    ------
    InputError
        If the data set cannot be counted on other grids.
    """
    facts = facts_of(plan)
    minimum = max(min_users, 1)
    factors = tuple(minimum * factor for factor in MIN_USERS_FACTORS)
    offers = survey(plan, min_users=factors, search=True)
    of_table = tuple(one for one in offers if one.min_users == minimum or not one.cells)
    table = Capacity(of_table, float(plan.requested_epsilon), facts.privacy_unit)
    if isinstance(facts.cells.grid, OneCell):
        return RunAdvice(table)
    proposals = choose(offers)
    nearest, needed = (None, None) if proposals else _nearest(plan, offers)
    return RunAdvice(table, proposals, nearest, needed)


def _nearest(
    plan: MomentComponent, offers: Sequence[GridAssessment]
) -> tuple[GridAssessment | None, float | None]:
    """Return the map that would be usable at the least loss, and that loss.

    Only the maps of the least lower bounds are searched: a search costs as much as a plan.
    """
    maps = sorted((one for one in offers if one.is_map), key=lambda one: one.epsilon_least)
    reached: list[tuple[float, GridAssessment]] = []
    for offer in maps[:SEARCHED_MAPS]:
        metadata = next(counted(facts_of(plan), (offer.grid,)))
        remaining = None if metadata is None else with_min_users(metadata, offer.min_users)
        assert remaining is not None  # noqa: S101  the run has cells
        predictor = ErrorPredictor(plan, remaining)
        # For the plan's own grid the number that the plan itself names.
        needed = (
            epsilon_needed(plan)
            if predictor.is_planned
            else predictor.epsilon_needed(offer.baseline_error)
        )
        judged = offer
        if not offer.planned:
            judged = with_prediction(offer, predictor.predict(plan.requested_epsilon))
        reached.append((math.inf if needed is None else needed, judged))
        del predictor, metadata, remaining  # with the pairs of its grid
    if not reached:
        return None, None
    epsilon, nearest = min(reached, key=lambda pair: (pair[0], -pair[1].cells))
    return nearest, None if math.isinf(epsilon) else epsilon
