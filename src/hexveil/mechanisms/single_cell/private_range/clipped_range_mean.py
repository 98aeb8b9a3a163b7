"""Means of values clipped to a private range: the common part of LEVY, the quantiles and AKMV.

Part of ε finds a range [a, b] (`private_quantile`), the rest pays for the noise of the sum of the
values clipped to it (`range_sum`), and the estimate is that noisy sum over a public divisor.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: of the choices, the values that a user has a part in; of the sum, for the range found,
max over users of Σ min(b - a, reach) over those values: exact up to rounding to quanta.
Loss: ε in all, by composition: each choice loses its part whatever was chosen before, and for
every outcome of the choices the noise loses the rest. Ends are put in order, widened to one quantum
and the noise is fitted to the width by looking at the outcome alone.
The bias depends on the range, which is random: no closed form is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hexveil.mechanisms.contract import EstimateGrid, PredictedError
from hexveil.mechanisms.single_cell.cell_allocation import LN20, CellAllocation, ReleasedRange
from hexveil.mechanisms.single_cell.private_range.range_sum import RangeSum

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.pseudo_users import PseudoUsers
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs


@dataclass(frozen=True, eq=False)
class ClippedRangeMean(CellAllocation):
    """Choices of a range, then a sum of clipped values: see the module's head.

    Attributes
    ----------
    mean_epsilon : Fraction
        The part of ε that pays for the noise; the rest finds the range.
    divisor : int
        The estimate is the noisy sum over this.
    """

    clipped: ClassVar[str] = "array means"

    mean_epsilon: Fraction
    divisor: int

    @property
    def range_sum(self) -> RangeSum:
        """The stage that noises the sum."""
        stage = self.stages[-1]
        if not isinstance(stage, RangeSum):
            raise TypeError("the last stage of a clipped range is a range sum.")
        return stage

    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates: see `CellAllocation.estimate`."""
        return np.asarray(outputs["mean"][:, 0] / self.divisor)

    def released_range(self, outputs: Outputs) -> ReleasedRange | None:
        """Return the range, in quanta: see `CellAllocation.released_range`."""
        if len(self.stages) == 1:
            return None
        reading = self.range_sum.reading
        lower, upper = self.range_sum.clipping.ends(outputs)
        scale = self.range_sum.scales(reading.grain * (upper - lower)) / self.divisor
        return ReleasedRange(self.clipped, float(lower[0]), float(upper[0]), float(scale[0]))

    def error(self, width: float) -> PredictedError:
        """Return the largest noise scale, and a bound that holds for all values.

        Clipped mean and true mean both lie within the bounds. Where half of the values are at
        either bound, every range is as good as any other, so little less can be promised than U
        plus 95 percent of the noise.
        """
        # Noise is fitted to the range that is released; before that the widest one is the bound.
        scale = self.sensitivity(width) / float(self.mean_epsilon)
        return PredictedError(np.array([scale]), np.array([width + scale * LN20]))

    def grid(self) -> EstimateGrid:
        """Return multiples of a part of a quantum over the divisor."""
        return EstimateGrid(np.zeros(1), np.array([1.0 / self.divisor]))


@dataclass(frozen=True, eq=False)
class ClippedArrayMean(ClippedRangeMean):
    """The mean of array means clipped to a range.

    Attributes
    ----------
    groups : PseudoUsers
        Which samples share an array: `.cap`, `.n_arrays`.
    """

    groups: PseudoUsers

    def sensitivity(self, width: float) -> float:
        """Return the largest change of the clipped mean, for the widest range there is.

        At most (b - a)/K under BESTFIT and min(2 (b - a), U)/K under WRAPAROUND (ERRATA 7).
        """
        return float(self.range_sensitivities(width, np.array([self.widest * width]))[0])

    @property
    def widest(self) -> float:
        """Width of the widest range that can be found, in parts of the bounds."""
        return 1.0

    def range_sensitivities(self, width: float, ranges: Floats) -> Floats:
        """Return the largest change of the clipped mean for ranges of these widths.

        Parameters
        ----------
        width : float
            Of the bounds.
        ranges : ndarray of float, shape (n,)
            Widths in the same units.
        """
        # Ranges repeat within a batch, and each sensitivity takes a pass over all users.
        distinct, index = np.unique(ranges, return_inverse=True)
        largest = [
            self.groups.user_sensitivity(width, float(range_width)).max()
            for range_width in distinct
        ]
        return np.asarray(np.array(largest)[index], dtype=np.float64)
