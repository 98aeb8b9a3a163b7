"""Private choices of a point: an order statistic on a public grid, or the middle of a bin.

Source: quantiles as in IOT section III-E [16] with the rank score of ERRATA 12; the middle as in
IOT Algorithm 3, put right in ERRATA 11.
Neighbours: one user's values change, and with them at most `moved` of the values handed in: 1
under BESTFIT or where a value belongs to one user, 2 under WRAPAROUND.
Costs are integers: numbers of values, less a public target. Moving one value moves every count
of values by at most 1, so every cost by at most 1, and by at most `moved` for that many.
Loss: ε by permute-and-flip of scale 2 moved/ε (ERRATA 12).

A grid stands for the interval it covers: a run of candidates between two values is chosen with
the weight of its length, as in the papers' continuous form. A candidate counts the values at or
below it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.permute_and_flip import choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

CANDIDATES = 4096
"""Steps of a grid unless another number is asked for: finer has no visible effect on error."""


def selection_scale(moved: int, epsilon: Fraction) -> float:
    """Return the scale at which permute-and-flip loses at most ε: 2 moved/ε, rounded up.

    Examples
    --------
    >>> selection_scale(1, Fraction(1, 2)), selection_scale(2, Fraction(1, 2))
    (4.0, 8.0)
    """
    return round_up(Fraction(2 * moved) / epsilon)


class Choice(ABC):
    """A private choice among public points."""

    scale: float

    @property
    @abstractmethod
    def points(self) -> Floats:
        """The candidates, ascending, in value units; public."""

    @abstractmethod
    def costs(self, values: Floats) -> Ints:
        """Return the cost of each candidate: private, of sensitivity `moved`."""

    @abstractmethod
    def runs(self, values: Floats) -> tuple[Ints, Ints, Ints]:
        """Return costs, sizes and first candidates of the runs, for each row of values."""

    def draw(self, values: Floats, noise: NoiseSource) -> float:
        """Return the chosen point."""
        return float(self.points[noise.noisy_max(-self.costs(values), self.scale)])

    def simulate(self, values: Floats, generator: np.random.Generator, trials: int) -> Floats:
        """Return chosen points distributed as those of `draw`, for values of one or each trial."""
        return self.among(self.runs(np.atleast_2d(values)), generator, trials)

    def among(
        self, runs: tuple[Ints, Ints, Ints], generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return chosen points, of runs as `runs` returns them."""
        costs, sizes, first = runs
        run = choose(costs, sizes, self.scale, generator, trials)[:, None]
        size, start = (
            np.take_along_axis(np.broadcast_to(a, (trials, a.shape[1])), run, axis=1)[:, 0]
            for a in (sizes, first)
        )
        return np.asarray(self.points[start + generator.integers(0, size)], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class RankChoice(Choice):
    """The point that has `target` of the values at or below it, nearly.

    Attributes
    ----------
    lower, upper : float
        Ends of the grid; values lie between them.
    steps : int
        The grid has one candidate more.
    target : int
        From 0 to the number of values; public.
    scale : float
        Of permute-and-flip.
    """

    lower: float
    upper: float
    steps: int
    target: int
    scale: float

    @property
    def points(self) -> Floats:
        """The candidates, ascending."""
        return np.linspace(self.lower, self.upper, self.steps + 1)

    def costs(self, values: Floats) -> Ints:
        """Return | values at or below the candidate - target |."""
        below = np.searchsorted(np.sort(values), self.points, side="right")
        return np.abs(below - self.target)

    def runs(self, values: Floats) -> tuple[Ints, Ints, Ints]:
        """Return one run per rank: the candidates that have so many values at or below them."""
        rows, n = values.shape
        first = np.zeros((rows, n + 2), dtype=np.int64)
        first[:, 1:-1] = self._places(np.sort(values, axis=1))
        first[:, -1] = self.steps + 1
        return self.rank_costs(n), np.diff(first, axis=1), first

    def rank_costs(self, n: int) -> Ints:
        """Return the cost of each run of n values, which does not depend on the values."""
        return np.abs(np.arange(n + 1) - self.target)[None]

    def _places(self, values: Floats) -> Ints:
        """Return the first candidate that is not below each value: a search, in constant time.

        Where rounding put the quotient on the wrong side of a candidate, it is off by one.
        """
        points = self.points
        near = np.ceil((values - self.lower) * (self.steps / (self.upper - self.lower)))
        place = np.clip(near.astype(np.int64), 0, self.steps)
        place -= (place > 0) & (points[place - 1] >= values)
        return place + (points[place] < values)


@dataclass(frozen=True, eq=False)
class MidpointChoice(Choice):
    """The middle of the bin that has as many values in bins below as in bins above, nearly.

    Attributes
    ----------
    lower, upper : float
        Ends of the first and the last bin; values lie between them.
    bins : int
    scale : float
        Of permute-and-flip.
    """

    lower: float
    upper: float
    bins: int
    scale: float

    @property
    def points(self) -> Floats:
        """The middles, ascending."""
        width = (self.upper - self.lower) / self.bins
        return np.asarray(self.lower + width * (np.arange(self.bins) + 0.5), dtype=np.float64)

    def costs(self, values: Floats) -> Ints:
        """Return the larger of the numbers of values whose nearest middle is below, and above."""
        return np.asarray(self.runs(values[None])[0][0])

    def runs(self, values: Floats) -> tuple[Ints, Ints, Ints]:
        """Return every candidate as a run of its own."""
        rows, bins = len(values), self.bins
        # The nearest middle is that of the value's own bin; on an edge either is nearest.
        place = ((values - self.lower) * (bins / (self.upper - self.lower))).astype(np.int64)
        place = np.clip(place, 0, bins - 1) + bins * np.arange(rows)[:, None]
        inside = np.bincount(place.ravel(), minlength=rows * bins).reshape(rows, bins)
        upto = np.cumsum(inside, axis=1)
        costs = np.maximum(upto - inside, upto[:, -1:] - upto)
        return costs, np.ones((1, bins), dtype=np.int64), np.arange(bins)[None]


def check_candidates(candidates: int) -> int:
    """Return the steps of a grid; raise InputError unless a whole number of at least 1."""
    if isinstance(candidates, bool) or not isinstance(candidates, int) or candidates < 1:
        raise InputError(f"candidates must be a whole number of at least 1, got {candidates!r}.")
    return candidates


def check_part(value: Fraction, name: str) -> Fraction:
    """Return a part of ε; raise InputError unless it lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(f"{name} must lie between 0 and 1, got {value}.")
    return value
