"""From a plan with a clipping range per cell to the allocation that a release runs, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexveil.accounting.promise import of_amount
from hexveil.mechanisms.cell_ranges.cell_range_allocation import (
    CellRangeAllocation,
    PosteriorRangeSelection,
)
from hexveil.mechanisms.cell_ranges.gaussian_looks import GaussianCellRanges
from hexveil.mechanisms.weighted.weighted_mean import WeightedMean
from hexveil.planning.allocation import PerCellRange
from hexveil.planning.clipping_range.cell_ranges import CellRangeOutputs
from hexveil.smoothing.user_mean_law import CellDesign

if TYPE_CHECKING:
    from hexveil.accounting.error_model import ErrorModel
    from hexveil.mechanisms.cell_ranges.cell_range_allocation import ReleasedCellRanges
    from hexveil.mechanisms.clipped.clipped_mean import CellLattice
    from hexveil.planning.clipping_range.cell_ranges import CellRangePlan
    from hexveil.planning.plan import Plan


@dataclass(frozen=True, eq=False)
class _PlannedCellErrors:
    """Error model of a plan with released ranges."""

    plan: Plan
    lattice_steps: int

    def __call__(self, released: ReleasedCellRanges) -> ErrorModel:
        return with_cell_ranges(self.plan, self.lattice_steps, released).error_models["mean"]


def cell_range_allocation(
    plan: Plan, cell_ranges: CellRangePlan, lattice: CellLattice, lattice_steps: int
) -> CellRangeAllocation:
    """Return the stages of a plan with a range per cell.

    Parameters
    ----------
    plan : Plan
    cell_ranges : CellRangePlan
        Its decisions.
    lattice : CellLattice
        Of cells that all have the records' bounds.
    lattice_steps : int
        Width of these bounds in quanta.
    """
    occupancy, noise = plan.occupancy, plan.mean_noise
    lower = float(lattice.lower_value[0])
    selection = PosteriorRangeSelection(
        CellDesign.of(cell_ranges.weight),
        noise,
        float(cell_ranges.first_share),
        (lower, lower + lattice.quantum * lattice_steps),
        is_gaussian=bool(plan.delta),
    )
    allocation = (GaussianCellRanges if plan.delta else CellRangeAllocation)(
        of_amount(cell_ranges.histogram_loss, plan.delta),
        cell_ranges.spread_epsilon,
        cell_ranges.first_share,
        WeightedMean(occupancy, cell_ranges.weight, noise),
        lattice,
        lattice_steps,
        selection,
        _PlannedCellErrors(plan, lattice_steps),
        plan.booked_losses,
    )
    allocation.check()
    return allocation


def with_cell_ranges(plan: Plan, lattice_steps: int, released: ReleasedCellRanges) -> Plan:
    """Return the plan with the ranges that a release chose."""
    match plan.allocation.clipping:
        case PerCellRange(plan=cell_ranges):
            outputs = CellRangeOutputs(**vars(released), span_quanta=lattice_steps)
            clipping = PerCellRange(cell_ranges.with_outputs(outputs))
            return replace(plan, allocation=replace(plan.allocation, clipping=clipping))
    return plan
