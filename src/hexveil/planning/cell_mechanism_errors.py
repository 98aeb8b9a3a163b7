"""Errors and losses of maps that mechanisms of one cell publish: see cell_mechanisms.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel, constant_error
from hexveil.base.errors import InputError
from hexveil.mechanisms.per_cell_allocation import PerCellAllocation

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.allocation import CellMechanisms


def mean_error_model(
    span: Floats, occupancy: Occupancy, clipping: CellMechanisms
) -> CellMechanismErrorModel:
    """Return the error model of the cells' means."""
    figures = clipping.cells.figures
    return CellMechanismErrorModel(
        "mean",
        span,
        figures.scale,
        np.zeros(figures.scale.size),
        constant_error("mean", occupancy),
        reads_values=figures.n_stages > 0,
        proven=figures.proven,
        max_bias=figures.bias,
        predicted_error=clipping.predicted_error,
        error_bound95=figures.bound95,
    )


def no_variances() -> InputError:
    """Return the refusal of variances."""
    return InputError(
        "mechanisms with stages of their own publish the mean alone; for variances take "
        'method "joint", or the mechanism OptimalClipping() or Baseline().'
    )


def losses_per_pair(clipping: CellMechanisms) -> Floats:
    """Return the privacy loss of each (cell, user) pair, rounded up."""
    cells = clipping.cells
    cells.problem.occupancy.local()  # refuses, and says what to do
    assert isinstance(cells, PerCellAllocation)  # noqa: S101  its pairs are at hand
    return np.concatenate([plan.losses() for plan in cells.plans])
