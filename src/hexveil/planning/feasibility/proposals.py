"""Proposals of runs: resolution, timeslot and smallest number of users, chosen for a fleet.

Three runs are proposed for the privacy unit that was asked for: the finest, the most accurate, and
one in between. All of them are usable: their expected error is below that of one number for all
cells (planning/feasibility/utility_test.py), and they have at least three cells. Of runs with
equally many cells or equal errors, as printed, the one of smaller hexagons and shorter slots is
taken, so that a tie never leads to hexagons the size of a country.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.model.cells import OneCell
from hexveil.model.occupancy import LocalOccupancy
from hexveil.planning.feasibility.advice import epsilon_needed
from hexveil.planning.feasibility.grid_assessment import (
    Choice,
    GridAssessment,
    assess,
    with_prediction,
)
from hexveil.planning.feasibility.grids import (
    MIN_CELLS,
    MIN_HEXAGONS,
    counted,
    grids_to_try,
    most_cells_of,
    on_each_grid,
)
from hexveil.planning.feasibility.prediction import ErrorPredictor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexveil.model.public_metadata import PublicMetadata, Unit
    from hexveil.planning.plan_data import MomentFigures


MIN_USERS_FACTORS = (1, 2, 4)
"""Multiples of the run's smallest number of users that are tried."""
SEARCHED_MAPS = 2
"""Maps for which the needed loss is searched, where no run is usable."""
WEAKER_GAIN = 1.5
"""Ratio of removed errors from which a privacy unit that promises less is named."""
DOMINANT_SHARE = 1.0 / 3.0
"""Share of all records from which one user is looked at as the cause of the noise."""
DOMINANT_GAIN = 0.75
"""Ratio of the error without that user to the error with it, at which the user is named."""


@dataclass(frozen=True)
class RunAdvice:
    """Proposed runs by choice, and why there are none or why noise is large.

    Attributes
    ----------
    proposals : mapping of str to GridAssessment
        By "finest", "balanced" and "accurate"; empty where no run is usable.
    nearest : GridAssessment or None
        Where no run is usable, the one that would be at the least loss that was found.
    epsilon_needed : float or None
        That loss; None if 100 is not enough.
    dominant_share : float or None
        Share of all records that come from one user, where the error is much smaller without it.
    weaker : tuple of GridAssessment
        Runs in between for privacy units that promise less, where they are much better.
    """

    proposals: dict[Choice, GridAssessment]
    nearest: GridAssessment | None
    epsilon_needed: float | None
    dominant_share: float | None
    weaker: tuple[GridAssessment, ...] = ()


def propose_runs(
    plan: MomentFigures, *, min_users: int = 1, weaker_units: Sequence[Unit] = ()
) -> RunAdvice:
    """Return the proposed runs for a plan's request, from public metadata.

    Nothing is spent. Errors are predicted for each grid around the plan's own and each of a few
    smallest numbers of users; a prediction costs about a tenth of a plan.

    Parameters
    ----------
    plan : MomentFigures
        Of a data set whose records can be counted again.
    min_users : int
        Smallest number of users with which the data set was read; smaller ones are not tried.
    weaker_units : sequence of str
        Privacy units that promise less and are tried, too.

    Raises
    ------
    InputError
        If the data set cannot be counted on other grids.
    """
    facts = plan.facts
    assert facts is not None  # noqa: S101  runs are proposed for data sets
    if isinstance(facts.cells.grid, OneCell):
        return RunAdvice({}, None, None, None)
    offers = list(_search(plan, facts, facts.privacy_unit, min_users, MIN_USERS_FACTORS))
    usable = [offer for offer, _ in offers if offer.is_usable]
    nearest, needed = (None, None) if usable else _nearest(plan, facts, offers)
    proposals = choose(usable)
    enough = max(map(_removed_error, usable), default=0.0) * WEAKER_GAIN
    weaker = []
    for unit in weaker_units:
        # A map of fewer cells cannot remove as much: it is not even predicted.
        candidate = _search(plan, facts, unit, min_users, (1,), min_cells=math.floor(enough) + 1)
        best = choose([offer for offer, _ in candidate if offer.is_usable])
        # A weaker promise is named only if it buys a much better map.
        if best and _removed_error(best["balanced"]) > enough:
            weaker.append(best["balanced"])
    share = dominant_share(plan)
    return RunAdvice(proposals, nearest, needed, share, tuple(weaker))


def _nearest(
    plan: MomentFigures, facts: PublicMetadata, offers: Sequence[tuple[GridAssessment, float]]
) -> tuple[GridAssessment | None, float | None]:
    """Return the map that would be usable at the least loss, and that loss.

    Only the maps of the least lower bounds are searched: a search costs as much as a plan.
    """
    maps = sorted((pair for pair in offers if pair[0].cells >= MIN_CELLS), key=lambda pair: pair[1])
    result = []
    for offer, _ in maps[:SEARCHED_MAPS]:
        metadata = next(counted(facts, (offer.grid,), offer.privacy_unit))
        remaining = None if metadata is None else with_min_users(metadata, offer.min_users)
        assert remaining is not None  # noqa: S101  the run has cells
        predictor = ErrorPredictor(plan, remaining)
        # For the plan's own grid the number that the plan itself names.
        needed = (
            epsilon_needed(plan)
            if predictor.is_planned
            else predictor.epsilon_needed(offer.baseline_error)
        )
        observed = offer
        if not observed.planned:
            observed = with_prediction(offer, predictor.predict(plan.requested_epsilon))
        result.append((math.inf if needed is None else needed, observed))
        del predictor, metadata, remaining  # with the pairs of its grid
    if not result:
        return None, None
    epsilon, nearest = min(result, key=lambda pair: (pair[0], -pair[1].cells))
    return nearest, None if math.isinf(epsilon) else epsilon


