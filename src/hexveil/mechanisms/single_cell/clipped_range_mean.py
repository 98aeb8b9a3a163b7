"""Means of values clipped to a private range: the common part of LEVY, the quantiles and AKMV.

Part of ε finds a range [a, b] (`private_quantile`), the rest pays for the noise of the sum of the
values clipped to it (`RangeSum`), and the estimate is that noisy sum over a public divisor.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: of the choices, the values that a user has a part in; of the sum, for the range found,
max over users of Σ min(b - a, reach) over those values: exact up to rounding to quanta.
Loss: ε in all, by composition: each choice loses its part whatever was chosen before, and for
every outcome of the choices the noise loses the rest. Ends are put in order, widened to one quantum
and the noise is fitted to the width by looking at the outcome alone.
The bias depends on the range, which is random: no closed form is known.

Sum of values clipped to a range that earlier private choices found.

Let the range be [a, b], whole numbers with a < b, made from earlier outputs and public facts. Each
value is clipped to it, and the sum gets discrete Laplace noise of scale max_l d_l(b - a)/ε, rounded
up, where user l moves the sum by at most d_l(b - a).

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: a value clipped to [a, b] moves by at most b - a, and by no more than it would
unclipped; d_l adds that up over the values that user l has a part in
(`RangeReading.user_sensitivity`).
Loss: at most ε for every user who has a part in a value, whatever the range, since the scale is
fitted to it by looking at earlier outputs alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from hexveil.accounting.error_model import LN20
from hexveil.accounting.pseudo_users import PseudoUsers
from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import round_down, round_up
from hexveil.mechanisms.contract import DrawnRow
from hexveil.mechanisms.private_quantile import ROUND_UP
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, NoiseRequest, Separate
from hexveil.mechanisms.single_cell import CellAllocation, EstimateError
from hexveil.mechanisms.single_cell.array_averaging import RangeReading
from hexveil.mechanisms.single_cell.clipped_user_sums import check_int64
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Values


@dataclass(frozen=True, eq=False)
class ClippedRangeMean(CellAllocation):
    """Choices of a range, then a sum of clipped values: see the module's head.

    Attributes
    ----------
    mean_epsilon : Fraction
        The part of ε that pays for the noise; the rest finds the range.
    divisor : int
        The estimate is the noisy sum over this.
    groups : PseudoUsers, optional
        Which samples share an array, `.cap`, `.n_arrays`, where values are array means; else they
        are user sums.
    relative_radius : float
        Of LEVY, τ/U: how far array means are expected to be from their middle, in parts of the
        bounds.
    """

    figures = ("cell", "groups", "relative_radius")

    mean_epsilon: Fraction
    divisor: int
    groups: PseudoUsers | None = None
    relative_radius: float = 0.0

    @property
    def range_sum(self) -> Any:  # noqa: ANN401  a `RangeSum`
        """The stage that noises the sum."""
        return self.stages[-1]

    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates: see `CellAllocation.estimate`."""
        return np.asarray(outputs["mean"][:, 0] / self.divisor)

    @property
    def widest(self) -> float:
        """Width of the widest range that can be found, in parts of the bounds."""
        return float(self.range_sum.clipping.widest)

    def sensitivity(self, width: float) -> float:
        """Return the largest change of the clipped mean, for the widest range there is.

        Of array means at most (b - a)/K under BESTFIT and min(2 (b - a), U)/K under WRAPAROUND
        (ERRATA 7); of user sums U m*/N.
        """
        if self.groups is None:
            return width * float(self.cell.counts.max()) / self.cell.total
        return float(self.groups.user_sensitivity(width, self.widest * width).max())

    def error(self, width: float) -> EstimateError:
        """Return the largest noise scale, and a bound that holds for all values.

        Clipped mean and true mean both lie within the bounds. Where half of the values are at
        either bound, every range is as good as any other, so little less can be promised than U
        plus 95 percent of the noise.
        """
        # Noise is fitted to the range that is released; before that the widest one is the bound.
        scale = self.sensitivity(width) / float(self.mean_epsilon)
        return EstimateError(scale, width + scale * LN20)

    def grid(self) -> tuple[float, float]:
        """Return multiples of a part of a quantum over the divisor."""
        return 0.0, 1.0 / self.divisor


