"""Sum of values clipped to a range that earlier private choices found.

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

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.rational import round_down, round_up
from hexveil.mechanisms.contract import DrawnRow, LaplaceNoise, Reading, Separate, Values
from hexveil.mechanisms.private_quantile import ROUND_UP
from hexveil.mechanisms.single_cell.cell_allocation import check_int64

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import NoiseRequest, Outputs, PrivateSums, SensitivityReport


class RangeReading(Reading, Protocol):
    """Integers that can be clipped to a range, and how far each user moves them. Public side.

    Values are in parts of 1/grain of a quantum, from 0 to grain times `top`.
    """

    @property
    def grain(self) -> int:
        """Parts of a quantum."""

    @property
    def top(self) -> int:
        """Largest value there can be, in quanta."""

    @property
    def size(self) -> int:
        """Number of values."""

    @property
    def pieces(self) -> Ints:
        """Number of values that each user has a part in."""

    def user_sensitivity(self, width: int) -> Ints:
        """Return each user's largest change of the sum of values clipped to a range.

        Parameters
        ----------
        width : int
            Of the range, in parts of a quantum.
        """

    def max_sensitivity(self, width: Ints) -> Ints:
        """Return the largest change of any user for ranges of these widths."""


class RangeOfOutputs(Protocol):
    """A range made from earlier outputs: a public function."""

    def ends(self, earlier: Outputs) -> tuple[Ints, Ints]:
        """Return lower and upper ends in quanta, shape (batch,) each, at least 1 apart."""


@dataclass(frozen=True)
class FixedRange:
    """A range that does not depend on outputs, such as the bounds themselves."""

    lower: int
    upper: int

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

    def __post_init__(self) -> None:
        # Decided for the widest range, so that no outcome of the choices causes an error.
        widest = np.array([self.reading.grain * self.reading.top])
        check_int64(self.reading.size * int(widest[0]), float(self.scales(widest)[0]))

    @property
    def entries(self) -> int:
        """One number."""
        return 1

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

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
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
