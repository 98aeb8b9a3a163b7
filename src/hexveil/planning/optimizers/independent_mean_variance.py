"""Cells planned apart, mean and variance: COMP's BASELINE and CLIP, with any split of a loss.

Each cell has the loss ε'; the mean takes a part w of it, the variance the rest. With x the largest
share that a user contributes, the mean moves by at most x and the variance by spread(x)
(accounting/error_model.py), so the scales are x / (w ε') and spread(x) / ((1 - w) ε'), for bounds
of width 1. The best w makes the weighed sum of both scales least: w is to 1 - w as √(A x) to √(B
spread(x)), A and B being U and U² for COMP's sum of errors, else what makes each a share of the
error of a constant: 2 and 8. CLIP keeps at most t samples of a user (the rank that the mechanism
takes at half the cell's loss, since each statistic gets about that); what is above is put at the
middle, not dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.contributions import unsuppressed_cells
from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.errors import InputError
from hexveil.mechanisms import ThresholdMechanism
from hexveil.planning.allocation import PlanAllocation
from hexveil.planning.optimizers.joint import quantize_noise_scales
from hexveil.planning.plan_rows import full_factors

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.model.pair_columns import Suppressed
    from hexveil.planning.request import Request


def allocate_independently(
    occupancy: Occupancy,
    span: Floats,
    request: Request,
    cell_epsilon: Fraction,
    suppressed: Suppressed | None = None,
) -> PlanAllocation:
    """Return the rows of all cells at a cell loss of `cell_epsilon`.

    Parameters
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    request : Request
    cell_epsilon : Fraction
    suppressed : ndarray of bool, shape (n_pairs,), or SuppressedPairs, optional
        These pairs are put at the middle, and nothing else is clipped.
    """
    mean, variance = ("mean" in request.noised), ("variance" in request.noised)
    # The rank needs a loss before the split is known, which depends on the cap of that rank.
    part = cell_epsilon / 2 if mean and variance else cell_epsilon
    untouched = np.ones(occupancy.n_cells, dtype=bool)
    if suppressed is None:
        capped = occupancy.kth_largest(_rank(request, part))
    else:
        capped, untouched = occupancy.map_cells(unsuppressed_cells, pairs=(suppressed,))
    total = occupancy.records_per_cell
    sensitivity, varied = capped / total, _varied(occupancy, capped, untouched)
    share = np.where(
        ~has_single_record(occupancy) | (not mean), _share(request, span, sensitivity, varied), 1.0
    )
    loss = float(cell_epsilon)
    none = np.zeros(occupancy.n_cells)
    return PlanAllocation(
        mechanism=request.mechanism.name if suppressed is None else "CLIP-USER",
        contribution_cap=capped if mean else none.astype(np.int64),
        noise_scale_records=_noise(capped, loss * share) if mean else none,
        # The variance of one record is 0: nothing contributes, and the mean has all of the loss.
        variance_cap=np.where(varied > 0, capped, 0) if variance else none.astype(np.int64),
        variance_noise=np.divide(varied, loss * (1.0 - share), out=none.copy(), where=varied > 0)
        if variance
        else none,
        contribution_factor=full_factors(occupancy),
        suppressed_pairs=suppressed,
        cell_epsilon=cell_epsilon,
    )


def _noise(cap: NDArray[np.int64], loss: Floats) -> Floats:
    """Return the mean's noise in records at each cell's part of the loss, rounded up; few sizes."""
    return quantize_noise_scales(np.nextafter(cap / loss, np.inf) * (cap > 0), np.ceil)


def _varied(occupancy: Occupancy, cap: NDArray[np.int64], untouched: NDArray[np.bool_]) -> Floats:
    """Return the most that a user moves the variance of each cell.

    Of cells that are untouched but for the cap.
    """
    total = occupancy.records_per_cell
    untouched = untouched & (occupancy.largest_count <= cap)
    bound = variance_sensitivity_bound(cap / total)
    return np.where(untouched, variance_share(np.maximum(cap, 1), total), bound)


def _share(request: Request, span: Floats, moved: Floats, varied: Floats) -> Floats:
    """Return the mean's part of each cell's loss."""
    if "variance" not in request.noised:
        return np.ones(span.size)
    if "mean" not in request.noised:
        return np.zeros(span.size)
    if request.split is not None:
        return np.full(span.size, float(request.split))
    summed = request.error == "sum"
    mean_share = np.sqrt(moved * (span if summed else 1.0 / MAX_CONSTANT_ERROR["mean"]))
    variance_share = np.sqrt(varied * (span**2 if summed else 1.0 / MAX_CONSTANT_ERROR["variance"]))
    total = mean_share + variance_share
    return np.asarray(np.divide(mean_share, total, out=np.full(span.size, 0.5), where=total > 0))


def _rank(request: Request, epsilon: Fraction) -> int:
    """Return the rank of the contribution cap; others than threshold mechanisms have none."""
    if not isinstance(request.mechanism, ThresholdMechanism):
        raise InputError(f"{request.mechanism.name} has no contribution cap by rank.")
    return request.mechanism.rank(epsilon)
