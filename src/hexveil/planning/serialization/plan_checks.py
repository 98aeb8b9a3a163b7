"""Refusals of decisions that no solver makes: the contents of a folder may be a stranger's.

Checked is each array and number by itself and against the others. The losses of what is left are
computed anew, so that a decision that passes can cost a user much, but never more than is stated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.contributions import contributed_totals
from hexveil.accounting.error_model import has_single_record
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms import ThresholdMechanism
from hexveil.model.factored_weights import WEIGHT_RESOLUTION, FactoredWeights
from hexveil.planning.allocation import (
    CellMechanisms,
    Clipping,
    PerCellRange,
    PrivateRange,
    WithinBounds,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.clipping_range.cell_range_plan import CellRangePlan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.request import Request

MAX_WIDTH = 1e6
"""Widths and errors of a saved range are below this, in spans."""


def check_allocation(allocation: PlanAllocation, occupancy: Occupancy) -> None:
    """Refuse decisions under which a cell or a user would have no loss at all."""
    if allocation.cell_epsilon is not None:
        _check_positive(allocation.cell_epsilon)
    if allocation.normaliser == "contributions":
        _check_contributions(allocation, occupancy)
    match allocation.clipping:
        case PrivateRange(range=clipping_range):
            _check_range(clipping_range, occupancy, allocation.noise_scale_records)
        case PerCellRange(plan=plan):
            _check_cell_ranges(plan, occupancy, allocation.noise_scale_records)
        case CellMechanisms(predicted_error=predicted):
            if (
                predicted.shape != (occupancy.n_cells,)
                or not ((predicted >= 0) & (predicted < MAX_WIDTH)).all()
            ):
                raise InputError("it has a predicted error that no plan has.")


def _check_contributions(allocation: PlanAllocation, occupancy: Occupancy) -> None:
    """Refuse sums divided by contributing samples where these are none, or not whole."""
    cap = allocation.contribution_cap
    filled = occupancy.map_cells(contributed_totals, (cap,), (), allocation.suppressed) > 0
    is_plain = isinstance(allocation.clipping, WithinBounds)
    same = np.array_equal(cap, allocation.variance_cap)
    if not (filled.all() and is_plain and same and (allocation.contribution_factor == 1).all()):
        raise InputError("it has a cell to which nothing contributes, or parts of records do.")


def _check_positive(number: Fraction) -> None:
    if number <= 0:
        raise InputError(f"{decimal_text(number)} must be above 0.")


def _check_range(
    clipping_range: PrivateClippingRange, occupancy: Occupancy, noise: NDArray[np.float64]
) -> None:
    (low, high), weight = clipping_range.quantiles, clipping_range.weight
    width, clipped = clipping_range.width, clipping_range.clipping_error
    sane = 0 < low < high < 1 and 1 <= clipping_range.widening < MAX_WIDTH
    if not sane or not 0 < width < MAX_WIDTH or not 0 <= clipped < MAX_WIDTH:
        raise InputError("its interval has quantiles or a width that no plan has.")
    _check_positive(clipping_range.epsilon)
    radius = clipping_range.radius
    if radius is not None and not 1 <= radius < MAX_WIDTH:
        raise InputError("its interval has a radius that no plan has.")
    _check_noised(weight, occupancy, noise)


def _check_noised(weight: Weights, occupancy: Occupancy, noise: NDArray[np.float64]) -> None:
    if isinstance(weight, FactoredWeights):
        if not weight.is_sound():
            raise InputError("it has weights that no plan has.")
        weighed = weight.totals
    else:
        _check_weights(weight)
        cell = occupancy.local().cell
        weighed = np.bincount(cell, weights=weight, minlength=occupancy.n_cells)
    if not (weighed > 0).all() or not (noise > 0).all():
        raise InputError("it has a cell without weights or without noise.")


def _check_cell_ranges(
    plan: CellRangePlan, occupancy: Occupancy, noise: NDArray[np.float64]
) -> None:
    _check_positive(plan.histogram_loss)
    if plan.spread_epsilon < 0 or not 0 < plan.first_share < 1:
        raise InputError("its ranges have shares of epsilon that no plan has.")
    _check_noised(plan.weight, occupancy, noise)


def _check_weights(weight: NDArray[np.int64]) -> None:
    # Larger weights could leave 64 bits once a release multiplies them with sums.
    if (weight < 0).any() or not 0 < int(weight.max()) <= WEIGHT_RESOLUTION:
        raise InputError("it has weights that no plan has.")


def check_kind(request: Request, allocation: PlanAllocation, occupancy: Occupancy) -> None:
    """Refuse a plan of another kind than was requested, or for other statistics."""
    requested, clipping, noised = request.clipping_range, allocation.clipping, request.noised
    known = has_single_record(occupancy)
    # The variance of one record is known, so that such a map needs no range.
    has_constants_alone = noised == ("variance",) and bool(known.all())
    kinds: dict[str, tuple[type[Clipping], ...]] = {
        "bounds": (_unranged_kind(request),),
        "private": (WithinBounds,) if has_constants_alone else (PrivateRange,),
        "per-cell": (PerCellRange,),
        "auto": (WithinBounds, PrivateRange, PerCellRange),
    }
    fits = isinstance(clipping, kinds[requested])
    match clipping:
        case CellMechanisms():
            has_noise = noised == ("mean",)
        case WithinBounds():
            has_noise = True
        case PrivateRange(range=clipping_range):
            fits &= (clipping_range.radius is not None) == ("variance" in noised)
            has_noise = "variance" not in noised or not (
                ((allocation.variance_noise > 0) == known).any()
            )
        case PerCellRange():
            fits &= noised == ("mean",)
            has_noise = True
    if not fits:
        raise InputError("its interval and its request do not fit together.")
    if not has_noise:
        raise InputError("it has a cell without noise for its variance.")


def _unranged_kind(request: Request) -> type[Clipping]:
    """Return the kind of a plan without a range of the whole map."""
    is_per_cell = request.method in ("per-cell", "equal-split")
    has_stages = is_per_cell and not isinstance(request.mechanism, ThresholdMechanism)
    return CellMechanisms if has_stages else WithinBounds
