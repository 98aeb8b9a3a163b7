"""Capacity of a fleet: a table of grids and predicted errors, and the runs that are proposed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.planning.feasibility.grid_assessment import (
    GridAssessment,
    facts_of,
    survey,
)
from hexveil.planning.feasibility.grids import check_grids
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
    ("proposed", pa.bool_(), "proposed"),
)
"""Columns of the table of grids, their types, and the headings of those that a notebook shows."""
MIN_USERS_FACTORS = (1, 2, 4)
"""Multiples of a run's smallest number of users that are tried."""
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
    others : tuple of GridAssessment
        The same grids for cells of more users: not in the table, but proposed like those.
    """

    offers: tuple[GridAssessment, ...]
    epsilon: float
    privacy_unit: Unit
    others: tuple[GridAssessment, ...] = ()

    @cached_property
    def proposals(self) -> dict[Choice, GridAssessment]:
        """The proposed runs, "finest", "balanced" and "accurate"; empty if none is usable."""
        return choose((*self.offers, *self.others))

    @property
    def proposed(self) -> GridAssessment | None:
        """The balanced run; None if no grid is usable."""
        return self.proposals.get("balanced")

    @cached_property
    def sentence(self) -> str:
        """Recommendation in words."""
        return recommendation_text(self.proposed, self.offers, self.privacy_unit, self.epsilon)

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
    require_package("scipy", "publish")
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
    min_users: int | None = None,
) -> Capacity:
    """Return assessments of other grids for a plan's request.

    Parameters
    ----------
    plan : MomentComponent
        Of a data set; its targets, if it has any, become what they cost.
    grids : tuple of Cells or Labels, optional
        Default: those that fit the records and the fleet (`hexveil.planning.feasibility.grids`).
    min_users : int, optional
        Smallest number of users with which the data set was read: runs with a few larger ones are
        assessed, too.

    Raises
    ------
    InputError
        If the data set cannot be counted on them.
    """
    unit = facts_of(plan).privacy_unit
    if plan.request.target is not None:
        plan = replace(plan, request=plan.request.within(plan.requested_epsilon))
    factors = (1,) if min_users is None else MIN_USERS_FACTORS
    least = max(min_users or 1, 1)
    tried = tuple(least * factor for factor in factors)
    found = survey(plan, grids=grids, min_users=tried, search=True)
    offers = tuple(one for one in found if one.min_users == least or not one.cells)
    others = tuple(one for one in found if one not in offers)
    return Capacity(offers, float(plan.requested_epsilon), unit, others)
