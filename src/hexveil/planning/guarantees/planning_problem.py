"""Planning problem of every method, and the samples that an allocation keeps of each user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.contributions import (
    clipped_by_caps,
    contributed_records,
    contributed_totals,
)
from hexveil.accounting.error_model import span_in_quanta
from hexveil.model.pair_columns import suppressed_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction
    from typing import Any

    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.request import Request


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """Public input of every method: counts, bounds and request.

    Attributes
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
        Width of each cell's bounds.
    request : Request
    facts : PublicMetadata or None
        Where there are records: contributions are whole quanta of their lattice.
    """

    occupancy: Occupancy
    span: Floats
    request: Request
    facts: PublicMetadata | None = None

    def within(self, epsilon: Fraction) -> PlanningProblem:
        """Return the problem with a privacy loss in place of its epsilon or targets."""
        return replace(self, request=self.request.within(epsilon))

    def without_metadata(self) -> PlanningProblem:
        """Return the problem of the bare counts: contributions may be fractions of quanta."""
        return replace(self, facts=None)


def mean_noise(problem: PlanningProblem, allocation: PlanAllocation) -> Floats:
    """Return the Laplace scale of each cell's mean, for bounds or a clipping range of width 1."""
    return np.asarray(allocation.noise_scale_records / divisors(problem, allocation))


def divisors(problem: PlanningProblem, allocation: PlanAllocation) -> Ints:
    """Return the samples by which each cell's sums are divided."""
    if allocation.normaliser == "records":
        return np.asarray(problem.occupancy.records_per_cell)
    return np.asarray(map_contributions(problem, allocation, contributed_totals))


def map_contributions(
    problem: PlanningProblem,
    allocation: PlanAllocation,
    work: Callable[..., Any],
    cells: tuple[Ints, ...] = (),
) -> Any:  # noqa: ANN401  what the work returns
    """Apply a function of whole contributions to the pairs of each cell."""
    cells = *cells, allocation.contribution_cap
    return problem.occupancy.map_cells(work, cells, (), allocation.suppressed)


def caps_and_quanta(
    problem: PlanningProblem, allocation: PlanAllocation, statistic: str
) -> tuple[Ints, Floats]:
    """Return the contribution cap of each cell, and its bounds' width in quanta.

    The width is 0 where contributions need not be whole quanta.
    """
    fractional = np.zeros(problem.occupancy.n_cells)
    if statistic == "variance":
        return allocation.variance_cap, fractional
    if problem.facts is None:
        return allocation.contribution_cap, fractional
    return allocation.contribution_cap, span_in_quanta(problem.span, problem.facts)


def contributions(problem: PlanningProblem, allocation: PlanAllocation, statistic: str) -> Floats:
    """Return the records of each pair that count for a statistic."""
    capped = contributed_records(
        problem.occupancy.local(),
        *caps_and_quanta(problem, allocation, statistic),
        allocation.contribution_factor,
    )
    for suppressed in allocation.suppressed:
        dropped = suppressed_column(suppressed, problem.occupancy.local())
        capped = np.where(dropped, 0.0, capped)
    return capped


def clipped_share(problem: PlanningProblem, allocation: PlanAllocation, statistic: str) -> Floats:
    """Return the share of each cell's records that a statistic moves to the midpoint."""
    occupancy = problem.occupancy
    clipped = occupancy.map_cells(
        clipped_by_caps,
        caps_and_quanta(problem, allocation, statistic),
        (allocation.contribution_factor,),
        allocation.suppressed,
    )
    return np.asarray(clipped / occupancy.records_per_cell, dtype=np.float64)
