"""Proposals of runs: resolution, timeslot and smallest number of users, chosen for a fleet.

Three runs are proposed for the privacy unit that was asked for: the finest, the most accurate, and
one in between. All of them are usable: their expected error is below that of one number for all
cells (planning/feasibility/utility_test.py), and they have at least three cells. Of runs with
equally many cells or equal errors, as printed, the one of smaller hexagons and shorter slots is
taken, so that a tie never leads to hexagons the size of a country.

Smoothed estimates. By the prior, cells lie around one number with a standard deviation t, and a raw
estimate around its cell with a standard deviation s. Where both are normal, the posterior mean
misses sqrt(2/pi) / sqrt(1/t^2 + 1/s^2) on average: less than either. Laplace noise of scale b has
the variance 2 b^2, and bias counts as it is; the raw error is a limit, as the normal formula
exceeds it where noise is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexveil.base.work_share import COUNTING, share_of_work
from hexveil.model.cells import Cells, OneCell
from hexveil.model.occupancy import LocalOccupancy
from hexveil.planning.feasibility.advice import UNDER, two_figures_up
from hexveil.planning.feasibility.grid_assessment import MIN_CELLS
from hexveil.planning.feasibility.grids import (
    MIN_HEXAGONS,
    OTHER_GRIDS,
    counted,
    grids_to_try,
    maps_to_assess,
    most_cells_of,
    share_of_grid,
)
from hexveil.planning.feasibility.prediction import ErrorPredictor
from hexveil.planning.feasibility.recommendation import fineness
from hexveil.planning.feasibility.utility_test import is_assumed, small_map_factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexveil.model.cells import Labels
    from hexveil.model.public_metadata import PublicMetadata, Unit
    from hexveil.planning.clipping_range.fast_prediction import ErrorPrediction
    from hexveil.planning.plan import Plan

Choice = Literal["finest", "balanced", "accurate"]

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
MEAN_ABS_NORMAL = math.sqrt(2.0 / math.pi)
"""Expected |x| of a standard normal x."""


@dataclass(frozen=True)
class RunProposal:
    """One run, with its expected errors in value units.

    Attributes
    ----------
    grid : Cells or Labels
    min_users : int
    privacy_unit : str
    cells, users : int
    raw_error, smoothed_error : float
        Expected average error of raw and of smoothed estimates.
    baseline_error : float
        Assumed average error of one number for all cells.
    hexagons : int or None
        Different places of the cells; None for labels.
    """

    grid: Cells | Labels
    min_users: int
    privacy_unit: Unit
    cells: int
    users: int
    raw_error: float
    smoothed_error: float
    baseline_error: float
    hexagons: int | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the raw estimates are expected to be better than one number for all cells."""
        return self.cells >= MIN_CELLS and self.raw_error < self.baseline_error

    @property
    def description(self) -> str:
        """The cells in words."""
        if not isinstance(self.grid, Cells):
            return " x ".join(self.grid.columns)
        slots = "" if self.grid.timeslot is None else f" in {self.grid.timeslot} slots"
        return f"resolution {self.grid.resolution}{slots}"


@dataclass(frozen=True)
class RunAdvice:
    """Proposed runs by choice, and why there are none or why noise is large.

    Attributes
    ----------
    proposals : mapping of str to RunProposal
        By "finest", "balanced" and "accurate"; empty where no run is usable.
    nearest : RunProposal or None
        Where no run is usable, the one that would be at the least loss that was found.
    epsilon_needed : float or None
        That loss; None if 100 is not enough.
    dominant_share : float or None
        Share of all records that come from one user, where the error is much smaller without it.
    weaker : tuple of RunProposal
        Runs in between for privacy units that promise less, where they are much better.
    """

    proposals: dict[Choice, RunProposal]
    nearest: RunProposal | None
    epsilon_needed: float | None
    dominant_share: float | None
    weaker: tuple[RunProposal, ...] = ()


