"""Methods that plan every cell alone: `per-cell` and `equal-split`.

Both give every cell the same loss ε' and let a threshold mechanism plan it. Then a user's loss is
ε' M_l with M_l = Σ_g min(m_gl, t_g) / t_g, the sum over its cells (ERRATA 3). `equal-split`
takes ε' = ε / (most cells of a user), as COMP Theorem II.3 charges; `per-cell` takes the largest
ε' whose exact loss is within ε.

The threshold depends on ε' through a rank k, constant for ε' in [2/k, 2/(k-1)). With M(k) the
largest M_l, rank k is possible when its smallest loss 2 M(k) / k is within ε, and then the best
ε' is the smaller of ε / M(k) and the end of the range.

Cells planned apart, mean and variance: COMP's BASELINE and CLIP, with any split of a loss.

Each cell has the loss ε'; the mean takes a part w of it, the variance the rest. With x the largest
share that a user contributes, the mean moves by at most x and the variance by spread(x)
(accounting/error_model.py), so the scales are x / (w ε') and spread(x) / ((1 - w) ε'), for bounds
of width 1. The best w makes the sum of both scales least, each as a share of the error of a
constant: w is to 1 - w as √(2 x) to √(8 spread(x)). CLIP keeps at most t samples of a user (the
rank that the mechanism takes at half the cell's loss, since each statistic gets about that); what
is above is put at the middle, not dropped.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, has_single_record
from hexveil.accounting.privacy_loss import threshold_shares, unsuppressed_cells
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import ULP
from hexveil.mechanisms import ThresholdMechanism
from hexveil.mechanisms.looks.bounds import WithinBounds
from hexveil.model.occupancy import Occupancy
from hexveil.model.pair_columns import SuppressedPairs
from hexveil.planning.allocation import PlanAllocation, full_factors
from hexveil.planning.optimizers.joint import quantize_noise_scales
from hexveil.planning.request import Request

ROUNDING_MARGIN = 1 - Fraction(1, 2**40)
"""Keeps a loss rounded up within the ε it was solved for, and a rank inside its open range."""


def largest_cell_epsilon(
    occupancy: Occupancy, epsilon: Fraction, mechanism: ThresholdMechanism
) -> Fraction:
    """Return the largest common ε' at which no user loses more than ε.

    Smaller ranks have larger ε', so that the first that fits is the best. Ranks up to one of which
    M_l over the cells that have so many users is too large already are passed over.

    Raises
    ------
    InputError
        If the mechanism has no rank that fits.
    """
    rank = 1
    # Beyond the most users of a cell every threshold is 0, and larger ranks change nothing.
    final = int(occupancy.users_per_cell.max()) + 1
    while rank <= final and (reach := mechanism.epsilon_range(rank)) is not None:
        (low, high), weight = reach, max_relative_loss(occupancy, rank, rank)
        best = epsilon * ROUNDING_MARGIN / Fraction(weight) if weight else high
        if best is None:  # nobody loses anything at any ε': any will do
            return epsilon
        best = best if high is None else min(best, high * ROUNDING_MARGIN)
        if best >= low:
            return best
        jump = min(mechanism.rank(epsilon / Fraction(weight)), final)
        sure = Fraction(max_relative_loss(occupancy, rank, jump))
        rank = max(rank + 1, min(jump, mechanism.rank(epsilon / sure)) if sure else 0)
    raise InputError(f"{mechanism.name} has no plan for this occupancy within epsilon.")


def max_relative_loss(occupancy: Occupancy, rank: int, users: int) -> float:
    """Return the largest Σ min(m, t)/t of a user, t of the given rank, rounded up.

    Only cells with at least `users` users count.
    """
    threshold = occupancy.kth_largest(rank) * (occupancy.users_per_cell >= users)
    total = occupancy.map_users(partial(threshold_shares, threshold=threshold))
    # The sums round to nearest, and a loss must round up.
    return float(total.max()) * (1.0 + ULP)


def allocate_independently(
    occupancy: Occupancy,
    span: Floats,
    request: Request,
    cell_epsilon: Fraction,
    suppressed: SuppressedPairs | None = None,
) -> PlanAllocation:
    """Return the rows of all cells at a cell loss of `cell_epsilon`.

    Parameters
    ----------
    occupancy : Occupancy
    span : ndarray of float, shape (n_cells,)
    request : Request
    cell_epsilon : Fraction
    suppressed : SuppressedPairs, optional
        These pairs are put at the middle, and nothing else is clipped.
    """
    mean, variance = ("mean" in request.noised), ("variance" in request.noised)
    # The rank needs a loss before the split is known, which depends on the cap of that rank.
    part = cell_epsilon / 2 if mean and variance else cell_epsilon
    untouched = np.ones(occupancy.n_cells, dtype=bool)
    if suppressed is None:
        capped = occupancy.kth_largest(_rank(request, part))
    else:
        capped, untouched = occupancy.map_cells(partial(unsuppressed_cells, suppressed=suppressed))
    total = occupancy.records_per_cell
    sensitivity, varied = capped / total, _varied(occupancy, capped, untouched)
    share = np.where(
        ~has_single_record(occupancy) | (not mean), _share(request, span, sensitivity, varied), 1.0
    )
    loss = math.nextafter(float(cell_epsilon), 0.0)
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
        clipping=WithinBounds(),
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
    mean_share = np.sqrt(moved / MAX_CONSTANT_ERROR["mean"])
    variance_share = np.sqrt(varied / MAX_CONSTANT_ERROR["variance"])
    total = mean_share + variance_share
    return np.asarray(np.divide(mean_share, total, out=np.full(span.size, 0.5), where=total > 0))


def _rank(request: Request, epsilon: Fraction) -> int:
    """Return the rank of the contribution cap; others than threshold mechanisms have none."""
    if not isinstance(request.mechanism, ThresholdMechanism):
        raise InputError(f"{request.mechanism.name} has no contribution cap by rank.")
    return request.mechanism.rank(epsilon)