def _search(
    plan: MomentFigures,
    facts: PublicMetadata,
    unit: Unit,
    min_users: int,
    factors: Sequence[int],
    *,
    min_cells: int = 1,
) -> Iterator[tuple[GridAssessment, float]]:
    """Yield the runs of all grids for one privacy unit, and a loss below which none is usable."""
    grids = grids_to_try(facts, most_cells=most_cells_of(plan))

    def offers(_: object, metadata: PublicMetadata | None) -> list[tuple[GridAssessment, float]]:
        return list(_offers(plan, _proposable(metadata, min_cells), min_users, factors))

    for of_grid in on_each_grid(facts, grids, unit, offers, every=False):
        yield from of_grid


def choose(usable: Sequence[GridAssessment]) -> dict[Choice, GridAssessment]:
    """Return the finest, the most accurate and a run in between; one run may be all three.

    Accuracy counts in tenths of the baseline error: of runs in the same tenth the one of most
    cells is the most accurate. The run in between has the most cells, each counted by the share of
    the baseline error that its estimate removes.
    """
    if not usable:
        return {}
    finest = max(usable, key=lambda one: (one.cells, one.fineness, -one.printed_error))
    accurate = min(
        usable,
        key=lambda one: (_tenths(one), -one.cells, one.printed_error, *(-f for f in one.fineness)),
    )
    between = [
        one
        for one in usable
        if accurate.cells < one.cells < finest.cells
        and one.predicted_error < finest.predicted_error
    ]
    balanced = max(between or usable, key=lambda one: (_removed_error(one), one.fineness))
    return {"finest": finest, "balanced": balanced, "accurate": accurate}


def _tenths(offer: GridAssessment) -> int:
    return math.ceil(10.0 * offer.relative_error)


def _removed_error(offer: GridAssessment) -> float:
    return offer.cells * (1.0 - offer.relative_error)


def _proposable(metadata: PublicMetadata | None, min_cells: int) -> PublicMetadata | None:
    """Return the metadata if it has the cells, and enough hexagons for a map."""
    if metadata is None or metadata.occupancy.n_cells < min_cells:
        return None
    places = metadata.cells.n_places
    return metadata if places is None or places >= MIN_HEXAGONS else None


def _offers(
    plan: MomentFigures, metadata: PublicMetadata | None, min_users: int, factors: Sequence[int]
) -> Iterator[tuple[GridAssessment, float]]:
    """Yield the run on a grid for each smallest number of users that leaves other cells."""
    if metadata is None:
        return
    observed = set()
    for factor in factors:
        minimum = max(min_users, 1) * factor
        remaining = with_min_users(metadata, minimum)
        if remaining is not None and remaining.occupancy.n_cells not in observed:
            observed.add(remaining.occupancy.n_cells)
            offer = assess(plan, remaining, min_users=minimum)
            yield offer, ErrorPredictor(plan, remaining).epsilon_lower_bound(offer.baseline_error)


def with_min_users(metadata: PublicMetadata, min_users: int) -> PublicMetadata | None:
    """Return the public metadata of the cells with at least so many users; None without one.

    None, too, where pairs stay elsewhere and some cell has fewer.
    """
    remaining = metadata.occupancy.users_per_cell >= min_users
    if remaining.all():
        return metadata
    # Pairs that stay elsewhere are selected as they are read: a run with this number is another.
    if not remaining.any() or not metadata.occupancy.is_local:
        return None
    return _subset(metadata, remaining, remaining[metadata.occupancy.local().cell])


def _subset(metadata: PublicMetadata, cells: object, pairs: object) -> PublicMetadata:
    """Return the public metadata of some cells and pairs; cells and users are numbered anew."""
    occupancy = metadata.occupancy.local()
    rows = np.flatnonzero(np.asarray(cells))
    selection = np.flatnonzero(np.asarray(pairs))
    cell = np.searchsorted(rows, occupancy.cell[selection])
    user = np.unique(occupancy.user[selection], return_inverse=True)[1]
    smaller = LocalOccupancy.from_coo(cell, user, occupancy.n[selection])
    return replace(metadata, occupancy=smaller, cells=metadata.cells.take(rows), recount=None)


def dominant_share(plan: MomentFigures) -> float | None:
    """Return the share of records of one user without whom the error is much smaller, or None."""
    facts = plan.facts
    assert facts is not None  # noqa: S101  runs are proposed for data sets
    records = facts.occupancy.records_per_user
    largest = int(np.argmax(records))
    share = float(records[largest] / records.sum())
    if share < DOMINANT_SHARE or records.size == 1 or not facts.occupancy.is_local:
        return None
    occupancy = facts.occupancy.local()
    others = occupancy.user != largest
    cells = np.bincount(occupancy.cell[others], minlength=occupancy.n_cells) > 0
    without = _subset(facts, cells, others)
    epsilon = plan.requested_epsilon
    error = ErrorPredictor(plan, facts).predict(epsilon).mean_error
    less = ErrorPredictor(plan, without).predict(epsilon).mean_error
    return share if less < DOMINANT_GAIN * error else None


def distinct(proposals: dict[Choice, GridAssessment]) -> Iterable[tuple[str, GridAssessment]]:
    """Return each proposed run once, with the choices that it is."""
    names: dict[GridAssessment, list[str]] = {}
    for choice, proposal in proposals.items():
        names.setdefault(proposal, []).append(choice)
    return [(", ".join(choices), proposal) for proposal, choices in names.items()]
