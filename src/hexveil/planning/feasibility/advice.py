"""Advice for a grid that is too fine: a larger ε, or the finest grid that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.work_share import COUNTING, SEARCH, share_of_work
from hexveil.model.cells import Cells
from hexveil.model.declared_grid import ColumnFacts
from hexveil.model.public_metadata import PublicMetadata, many_repeats
from hexveil.planning.feasibility.grid_assessment import survey
from hexveil.planning.feasibility.grids import OTHER_GRIDS
from hexveil.planning.feasibility.prediction import epsilon_needed
from hexveil.planning.feasibility.recommendation import order_by_cells

if TYPE_CHECKING:
    from hexveil.planning.feasibility.grid_assessment import GridAssessment
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.planning.plan import Plan


USABLE_GRID = "Looking for a usable grid"
"""Name of this work, of which parts are told."""


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
    if search and planned.occupancy.is_local and not planned.delta:
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
    n_cells = facts.occupancy.n_cells
    coarser = (offer for offer in survey(plan) if offer.cells < n_cells and offer.is_usable)
    return max(coarser, key=order_by_cells, default=None)
