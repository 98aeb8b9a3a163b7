"""Recommendation of grids: three runs, and advice in words.

Three runs are proposed for the privacy unit that was asked for: the finest, the most accurate, and
one in between, over resolutions, timeslots and smallest numbers of users. All of them are usable:
their expected error is below that of one number for all cells
(planning/feasibility/utility_test.py), and they have at least three cells, in three hexagons. A
weaker promise is never slipped in.

Of grids with equally many cells or equal errors, as printed, the one of smaller hexagons and
shorter slots is taken, so that a tie never leads to hexagons the size of a country.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from hexveil.base.work_share import COUNTING, SEARCH, share_of_work
from hexveil.model.cells import Cells
from hexveil.model.declared_grid import ColumnFacts
from hexveil.model.public_metadata import PublicMetadata, Unit, many_repeats
from hexveil.planning.feasibility.grid_assessment import GridAssessment, fineness, printed, survey
from hexveil.planning.feasibility.grids import OTHER_GRIDS
from hexveil.planning.feasibility.prediction import epsilon_needed
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan import Plan

SAFE_ERROR = 0.5
"""Error, in that of one number, up to which a map says more where cells differ half as much."""
Choice = Literal["finest", "balanced", "accurate"]
"""Proposed grids: of most cells, of least error, and one in between."""


def choose(runs: Iterable[GridAssessment]) -> dict[Choice, GridAssessment]:
    """Return the finest usable run, the most accurate, and one in between; perhaps all are one.

    Accuracy counts in tenths of the baseline error: of runs in the same tenth the one of most
    cells is the most accurate. The run in between has the most cells, each counted by the share of
    the baseline error that its estimate removes, and if it can at most half of that error.
    """
    usable = [run for run in runs if run.is_usable]
    if not usable:
        return {}
    finest = max(
        usable, key=lambda one: (one.cells, fineness(one.grid), -printed(one.predicted_error))
    )
    accurate = min(
        usable,
        key=lambda one: (
            math.ceil(10.0 * one.relative_error),
            -one.cells,
            printed(one.predicted_error),
            *(-f for f in fineness(one.grid)),
        ),
    )
    between = [
        one
        for one in usable
        if accurate.cells < one.cells < finest.cells
        and one.predicted_error < finest.predicted_error
    ]
    # How much cells differ is assumed: half of it has to do, where a grid allows for that.
    safe = [one for one in between or usable if one.relative_error <= SAFE_ERROR]
    # The part of the baseline error that a map removes, summed over its cells.
    balanced = max(
        safe or between or usable,
        key=lambda one: (one.cells * (1.0 - one.relative_error), fineness(one.grid)),
    )
    return {"finest": finest, "balanced": balanced, "accurate": accurate}


def distinct(proposals: Mapping[Choice, GridAssessment]) -> Iterator[tuple[str, GridAssessment]]:
    """Yield each proposed run once, with the choices that it is."""
    for run in dict.fromkeys(proposals.values()):
        yield ", ".join(choice for choice, one in proposals.items() if one == run), run


def recommendation_text(
    proposed: GridAssessment | None, offers: Sequence[GridAssessment], unit: Unit, epsilon: float
) -> str:
    """Return the proposed run in words, or the grid and the loss that would do."""
    if proposed is not None:
        return (
            f"proposed: {proposed.description}, unit {unit}: {proposed.cells:,} cells, error "
            f"{proposed.predicted_error:.2g}, baseline error {proposed.baseline_error:.2g}."
        )
    maps = [offer for offer in offers if offer.is_map]
    if not maps:
        return "no grid tried leaves a map of three cells, or of three hexagons."
    sentence = (
        f"no grid is expected to say more than one number for the whole map at epsilon {epsilon:g}"
    )
    needing = [one for one in maps if one.epsilon_needed is not None]
    if not needing:
        return f"{sentence}, nor at ten times that."
    # At equal loss the finer grid says more.
    would = min(
        needing,
        key=lambda one: (one.epsilon_needed or 0, -one.cells, *(-f for f in fineness(one.grid))),
    )
    needed = f"needs epsilon {would.epsilon_needed:g}"
    return f"{sentence}; {would.description} ({would.cells:,} cells) {needed}."


# ---- advice for a grid that is too fine ----

USABLE_GRID = "Looking for a usable grid"
"""Name of this work, of which parts are told."""


class GridTooFineWarning(UserWarning):
    """The map would say no more than one constant for all cells."""


def describe_repeats(facts: PublicMetadata | ColumnFacts) -> str | None:
    """Return how many records are left out as repeats, with the way out; None if few are."""
    columns = facts.columns.values() if isinstance(facts, ColumnFacts) else (facts,)
    counts = next(filter(None, (many_repeats(column.rules) for column in columns)), None)
    if counts is None:
        return None
    repeats, records = counts
    return (
        f"{repeats:,} of {records:,} records ({repeats / records:.0%}) have the user and time of "
        "another and are left out: one place of each group counts, with its average. If the times "
        'are coarser than the reports, count all: repeats = "keep" (in [read], or --set '
        "read.repeats=keep)."
    )


def ways_out(plan: Plan, *, search: bool) -> str | None:
    """Return why a map would have nothing to say, with ways out; None for a useful one.

    Parameters
    ----------
    plan : Plan
    search : bool
        Whether to look for coarser grids, which takes longer than the plan: not under a δ, nor
        where pairs are distributed.
    """
    if not plan.searches_grids or plan.refusal is None:
        return plan.refusal
    planned: MomentComponent = plan.single
    with share_of_work(USABLE_GRID, 0.0, 0.5, SEARCH):
        needed = epsilon_needed(planned)
    coarser, facts = None, planned.facts
    # Constants alone cost nothing, on any grid.
    is_searched = planned.occupancy.is_local and not planned.delta and planned.requested_epsilon > 0
    if search and is_searched:
        with share_of_work(USABLE_GRID, 0.5, 1.0, OTHER_GRIDS, SEARCH, COUNTING):
            coarser = _finest_usable(planned)
    support = planned.support
    sentence = (
        "this grid is too fine for this fleet: its expected error is "
        f"{support.mean_error:.3g} on average, and the assumed error of one number for all "
        f"{support.cells:,} cells is {support.baseline_error:.3g}"
    )
    options = []
    if coarser is not None:
        options.append(f"{coarser.description} ({coarser.cells:,} cells), the finest usable grid")
    if needed is not None:
        options.append(f"this grid with epsilon {needed:g}")
    sentence += ("; use " + ", or ".join(options) if options else "") + "."
    if search or facts is None or facts.recount is None:
        return sentence
    return f"{sentence} hv.capacity or hexveil inspect finds grids that this fleet supports."


def _finest_usable(plan: MomentComponent) -> GridAssessment | None:
    """Return the coarser grid of most cells that says more than one constant."""
    facts = plan.facts
    if facts is None or facts.recount is None or not isinstance(facts.cells.grid, Cells):
        return None
    # The same number of cells would be the same map by another name, or a finer one.
    coarser = (offer for offer in survey(plan) if offer.cells < facts.occupancy.n_cells)
    return choose(coarser).get("finest")