def propose_runs(made: Plan, *, min_users: int = 1, weaker_units: Sequence[Unit] = ()) -> RunAdvice:
    """Return the proposed runs for a plan's request, from public metadata.

    Nothing is spent. Errors are predicted for each grid around the plan's own and each of a few
    smallest numbers of users; a prediction costs about a tenth of a plan.

    Parameters
    ----------
    made : Plan
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
    facts = made.facts
    assert facts is not None  # noqa: S101  runs are proposed for data sets
    if isinstance(facts.cells.grid, OneCell):
        return RunAdvice({}, None, None, None)
    offers = list(_search(made, facts, facts.privacy_unit, min_users, MIN_USERS_FACTORS))
    usable = [offer for offer, _ in offers if offer.is_usable]
    nearest, needed = (None, None) if usable else _nearest(made, facts, offers)
    proposals = choose(usable)
    enough = max(map(_removed_error, usable), default=0.0) * WEAKER_GAIN
    weaker = []
    for unit in weaker_units:
        # A map of fewer cells cannot remove as much: it is not even predicted.
        tried = _search(made, facts, unit, min_users, (1,), min_cells=math.floor(enough) + 1)
        best = choose([offer for offer, _ in tried if offer.is_usable])
        # A weaker promise is named only if it buys a much better map.
        if best and _removed_error(best["balanced"]) > enough:
            weaker.append(best["balanced"])
    share = dominant_share(made)
    return RunAdvice(proposals, nearest, needed, share, tuple(weaker))


def _nearest(
    made: Plan, facts: PublicMetadata, offers: Sequence[tuple[RunProposal, float]]
) -> tuple[RunProposal | None, float | None]:
    """Return the map that would be usable at the least loss, and that loss.

    Only the maps of the least lower bounds are searched: a search costs as much as a plan.
    """
    maps = [pair for pair in offers if pair[0].cells >= MIN_CELLS]
    maps.sort(key=lambda pair: pair[1])
    found = []
    for offer, _ in maps[:SEARCHED_MAPS]:
        predictor = _predictor_of(made, facts, offer)
        epsilon = predictor.required_epsilon(offer.baseline_error * UNDER)
        found.append((math.inf if epsilon is None else epsilon, _with_errors(offer, predictor)))
        del predictor  # with the pairs of its grid
    if not found:
        return None, None
    epsilon, offer = min(found, key=lambda pair: (pair[0], -pair[1].cells))
    return offer, None if math.isinf(epsilon) else two_figures_up(epsilon)


def _predictor_of(made: Plan, facts: PublicMetadata, offer: RunProposal) -> ErrorPredictor:
    """Return the predictor of a run's errors; its records are counted again."""
    metadata = next(counted(facts, (offer.grid,), offer.privacy_unit))
    kept = None if metadata is None else with_min_users(metadata, offer.min_users)
    assert kept is not None  # noqa: S101  the run has cells
    return ErrorPredictor(made, kept)


def _search(
    made: Plan,
    facts: PublicMetadata,
    unit: Unit,
    min_users: int,
    factors: Sequence[int],
    *,
    min_cells: int = 1,
) -> Iterator[tuple[RunProposal, float]]:
    """Yield the runs of all grids for one privacy unit, and a loss below which none is usable."""
    grids = grids_to_try(facts, most_cells=most_cells_of(made))
    one_by_one = maps_to_assess(facts, grids, unit, every=False)
    for number in range(len(grids)):
        with share_of_work(OTHER_GRIDS, *share_of_grid(number, len(grids)), COUNTING):
            candidate = next(one_by_one, None)
            if candidate is None:
                break
            # Under no name afterwards: its pairs are freed before the next grid is counted.
            offers = list(_offers(made, _proposable(candidate[2], min_cells), min_users, factors))
            del candidate
        yield from offers


def choose(usable: Sequence[RunProposal]) -> dict[Choice, RunProposal]:
    """Return the finest, the most accurate and a run in between; one run may be all three.

    Accuracy counts in tenths of the baseline error: of runs in the same tenth the one of most
    cells is the most accurate. The run in between has the most cells, each counted by the share of
    the baseline error that its estimate removes.
    """
    if not usable:
        return {}
    finest = max(usable, key=lambda one: (one.cells, _fineness(one), -_printed(one)))
    accurate = min(
        usable,
        key=lambda one: (_tenths(one), -one.cells, _printed(one), *(-f for f in _fineness(one))),
    )
    between = [
        one
        for one in usable
        if accurate.cells < one.cells < finest.cells and one.raw_error < finest.raw_error
    ]
    balanced = max(between or usable, key=lambda one: (_removed_error(one), _fineness(one)))
    return {"finest": finest, "balanced": balanced, "accurate": accurate}


def _tenths(offer: RunProposal) -> int:
    return math.ceil(10.0 * offer.raw_error / offer.baseline_error)


def _removed_error(offer: RunProposal) -> float:
    return offer.cells * (1.0 - offer.raw_error / offer.baseline_error)


def _fineness(offer: RunProposal) -> tuple[float, ...]:
    resolution = offer.grid.resolution if isinstance(offer.grid, Cells) else None
    slot = offer.grid.timeslot if isinstance(offer.grid, Cells) else None
    return fineness(resolution, slot)


def _printed(offer: RunProposal) -> float:
    """Return the error with the two digits that are printed: a later one decides nothing."""
    return float(f"{offer.raw_error:.2g}")


def _proposable(metadata: PublicMetadata | None, min_cells: int) -> PublicMetadata | None:
    """Return the metadata if it has the cells, and enough hexagons for a map."""
    if metadata is None or metadata.occupancy.n_cells < min_cells:
        return None
    places = metadata.cells.n_places
    return metadata if places is None or places >= MIN_HEXAGONS else None