class RangeOfOutputs(Protocol):
    """A range made from earlier outputs: a public function."""

    @property
    def widest(self) -> float:
        """Width of the widest range that can be found, in parts of the bounds."""

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:
        """Return lower and upper ends in quanta, shape (batch,) each, at least 1 apart."""


@dataclass(frozen=True)
class FixedRange:
    """A range that does not depend on outputs, such as the bounds themselves."""

    lower: int
    upper: int
    widest: ClassVar[float] = 1.0

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:  # noqa: ARG002  see ClippingRange
        """Return both ends."""
        return np.array([self.lower]), np.array([self.upper])


@dataclass(frozen=True, eq=False)
class RangeSum(DrawnRow):
    """The stage of the module's head.

    Attributes
    ----------
    name : str
    reading : RangeReading
        The values.
    clipping : ClippingRange
        [a, b].
    epsilon : Fraction
        Loss of every user who has a part in a value.
    """

    name: str
    reading: RangeReading
    clipping: RangeOfOutputs
    epsilon: Fraction
    entries: ClassVar[int] = 1

    def __post_init__(self) -> None:
        # Decided for the widest range, so that no outcome of the choices causes an error.
        widest = np.array([self.reading.grain * self.reading.top])
        check_int64(self.reading.size * int(widest[0]), float(self.scales(widest)[0]))

    def losses(self) -> Floats:
        """Return each user's loss, rounded up, whatever the range."""
        return np.asarray(round_up(self.epsilon) * (self.reading.pieces > 0) * ROUND_UP)

    def scales(self, width: Ints) -> Floats:
        """Return the scale for ranges of these widths in parts of a quantum, rounded up."""
        # Dividing by less than ε errs upwards; one step up covers the rounding of the quotient.
        quotient = self.reading.max_sensitivity(width) / round_down(self.epsilon)
        return np.nextafter(quotient, np.inf)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise of the sum."""
        lower, upper = self.clipping.ends(earlier)
        return (LaplaceNoise(self.scales(self.reading.grain * (upper - lower))[:, None]),)

    def sensitivity(self, earlier: Outputs) -> tuple[Separate, ...]:
        """Return by how much each user moves the sum, for the range of the first data set."""
        lower, upper = self.clipping.ends(earlier)
        width = self.reading.grain * int(upper[0] - lower[0])
        return (Separate.of_one_entry(self.reading.user_sensitivity(width)),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:
        """Return the sum. PRIVATE."""
        lower, upper = (self.reading.grain * end for end in self.clipping.ends(earlier))
        return (Values(clipped_sums(sums.read(self.reading), lower, upper)[:, None]),)


def clipped_sums(values: Ints, lower: Ints, upper: Ints) -> Ints:
    """Return sums of clipped values, per data set or, for a single one, per range. PRIVATE.

    Values of one data set are sorted once, and prefix sums serve all ranges.

    Examples
    --------
    >>> clipped_sums(np.array([[0, 1, 5]]), np.array([1, 0]), np.array([3, 6])).tolist()
    [5, 6]
    """
    if len(values) > 1 or lower.size == 1:
        return np.asarray(np.clip(values, lower[:, None], upper[:, None]).sum(axis=1))
    # Values below an end count as the end, those between the ends as they are.
    ordered = np.sort(values[0])
    prefix = np.concatenate(([0], np.cumsum(ordered)))
    i, j = np.searchsorted(ordered, lower), np.searchsorted(ordered, upper)
    return np.asarray(i * lower + (prefix[j] - prefix[i]) + (ordered.size - j) * upper)
