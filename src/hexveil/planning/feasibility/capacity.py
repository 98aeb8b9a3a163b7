"""Capacity of a fleet: a table of grids, privacy units and predicted errors.

Errors are predicted (planning/feasibility/prediction.py). A grid whose error is certainly no
smaller than one constant's is not planned at all: its error and its ε are then said to be above
something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.html_tables import html_table, paragraph
from hexveil.base.optional_packages import require_package
from hexveil.base.work_share import COUNTING, SEARCH, parts_of_work, share_of_work
from hexveil.model.cells import Cells
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.planning.feasibility import recommendation
from hexveil.planning.feasibility.advice import UNDER, epsilon_needed, two_figures_up
from hexveil.planning.feasibility.grid_assessment import MIN_CELLS, GridAssessment
from hexveil.planning.feasibility.grids import (
    OTHER_GRIDS,
    counted,
    grids_to_try,
    maps_to_assess,
    most_cells_of,
    share_of_grid,
)
from hexveil.planning.feasibility.prediction import ErrorPredictor, prediction_of, scaled_epsilon
from hexveil.planning.feasibility.utility_test import is_assumed, small_map_factor
from hexveil.planning.moments.moment_options import MomentOptions
from hexveil.planning.moments.plan_moments import plan_moments
from hexveil.planning.moments.public_source import HasPublicMetadata
from hexveil.planning.request import WithinEpsilon
from hexveil.theory import noise_floor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.rational import Number
    from hexveil.mechanisms import ThresholdMechanism
    from hexveil.model.cells import Labels
    from hexveil.planning.clipping_range.fast_prediction import ErrorPrediction
    from hexveil.planning.clipping_range.private_range import ClippingRangeMode
    from hexveil.planning.plan import Plan
    from hexveil.planning.request import Method, Objective

MAX_EPSILON_RATIO = 10.0
"""Where more than this many times the asked loss is needed at least, no more is said."""


_SCHEMA = pa.schema(
    [
        ("privacy_unit", pa.string()),
        ("resolution", pa.int64()),
        ("timeslot", pa.string()),
        ("slot", pa.string()),
        ("labels", pa.list_(pa.string())),
        ("hexagons", pa.int64()),
        ("kilometres", pa.float64()),
        ("cells", pa.int64()),
        ("users", pa.int64()),
        ("floor", pa.float64()),
        ("predicted_error", pa.float64()),
        ("baseline_error", pa.float64()),
        ("better", pa.int64()),
        ("planned", pa.bool_()),
        ("beats_constant", pa.bool_()),
        ("halved", pa.bool_()),
        ("epsilon_needed", pa.float64()),
        ("epsilon_halved", pa.float64()),
        ("epsilon_least", pa.float64()),
        ("proposed", pa.bool_()),
    ]
)

_SHOWN = {
    "privacy_unit": "privacy unit",
    "resolution": "resolution",
    "timeslot": "timeslot",
    "labels": "labels",
    "kilometres": "km wide",
    "hexagons": "hexagons",
    "cells": "cells",
    "users": "users",
    "floor": "floor",
    "predicted_error": "predicted error",
    "baseline_error": "baseline error",
    "beats_constant": "usable",
    "halved": "below half",
    "proposed": "proposed",
}
"""Columns that a notebook shows, with their headings."""


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
        return recommendation.recommend(self.offers, self.privacy_unit)

    @cached_property
    def sentence(self) -> str:
        """Recommendation in words, for the data set's privacy unit and for weaker ones."""
        return recommendation.recommendation_text(self.offers, self.privacy_unit, self.epsilon)

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
        Whether the loss that a grid needs is searched for; otherwise the noise of the predicted
        plan is scaled, which names a loss that is enough and costs nothing.

    Raises
    ------
    InputError
        If the data set has no places to count again, or an argument is wrong.
    """
    facts = source.public if isinstance(source, HasPublicMetadata) else source
    if not isinstance(facts, PublicMetadata):
        raise InputError(
            "capacity counts records on other grids, which needs public presence; under private "
            "presence plan on each declared grid (hv.plan, hexveil inspect)."
        )
    grid_options = (resolutions, timeslots, levels)
    places = isinstance(facts.cells.grid, Cells)
    # For its refusals, before a plan is made: which resolutions there are depends on the plan.
    grids_to_try(facts, (resolutions or ()) if places else resolutions, timeslots, levels)
    options = MomentOptions(
        mechanism=mechanism,
        method=method,
        objective=objective,
        clipping_range=clipping_range,
        range_share=range_share,
    )
    result = plan_moments(facts, epsilon=epsilon, options=options, baseline_error=baseline_error)
    grids = (
        None
        if grid_options == (None, None, None)
        else grids_to_try(facts, *grid_options, most_cells=most_cells_of(result))
    )
    return assess_grids(result, privacy_units=privacy_units, grids=grids, search=search)


def assess_grids(
    made: Plan,
    *,
    privacy_units: Sequence[Unit] | None = None,
    grids: tuple[Cells | Labels, ...] | None = None,
    search: bool = True,
    cheapest: bool = False,
) -> Capacity:
    """Return assessments of other grids and privacy units for a plan's request.

    Parameters
    ----------
    made : Plan
        Of a data set; its targets, if it has any, become what they cost.
    privacy_units : sequence of str, optional
        Default: the data set's privacy unit.
    grids : tuple of Cells or Labels, optional
        Default: those that fit the records and the fleet (`hexveil.planning.feasibility.grids`).
    search : bool
        See `capacity`.
    cheapest : bool
        Whether a loss is named only for the grid that the sentence names: searches take longest.

    Raises
    ------
    InputError
        If the data set cannot be counted on them.
    """
    facts = made.facts
    if facts is None:
        raise InputError("grids are compared for a data set, not for a bare occupancy.")
    if not isinstance(made.request.limit, WithinEpsilon):
        made = replace(made, request=made.request.within(made.requested_epsilon))
    has_grids = grids is not None
    if grids is None:
        grids = grids_to_try(facts, most_cells=most_cells_of(made))
    offers: list[GridAssessment] = []
    offered: list[Cells | Labels] = []
    units = (facts.privacy_unit,) if privacy_units is None else tuple(privacy_units)
    all_parts = len(units) + (1 if cheapest else 0)
    for place, privacy_unit in enumerate(units):
        if privacy_unit not in get_args(Unit):
            raise InputError(
                f"privacy_unit must be one of {', '.join(get_args(Unit))}, got {privacy_unit!r}."
            )
        one_by_one = maps_to_assess(facts, grids, privacy_unit, every=has_grids)
        for number in range(len(grids)):
            exact = search and not cheapest
            begin, end = ((place + part) / all_parts for part in share_of_grid(number, len(grids)))
            with share_of_work(OTHER_GRIDS, begin, end, COUNTING):
                candidate = next(one_by_one, None)
                if candidate is None:
                    break
                offered.append(candidate[1])
                is_own_grid = (privacy_unit, candidate[1]) == (facts.privacy_unit, facts.cells.grid)
                offers.append(
                    _offer(
                        made,
                        candidate[1],
                        privacy_unit,
                        candidate[2],
                        own=is_own_grid,
                        search=exact,
                    )
                )
                del candidate  # its pairs are freed before the next grid is counted
    if cheapest:
        with share_of_work(OTHER_GRIDS, len(units) / all_parts, 1.0, SEARCH):
            offers = _with_cheapest(made, offers, offered)
    return Capacity(tuple(offers), float(made.requested_epsilon), facts.privacy_unit)


def _offer(
    made: Plan,
    grid: Cells | Labels,
    privacy_unit: str,
    facts: PublicMetadata | None,
    *,
    own: bool,
    search: bool,
) -> GridAssessment:
    miss = made.support.baseline_error
    empty = GridAssessment(
        *_names(grid, privacy_unit),
        cells=0,
        users=0,
        floor=float("nan"),
        predicted_error=float("nan"),
        baseline_error=miss,
        better=0,
        planned=False,
        beats_constant=False,
        halved=False,
        epsilon_needed=None,
        epsilon_halved=None,
        epsilon_least=0.0,
    )
    if facts is None:
        return empty
    # A number from outside is about the caller's own map, and stays as it is given.
    if is_assumed(made.lower, made.upper, made.baseline_error):
        miss *= small_map_factor(facts.occupancy.n_cells)
    predictor, requested = ErrorPredictor(made, facts), made.requested_epsilon
    error, prediction = predictor.error_lower_bound(float(requested)), None
    # Above the constant already by the bound: planning could only confirm it.
    if own or error < miss:
        prediction = prediction_of(made) if own else predictor.predict(requested)
        error = prediction.mean_error
    cells, users = facts.occupancy.n_cells, facts.occupancy.n_users
    needed = _needed if search else _scaled
    return replace(
        empty,
        hexagons=facts.cells.n_places,
        cells=cells,
        users=users,
        baseline_error=miss,
        floor=noise_floor(predictor.span, cells, users, float(requested)),
        predicted_error=error,
        better=None if prediction is None else int((prediction.error < miss).sum()),
        planned=prediction is not None,
        beats_constant=prediction is not None and error < miss,
        halved=prediction is not None and error < miss / 2.0,
        # What the plan itself names, not another search with another last digit.
        epsilon_needed=_near(made, epsilon_needed(made))
        if own and search and error >= miss
        else needed(predictor, prediction, miss),
        epsilon_halved=needed(predictor, prediction, miss / 2.0),
        epsilon_least=predictor.epsilon_lower_bound(miss / 2.0),
    )


def _with_cheapest(
    made: Plan, offers: Sequence[GridAssessment], grids: Sequence[Cells | Labels]
) -> list[GridAssessment]:
    """Return the offers with the loss that halves the error where that loss is least, or near.

    One prediction at the least loss so far rules out a grid that needs more.
    """
    facts = made.facts
    if facts is None:
        return list(offers)
    unit = facts.privacy_unit
    recommended = recommendation.recommend(offers, unit)
    at_least = max(0 if recommended is None else recommended.cells, MIN_CELLS - 1)
    # Losses that were found by scaling tell where the search probably ends.
    order = sorted(
        (i for i, one in enumerate(offers) if one.privacy_unit == unit and one.cells > at_least),
        key=lambda i: (offers[i].epsilon_halved or math.inf, offers[i].epsilon_least),
    )
    found = [replace(one, epsilon_needed=None, epsilon_halved=None) for one in offers]
    least = math.inf
    for i in parts_of_work(SEARCH, order):
        if offers[i].epsilon_least > least:
            continue
        needed = _cheaper(made, facts, grids[i], offers[i], least)
        found[i] = replace(found[i], epsilon_halved=needed)
        least = min(least, math.inf if needed is None else needed)
    return found


def _cheaper(
    made: Plan, facts: PublicMetadata, grid: Cells | Labels, offer: GridAssessment, least: float
) -> float | None:
    """Return the loss that halves the error on a grid; None if it is certainly above `least`."""
    metadata = next(counted(facts, (grid,), facts.privacy_unit))
    assert metadata is not None  # noqa: S101  the grid has cells
    predictor, error = ErrorPredictor(made, metadata), offer.baseline_error / 2.0
    if least < math.inf and predictor.predict(Fraction(least)).mean_error > error * UNDER:
        return None
    seen = predictor.predict(made.requested_epsilon) if offer.planned else None
    return _needed(predictor, seen, error)


def _names(
    grid: Cells | Labels, privacy_unit: str
) -> tuple[str, int | None, str | None, str | None, tuple[str, ...] | None]:
    """Return the unit, resolution, timeslot, slot and labels of an offer."""
    if isinstance(grid, Cells):
        return privacy_unit, grid.resolution, grid.timeslot, grid.slot, None
    return privacy_unit, None, None, None, grid.columns


def _near(made: Plan, epsilon: float | None) -> float | None:
    """Return a loss unless it is none, or far away."""
    far = MAX_EPSILON_RATIO * float(made.requested_epsilon)
    return None if epsilon is None or epsilon > far else epsilon


def _scaled(predictor: ErrorPredictor, seen: ErrorPrediction | None, error: float) -> float | None:
    """Return a loss that is enough by scaling; None where none is needed, known or near."""
    if seen is None or seen.mean_error < error:
        return None
    requested = predictor.plan.requested_epsilon
    epsilon = scaled_epsilon(seen, requested, error * UNDER)
    return two_figures_up(epsilon) if epsilon <= MAX_EPSILON_RATIO * float(requested) else None


def _needed(predictor: ErrorPredictor, seen: ErrorPrediction | None, error: float) -> float | None:
    """Return the loss at which the error would be this small; None where it is, or far away."""
    requested = predictor.plan.requested_epsilon
    if seen is not None and seen.mean_error < error:
        return None
    # Nobody pays ten times the loss: the search would be for nothing.
    if predictor.epsilon_lower_bound(error) > MAX_EPSILON_RATIO * float(requested):
        return None
    epsilon = predictor.required_epsilon(error * UNDER, None if seen is None else requested)
    return None if epsilon is None else two_figures_up(epsilon)
