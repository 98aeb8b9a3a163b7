"""Capacity of a fleet: a table of grids and predicted errors, and the runs that are proposed."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.model.cells import Cells
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.planning.feasibility.grid_assessment import GridAssessment, facts_of, survey
from hexveil.planning.feasibility.recommendation import Choice, choose, recommendation_text
from hexveil.planning.methods import plan_moments
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan_arguments import PlanArguments

_COLUMNS = (
    ("privacy_unit", pa.string(), "privacy unit"),
    ("resolution", pa.int64(), "resolution"),
    ("timeslot", pa.string(), "timeslot"),
    ("labels", pa.list_(pa.string()), "labels"),
    ("hexagons", pa.int64(), "hexagons"),
    ("kilometres", pa.float64(), "km wide"),
    ("cells", pa.int64(), "cells"),
    ("users", pa.int64(), "users"),
    ("floor", pa.float64(), "floor"),
    ("predicted_error", pa.float64(), "predicted error"),
    ("baseline_error", pa.float64(), "baseline error"),
    ("planned", pa.bool_(), "planned"),
    ("beats_constant", pa.bool_(), "usable"),
    ("epsilon_needed", pa.float64(), ""),
    ("proposed", pa.bool_(), "proposed"),
)
"""Columns of the table of grids, their types, and the headings of those that a notebook shows."""
_SHOWN = {name: heading for name, _, heading in _COLUMNS if heading}


MIN_USERS_FACTORS = (1, 2, 4)
"""Multiples of a run's smallest number of users that are tried."""


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
        rows: list[dict[str, Any]] = []
        for offer in self.offers:
            grid = offer.grid
            place = (
                {"resolution": grid.resolution, "timeslot": grid.timeslot}
                if isinstance(grid, Cells)
                else {"labels": grid.columns}
            )
            named = {name: getattr(offer, name) for name in ("kilometres", "beats_constant")}
            rows.append(vars(offer) | place | named | {"proposed": offer is self.proposed})
        # What is not a number, as the error where no cell is left, becomes a null.
        columns = {
            name: pa.array([row.get(name) for row in rows], kind, from_pandas=True)
            for name, kind, _ in _COLUMNS
        }
        return pa.table(columns)

    def to_pandas(self) -> object:
        """Return the offers as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        """Return the recommendation and the table for a notebook."""
        offers = self.to_arrow()
        # Columns that every grid leaves empty, such as the labels of hexagons, say nothing.
        filled = [name for name in _SHOWN if offers[name].null_count < len(offers)]
        sentence = f"{self.sentence[:1].upper()}{self.sentence[1:]}"
        return paragraph(sentence) + html_table(offers.select(filled), _SHOWN)


def capacity(source: Any, **options: Any) -> Capacity:  # noqa: ANN401  a data set, or its public facts
    """Return this fleet's capacity at `epsilon`: grids with their errors, and a recommendation.

    Public facts only; nothing is spent. The records are counted again on every grid: resolutions
    from a map of few hexagons to one beyond the finest that may be usable, by where the records are
    and how many units there are, and the data set's own, in its timeslot and the coarser of 1h, 3h,
    6h, 1d; of labels every choice of columns. Proposed is the balanced of three runs
    (docs/understand/grids.md). Predictions are a little above what `hv.plan` then reaches.

    Parameters
    ----------
    source : Dataset or PublicMetadata
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
    return assess_grids(plan_moments(facts, PlanArguments(**options)))


def assess_grids(plan: MomentComponent, min_users: int | None = None) -> Capacity:
    """Return assessments of other grids for a plan's request.

    Parameters
    ----------
    plan : MomentComponent
        Of a data set; its targets, if it has any, become what they cost.
    min_users : int, optional
        With which the data set was read: runs with twice and four times as many are assessed, too.

    Raises
    ------
    InputError
        If the data set cannot be counted on them.
    """
    if plan.request.target is not None:
        plan = replace(plan, request=plan.request.within(plan.requested_epsilon))
    least = min_users or 1
    tried = [least * factor for factor in (MIN_USERS_FACTORS if min_users else (1,))]
    found = survey(plan, min_users=tried, search=True)
    offers = tuple(one for one in found if one.min_users == least or not one.cells)
    others = tuple(one for one in found if one not in offers)
    unit = facts_of(plan).privacy_unit
    return Capacity(offers, float(plan.requested_epsilon), unit, others)
