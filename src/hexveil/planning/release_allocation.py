"""From a plan to the stages that a release runs, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexveil.mechanisms.looks.kinds import ReleaseAllocation

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import EstimateGrid, Outputs
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.moment_part import MomentPart


def allocation_of(plan: MomentPart, scale: ValueLattice) -> ReleaseAllocation:
    """Return the stages of a plan on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
        cell keeps records without noise.
    """
    return plan.allocation.clipping.stages(plan, scale)


def with_outputs(plan: MomentPart, allocation: ReleaseAllocation, outputs: Outputs) -> MomentPart:
    """Return the plan with the ranges that its private stages released."""
    released = plan.allocation.clipping.with_outputs(allocation, outputs)
    if released is plan.allocation.clipping:
        return plan
    return replace(plan, allocation=replace(plan.allocation, clipping=released))


def grids_of(plan: MomentPart, scale: ValueLattice) -> dict[str, EstimateGrid]:
    """Return where published numbers can lie, by statistic; of a plan with its released ranges."""
    # Built anew from the released ranges: a grid read off the plan could differ from the draw.
    return allocation_of(plan, scale).grids(plan.error_models)
