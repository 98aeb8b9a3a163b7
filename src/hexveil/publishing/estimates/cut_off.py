"""Cells cut off by a private range: which ones, and on which side.

Under a private range a cell's number is about values projected to that range (the private interval,
or the range of its last step). Its bound says nothing of what the projection
removed. In a cell far from all others the projection removes nearly everything: the number lies at
an end of the range, and looks as sure as any other.

A cell is cut off at an end if its noisy number lies beyond that end, or within `QUANTILE` noise
scales of it. |Laplace noise| of scale b exceeds b ln 20 with probability 5 percent: the part of
s_bound95 that is noise. So where all of a cell's values lie beyond an end, and its number without
noise is that end, the cell is found with probability 1 - 1/40. Nothing can lie beyond the bounds of
the records: an end there cuts nothing off.

Post-processing of noisy numbers and public facts: it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.mechanisms.estimates import centre_and_radius
from hexveil.mechanisms.weighted.weighted_variance import BITS
from hexveil.planning.cell_mechanisms import CellMechanisms
from hexveil.planning.clipping_range.bounds import WithinBounds
from hexveil.planning.clipping_range.cell_ranges import CellRangePlan, PerCellRange
from hexveil.planning.clipping_range.one_range import PrivateRange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.base.arrays import Bools, Floats, Ints
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange
    from hexveil.planning.moment_part import MomentPart


QUANTILE = LN20
"""Noise scales: see the module head."""


@dataclass(frozen=True, eq=False)
class CutOff:
    """Cells that a private range may have cut off, for one statistic.

    Attributes
    ----------
    below, above : ndarray of bool, shape (n_cells,)
        Whether the true number may lie below, or above, all that the range lets through.
    """

    below: Bools
    above: Bools

    @property
    def either(self) -> Bools:
        """Whether a cell is cut off at any end."""
        return np.asarray(self.below | self.above)

    @property
    def count(self) -> int:
        """How many cells are cut off."""
        return int(np.count_nonzero(self.either))


def find_cut_off(plan: MomentPart, noisy: Mapping[str, Ints]) -> dict[str, CutOff]:
    """Return the cells that are cut off, for each statistic of a plan with a private range.

    Parameters
    ----------
    plan : MomentPart
        With the ranges that the release found.
    noisy : mapping of str to ndarray of int64
        The noisy whole numbers that the ledger stores.
    """
    match plan.allocation.clipping:
        case WithinBounds() | CellMechanisms():
            return {}
        case PrivateRange(interval):
            mean = _in_range(plan, interval, noisy["mean"])
        case PerCellRange(cell_ranges):
            return {"mean": _in_cell_ranges(plan, cell_ranges, noisy["mean"])}
    by_statistic = {"mean": mean} if "mean" in plan.error_models else {}
    if "variance" in plan.error_models:
        by_statistic["variance"] = _variance(plan, interval, noisy["variance"], mean.either)
    return by_statistic


def _in_range(plan: MomentPart, interval: PrivateClippingRange, noisy: Ints) -> CutOff:
    """Return the cells with a mean cut off by the range itself."""
    number = noisy / interval.weight.totals
    low, high = _interval_ends(interval)
    # The size that the noise exceeds once in twenty times, whatever its law.
    scale = plan.mean_noise * (plan.request.law.limit95 / QUANTILE) * (high - low)
    beyond_ends = _find_near_ends(number, low, high, scale)
    # An end of the range that is a bound of the records cuts nothing off.
    return CutOff(
        beyond_ends.below & (low > 0), beyond_ends.above & (high < (interval.span_quanta or 0))
    )


def _in_cell_ranges(plan: MomentPart, cell_ranges: CellRangePlan, noisy: Ints) -> CutOff:
    """Return the cells with a mean cut off by the range of their last number."""
    number = noisy / cell_ranges.weight.totals
    outputs, error = cell_ranges.released(), plan.error_models["mean"]
    scale = error.noise * (error.law.limit95 / QUANTILE) * (outputs.upper - outputs.lower)
    beyond_ends = _find_near_ends(number, outputs.lower, outputs.upper, scale)
    return CutOff(
        beyond_ends.below & (outputs.lower > 0),
        beyond_ends.above & (outputs.upper < outputs.span_quanta),
    )


def _interval_ends(interval: PrivateClippingRange) -> tuple[int, int]:
    assert interval.ends is not None  # noqa: S101  after a release
    return interval.ends


def _find_near_ends(
    number: Floats, low: Floats | Ints | float, high: Floats | Ints | float, scale: Floats
) -> CutOff:
    """Return the cells with a number within its noise of an end, or beyond it."""
    noise = QUANTILE * scale
    return CutOff(number <= low + noise, number >= high - noise)


def _variance(plan: MomentPart, interval: PrivateClippingRange, noisy: Ints, mean: Bools) -> CutOff:
    """Return the cells with a second moment or a mean that is cut off.

    A mean that is cut off can make the variance too small or too large.
    """
    steps = interval.span_quanta or 0
    middle, _, radius = centre_and_radius(
        _interval_ends(interval), steps, interval.radius or Fraction(1)
    )
    second_moment = noisy / (interval.weight.totals * 2.0**BITS)
    # Only the upper end of second moments is clipped: their lower end is 0.
    reached = second_moment >= 1.0 - QUANTILE * plan.allocation.variance_noise
    return CutOff(mean, mean | (reached & (radius < max(middle, steps - middle))))