def _offers(
    made: Plan, metadata: PublicMetadata | None, min_users: int, factors: Sequence[int]
) -> Iterator[tuple[RunProposal, float]]:
    """Yield the run on a grid for each smallest number of users that leaves other cells."""
    if metadata is None:
        return
    seen = set()
    for factor in factors:
        least = max(min_users, 1) * factor
        kept = with_min_users(metadata, least)
        if kept is not None and kept.occupancy.n_cells not in seen:
            seen.add(kept.occupancy.n_cells)
            yield _offer(made, kept, least)


def _offer(made: Plan, metadata: PublicMetadata, min_users: int) -> tuple[RunProposal, float]:
    cells, miss = metadata.occupancy.n_cells, made.support.baseline_error
    if is_assumed(made.lower, made.upper, made.baseline_error):
        miss *= small_map_factor(cells)
    predictor = ErrorPredictor(made, metadata)
    offer = RunProposal(
        grid=metadata.cells.grid,
        min_users=min_users,
        privacy_unit=metadata.privacy_unit,
        cells=cells,
        users=metadata.occupancy.n_users,
        raw_error=math.inf,
        smoothed_error=math.inf,
        baseline_error=miss,
        hexagons=metadata.cells.n_places,
    )
    # What is certainly not usable is not predicted: of these at most the nearest is shown.
    if predictor.error_lower_bound(float(made.requested_epsilon)) < miss:
        offer = _with_errors(offer, predictor)
    return offer, predictor.epsilon_lower_bound(miss)


def _with_errors(offer: RunProposal, predictor: ErrorPredictor) -> RunProposal:
    """Return the run with its predicted errors."""
    prediction = predictor.predict(predictor.plan.requested_epsilon)
    return replace(
        offer,
        raw_error=prediction.mean_error,
        smoothed_error=smoothed_error(prediction, offer.baseline_error),
    )


def smoothed_error(prediction: ErrorPrediction, baseline_error: float) -> float:
    """Return the expected average error of smoothed estimates, by the formula of this module.

    Parameters
    ----------
    prediction : ErrorPrediction
        Of raw estimates, in value units.
    baseline_error : float
        Assumed average error of one number for all cells, in value units.

    Examples
    --------
    >>> import numpy as np
    >>> from hexveil.planning.clipping_range.fast_prediction import ErrorPrediction
    >>> round(smoothed_error(ErrorPrediction(np.array([2.0]), np.zeros(1)), 3.0), 3)
    1.803
    """
    variance = 2.0 * prediction.noise**2 + prediction.bias**2
    between = (baseline_error / MEAN_ABS_NORMAL) ** 2
    error = MEAN_ABS_NORMAL * np.sqrt(variance * between / (variance + between))
    # Laplace noise far below the differences of cells: smoothing leaves the raw estimate as it is.
    return float(np.minimum(error, prediction.error).mean())


def with_min_users(metadata: PublicMetadata, min_users: int) -> PublicMetadata | None:
    """Return the public metadata of the cells with at least so many users; None without one.

    None, too, where pairs stay elsewhere and some cell has fewer.
    """
    kept = metadata.occupancy.users_per_cell >= min_users
    if kept.all():
        return metadata
    # Pairs that stay elsewhere are selected as they are read: a run with this number is another.
    if not kept.any() or not metadata.occupancy.is_local:
        return None
    return _subset(metadata, kept, kept[metadata.occupancy.local().cell])


def _subset(metadata: PublicMetadata, cells: object, pairs: object) -> PublicMetadata:
    """Return the public metadata of some cells and pairs; cells and users are numbered anew."""
    occupancy = metadata.occupancy.local()
    rows = np.flatnonzero(np.asarray(cells))
    chosen = np.flatnonzero(np.asarray(pairs))
    cell = np.searchsorted(rows, occupancy.cell[chosen])
    user = np.unique(occupancy.user[chosen], return_inverse=True)[1]
    smaller = LocalOccupancy.from_coo(cell, user, occupancy.n[chosen])
    return replace(metadata, occupancy=smaller, cells=metadata.cells.take(rows), recount=None)


def dominant_share(made: Plan) -> float | None:
    """Return the share of records of one user without whom the error is much smaller, or None."""
    facts = made.facts
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
    epsilon = made.requested_epsilon
    error = ErrorPredictor(made, facts).predict(epsilon).mean_error
    less = ErrorPredictor(made, without).predict(epsilon).mean_error
    return share if less < DOMINANT_GAIN * error else None


def distinct(proposals: dict[Choice, RunProposal]) -> Iterable[tuple[str, RunProposal]]:
    """Return each proposed run once, with the choices that it is."""
    names: dict[RunProposal, list[str]] = {}
    for choice, proposal in proposals.items():
        names.setdefault(proposal, []).append(choice)
    return [(", ".join(choices), proposal) for proposal, choices in names.items()]
