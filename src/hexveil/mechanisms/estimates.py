"""Estimates of a release with their error columns, and its private stages in numbers. Public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hexveil.accounting.error_model import ErrorModel

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats


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
