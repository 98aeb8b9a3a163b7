"""Sums of losses over cells in whole parts: exact, the same in whatever order they are added.

A user's loss is the sum of its losses in all of its cells, doubles that were rounded up. Sums of
doubles depend on their order, so that pairs in blocks would lose other doubles than the same pairs
at hand. So each loss is rounded up to a multiple of 2^-e, the multiples are added as integers of 64
bits, and the sum is rounded up to a double once.

The exponent e follows from public numbers, the loss of a cell and the most cells of a user: no sum
reaches 2^61, and a part is below 2^-58 of the largest sum.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import HexveilError

SUM_BITS = 61
"""Sums of parts stay below 2 to this power."""
SLACK = 2
"""A loss of a pair is rounded up from at most its cell's, and stays below so many times that."""


@dataclass(frozen=True)
class LossParts:
    """Parts of 2^-exponent in which the losses of pairs are added.

    Attributes
    ----------
    exponent : int
    largest : float
        No loss of a pair is above this.
    """

    exponent: int
    largest: float

    @classmethod
    def of_cells(cls, cell_epsilon: Fraction, n_cells: int) -> "LossParts":
        """Return the parts for users of at most so many cells, each with this loss.

        Examples
        --------
        >>> from fractions import Fraction
        >>> LossParts.of_cells(Fraction(1, 2), 3)
        LossParts(exponent=59, largest=1.0)
        """
        limit = float(SLACK * cell_epsilon * n_cells)
        return cls(SUM_BITS - math.frexp(limit)[1], float(SLACK * cell_epsilon))

    def rounded_up(self, losses: Floats) -> Ints:
        """Return each loss in parts, rounded up."""
        # Scaling by a power of two is exact.
        return np.ceil(np.ldexp(self._checked(losses), self.exponent)).astype(np.int64)

    def rounded_down(self, losses: Floats) -> Ints:
        """Return each loss in parts, rounded down."""
        return np.floor(np.ldexp(self._checked(losses), self.exponent)).astype(np.int64)

    def _checked(self, losses: Floats) -> Floats:
        # Not (losses > largest): what is no number is refused, too.
        if not ((losses >= 0) & (losses <= self.largest)).all():
            raise HexveilError(
                "a stage would cost a user more than the loss of its cell, so nothing was drawn: "
                "its plan was changed after its loss was computed. Plan again."
            )
        return losses

    def upper_bounds(self, parts: Ints) -> Floats:
        """Return sums of parts as doubles that are not below them; nothing stays 0."""
        losses = np.ldexp(np.nextafter(parts.astype(np.float64), np.inf), -self.exponent)
        return np.where(parts > 0, losses, 0.0)

    def lower_bounds(self, parts: Ints) -> Floats:
        """Return sums of parts as doubles that are not above them."""
        losses = np.ldexp(np.nextafter(parts.astype(np.float64), -np.inf), -self.exponent)
        return np.where(parts > 0, losses, 0.0)


def sum_parts(user: Ints, parts: Ints, n_users: int) -> Ints:
    """Return each user's sum of parts.

    Examples
    --------
    >>> sum_parts(np.array([1, 0, 1]), np.array([2, 3, 4]), 2).tolist()
    [3, 6]
    """
    total = np.zeros(n_users, dtype=np.int64)
    np.add.at(total, user, parts)
    return total
