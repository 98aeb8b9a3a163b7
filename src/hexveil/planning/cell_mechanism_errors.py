"""Errors and losses of maps that mechanisms of one cell publish: see cell_mechanisms.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import CellMechanismErrorModel, constant_error
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import ProvenError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.allocation import CellMechanisms

    Floats = NDArray[np.float64]


def mean_error_model(
    span: Floats, occupancy: Occupancy, clipping: CellMechanisms
) -> CellMechanismErrorModel:
    """Return the error model of the cells' means."""
    errors = [plan.error(1.0) for plan in clipping.cells.plans]
    bias = [float(error.bias[0]) if isinstance(error, ProvenError) else 1.0 for error in errors]
    return CellMechanismErrorModel(
        "mean",
        span,
        np.array([float(error.scale[0]) for error in errors]),
        np.zeros(len(errors)),
        constant_error("mean", occupancy),
        reads_values=np.array([bool(plan.stages) for plan in clipping.cells.plans]),
        proven=np.array([isinstance(error, ProvenError) for error in errors]),
        max_bias=np.array(bias),
        predicted_error=clipping.predicted_error,
        error_bound95=np.array([float(error.bound95[0]) for error in errors]),
    )


def no_variances() -> InputError:
    """Return the refusal of variances."""
    return InputError(
        "mechanisms with stages of their own publish the mean alone; for variances take "
        'method "joint", or the mechanism OptimalClipping() or Baseline().'
    )


def losses_per_pair(clipping: CellMechanisms) -> Floats:
    """Return the privacy loss of each (cell, user) pair, rounded up."""
    return np.concatenate([plan.losses() for plan in clipping.cells.plans])
