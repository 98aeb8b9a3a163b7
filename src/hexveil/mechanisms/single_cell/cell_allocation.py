"""One cell: its public facts, and allocations that run fixed stages one after another.

Neighbours: one user's values all change within the bounds; users and counts are public.
Loss: the sum over the stages of what each costs a user at most, whatever the others found.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_bounds, to_positive_fraction
from hexveil.mechanisms.contract import DONE, Stage
from hexveil.mechanisms.private_quantile import ROUND_UP
from hexveil.mechanisms.stage_data import (
    ROOM,
    TAIL,
    EstimateGrid,
    Outputs,
    PrivateSums,
    StatisticError,
)
from hexveil.model.occupancy import Occupancy

STUDY_SPAN = 2**20
"""Quanta of the bounds in a study."""


@dataclass(frozen=True, eq=False)
class CellProblem:
    """Public facts of one cell.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_users,)
        Records of each user, at least 1.
    lower : Fraction
        Lower bound of a value, in value units.
    quantum : Fraction
        Resolution of sums, in value units.
    span : int
        Width of the bounds in quanta.
    """

    counts: Ints
    lower: Fraction
    quantum: Fraction
    span: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of a value, in value units."""
        return float(self.lower), float(self.lower + self.quantum * self.span)

    @property
    def width(self) -> float:
        """Width of the bounds, in value units."""
        return float(self.quantum * self.span)

    @property
    def total(self) -> int:
        """N, the records of the cell."""
        return int(self.counts.sum())

    def sums(self, user_means: ArrayLike) -> PrivateSums:
        """Return the sums of users with these means, projected to the bounds: for a study.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,) or (batch, n_users)
            In value units.

        Raises
        ------
        InputError
            If there is not one mean per user.
        """
        means = np.asarray(user_means, dtype=np.float64)
        if means.ndim not in {1, 2} or means.shape[-1] != self.counts.size:
            raise InputError(f"one mean per user is needed ({self.counts.size}).")
        lower, upper = self.bounds
        heights = (np.clip(means, lower, upper) - lower) * (self.span / (upper - lower))
        # Made-up values: their sums are rounded to quanta as those of records are.
        total = np.rint(heights * self.counts).astype(np.int64)
        return PrivateSums(np.minimum(total, self.span * self.counts))


def study_cell(counts: ArrayLike, bounds: object) -> CellProblem:
    """Return a cell for a study, on a lattice of `STUDY_SPAN` quanta.

    Raises
    ------
    InputError
        If a count is below 1, or bounds are reversed or infinite.
    """
    lower, upper = to_bounds(bounds)
    return CellProblem(check_counts(counts), lower, (upper - lower) / STUDY_SPAN, STUDY_SPAN)


def check_epsilon(epsilon: Number) -> Fraction:
    """Return a privacy loss; raise InputError unless it is positive and finite."""
    return to_positive_fraction(epsilon, "epsilon")


def check_int64(total: int, scale: float) -> None:
    """Refuse, from public facts, sums or noise that could leave 64-bit integers.

    Raises
    ------
    InputError
        If they could.
    """
    # Not (>=): a scale that is no number is refused, too.
    if not total + TAIL * scale < ROOM:
        raise InputError(
            "the sum of a cell or its noise does not fit integers of 64 bits; ask for a larger "
            "epsilon or use a coarser quantum."
        )


class BoundedStage(Stage, Protocol):
    """A stage with a bound on its loss that holds whatever earlier stages found."""

    def losses(self) -> Floats:
        """Return each user's loss by this stage at most, rounded up."""


@dataclass(frozen=True)
class ReleasedRange:
    """Outcome of the private choices of a cell, and the noise that was fitted to it; public.

    Attributes
    ----------
    quantity : str
        Numbers that are clipped to the range: "array means", "user sums" above the lower bound,
        or the "point" that was chosen, at both ends.
    lower, upper : float
    scale : float
        Laplace scale of the estimate for this range; 0 where no noise follows the choice.
    """

    quantity: str
    lower: float
    upper: float
    scale: float


@dataclass(frozen=True, eq=False)
class CellAllocation(ABC):
    """The public plan of one cell's mean: fixed stages, and how the last one is read.

    Attributes
    ----------
    cell : CellProblem
    epsilon : Fraction
        Loss of the whole release.
    stages : tuple of BoundedStage
    """

    figures: ClassVar[tuple[str, ...]] = ("cell", "groups")
    """Fields that follow from counts and loss, and that no draw and no estimate reads."""

    cell: CellProblem
    epsilon: Fraction
    stages: tuple[BoundedStage, ...]

    @abstractmethod
    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates in quanta above the lower bound, shape (batch,); not clamped."""

    @abstractmethod
    def sensitivity(self, width: float) -> float:
        """Return the largest change of the noiseless estimate, for bounds of this width.

        Where the noise is fitted to a range found privately, of the widest range there is.
        """

    @abstractmethod
    def error(self, width: float) -> StatisticError:
        """Return the error of the estimate, for bounds of this width; of one cell."""

    @abstractmethod
    def grid(self) -> EstimateGrid | None:
        """Return where estimates can lie, in quanta; None if they are a curve of integers."""

    def released_range(self, outputs: Outputs) -> ReleasedRange | None:  # noqa: ARG002
        """Return the released choices, in quanta; None if there are none."""
        return None

    def losses(self) -> Floats:
        """Return each user's privacy loss whatever is released, rounded up."""
        total = np.zeros(self.cell.counts.size)
        for stage in self.stages:
            total += stage.losses()
        # Every stage is rounded up by itself; the margin is for adding them.
        return np.asarray(total * ROUND_UP)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next of the fixed stages."""
        return self.stages[len(earlier)] if len(earlier) < len(self.stages) else DONE


@dataclass(frozen=True, eq=False)
class MapProblem:
    """Public facts of a map.

    Attributes
    ----------
    occupancy : Occupancy
        Records of each (cell, user) pair.
    lower, quantum : Fraction
        Lower bound of a value, and the resolution of sums, in value units.
    span : int
        Width of the bounds in quanta.
    """

    occupancy: Occupancy
    lower: Fraction
    quantum: Fraction
    span: int
