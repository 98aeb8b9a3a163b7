"""Tables and JSON of a plan of means and variances, and its stages with their outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from hexveil.mechanisms.looks import ReleaseAllocation
    from hexveil.mechanisms.stage_data import EstimateGrid, Outputs
    from hexveil.model.public_metadata import ValueLattice

PlanT = TypeVar("PlanT")


def summary(plan: Any) -> str:  # noqa: ANN401  a MomentComponent, which imports this
    """Return the plan in a line."""
    error = plan.expected_error
    if isinstance(error, float):
        shown = f"{error:.4g}"
    else:
        shown = "{" + ", ".join(f"{name}: {value:.4g}" for name, value in error.items()) + "}"
    return (
        f"method={plan.method!r}, mechanism={plan.mechanism!r}, n_cells={plan.occupancy.n_cells}, "
        f"n_users={plan.occupancy.n_users}, epsilon={float(plan.epsilon):.6g}, mean_error={shown}"
    )


def cell_table(plan: Any) -> pa.Table:  # noqa: ANN401  a MomentComponent, which imports this
    """Return a row per cell: public counts, contribution cap, noise and expected errors."""
    occupancy, has_mean = plan.occupancy, "mean" in plan.error_models
    columns = {
        "cell": pa.array(plan.names, type=pa.string()),
        "users": occupancy.users_per_cell,
        "records": occupancy.records_per_cell,
        "mechanism": pa.array([plan.mechanism] * occupancy.n_cells, type=pa.string()),
        "lower": plan.lower,
        "upper": plan.upper,
        "kept": plan.contribution_cap if has_mean else plan.allocation.variance_cap,
    }
    for name, model in plan.error_models.items():
        figures = ("scale", "bias", "error", "bound95")
        columns |= {f"{name}_{figure}": getattr(model, figure) for figure in figures}
    return pa.table(columns)


def user_table(plan: Any) -> pa.Table:  # noqa: ANN401  as above
    """Return a row per user (by number): cells, records, factor and loss."""
    occupancy = plan.occupancy
    return pa.table(
        {
            "user": np.arange(occupancy.n_users),
            "cells": occupancy.cells_per_user,
            "records": occupancy.records_per_user,
            "factor": plan.allocation.contribution_factor,
            "loss": plan.user_losses,
        }
    )


def moment_json(plan: Any) -> dict[str, Any]:  # noqa: ANN401  as above
    """Return the figures as JSON data; all of it is public."""
    support = plan.support
    return {
        "cells": support.cells,
        "users": support.users,
        "records": plan.occupancy.n_records,
        "epsilon_requested": float(plan.requested_epsilon),
        "epsilon": float(plan.epsilon),
        "l0_epsilon": float(plan.l0_epsilon),
        "method": plan.method,
        "statistics": list(plan.statistics),
        "mean_error": plan.expected_error,
        "max_error": plan.worst_case_error,
        "certificate": {
            "about": plan.bound_kind,
            "gap": plan.gap,
            "lower_bound": plan.lower_bound,
        },
        "baseline_error": support.baseline_error,
        "floor": support.floor,
        "better": support.better,
        "beats_constant": support.beats_constant,
    }


def allocation_of(plan: Any, scale: ValueLattice) -> ReleaseAllocation:  # noqa: ANN401  as above
    """Return the stages of a plan on the lattice of the records.

    Raises
    ------
    InputError
        If a bound of the plan is off the lattice, a sum or its noise could leave 64 bits, or a
        cell keeps records without noise.
    """
    stages: ReleaseAllocation = plan.allocation.clipping.stages(plan, scale)
    return stages


def with_outputs(plan: PlanT, allocation: ReleaseAllocation, outputs: Outputs) -> PlanT:
    """Return the plan with the ranges that its private stages released."""
    planned: Any = plan
    released = planned.allocation.clipping.with_outputs(allocation, outputs)
    if released is planned.allocation.clipping:
        return plan
    changed: PlanT = replace(planned, allocation=replace(planned.allocation, clipping=released))
    return changed


def grids_of(plan: Any, scale: ValueLattice) -> dict[str, EstimateGrid]:  # noqa: ANN401  as above
    """Return where published numbers can lie, by statistic; of a plan with its released ranges."""
    # Built anew from the released ranges: a grid read off the plan could differ from the draw.
    return allocation_of(plan, scale).grids(plan.error_models)
