"""Estimates of a release with their error columns, and its private stages in numbers. Public.

Ranges and shares of the stages of a release: integer functions of released numbers.

A planner predicts errors with the same functions before anything is released. Public.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.base.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class EstimateGrid:
    """Numbers that an estimate can take: start + k step for integers k; step 0 is a constant."""

    start: Floats
    step: Floats


@dataclass(frozen=True, eq=False)
class ProvenError:
    """Error of an estimate with a proven worst-case bias.

    Attributes
    ----------
    scale : ndarray of float, shape (n_cells,)
        Laplace scale, which is also the expected absolute noise.
    bias : ndarray of float, shape (n_cells,)
        Largest |expected estimate - true value| over all values.
    bound95 : ndarray of float, shape (n_cells,)
        Error not exceeded with probability 95 percent, whatever the values.
    """

    scale: Floats
    bias: Floats
    bound95: Floats

    def columns(self) -> dict[str, Floats]:
        """Return the columns of a release table; the error is worst-case bias plus noise."""
        # E|noise| of a Laplace distribution is its scale.
        error = self.bias + self.scale
        return {"scale": self.scale, "bias": self.bias, "error": error, "bound95": self.bound95}


@dataclass(frozen=True, eq=False)
class PredictedError:
    """Error of an estimate with a bias that depends on private choices: no closed form is known.

    Attributes
    ----------
    scale : ndarray of float, shape (n_cells,)
        Largest Laplace scale that can occur.
    bound95 : ndarray of float, shape (n_cells,)
        Error not exceeded with probability 95 percent, whatever the values.
    expected : ndarray of float, shape (n_cells,), optional
        Error that a stated prior predicts.
    """

    scale: Floats
    bound95: Floats
    expected: Floats | None = None

    def columns(self) -> dict[str, Floats]:
        """Return the columns of a release table: there is none for an unknown figure."""
        columns = {"scale": self.scale, "bound95": self.bound95}
        return columns if self.expected is None else columns | {"error": self.expected}


StatisticError: TypeAlias = ProvenError | PredictedError | ErrorModel


@dataclass(frozen=True, eq=False)
class Decoded:
    """One statistic of every cell, from noisy integers and public facts.

    Attributes
    ----------
    statistic : str
        "mean" or "variance".
    estimate : ndarray of float, shape (batch, n_cells)
        In quanta above the lower bound; of a variance, in squared quanta. Not clamped.
    grid : EstimateGrid, optional
        Where estimates can lie, in the same units; shape (n_cells,) each. None if they are a curve
        of integers.
    error : StatisticError
        In the same units.
    """

    statistic: str
    estimate: Floats
    grid: EstimateGrid | None
    error: StatisticError


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


STANDARD_NORMAL = NormalDist()


def to_value_units(end: int, steps: int, lower: float, span: float) -> float:
    """Return an end in value units: the number nearest to lower + span * end / steps."""
    return float(Fraction(lower) + Fraction(span) * Fraction(int(end), int(steps)))


def centre_and_radius(ends: tuple[int, int], steps: int, radius: Fraction) -> tuple[int, int, int]:
    """Return the middle of a range, its half width, and the radius of squares; in quanta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> centre_and_radius((10, 21), 100, Fraction(2))
    (15, 6, 12)
    >>> centre_and_radius((10, 21), 100, Fraction(50))
    (15, 6, 85)
    """
    middle = sum(ends) // 2
    half = ends[1] - middle
    # No value is further from the middle than the bounds are: a larger radius would only be noise.
    return middle, half, min(math.ceil(radius * half), max(middle, steps - middle))


def widened(ends: tuple[int, int], steps: int, widening: Fraction) -> tuple[int, int]:
    """Return a range made wider around its middle, within the bounds; in quanta.

    Examples
    --------
    >>> from fractions import Fraction
    >>> widened((2, 6), 10, Fraction(3, 2)), widened((0, 5), 10, Fraction(2))
    ((1, 7), (0, 8))
    """
    margin = math.ceil((ends[1] - ends[0]) * (widening - 1) / 2)
    return max(ends[0] - margin, 0), min(ends[1] + margin, steps)
