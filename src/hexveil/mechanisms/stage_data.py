"""Data that flows through stages: private sums, integers measured, and noisy outputs.

Private arrays (`PrivateSums`, `Values`, `Scores`) show their shapes alone.

Estimates of a release with their error columns, and its private stages in numbers. Public.

Ranges and shares of the stages of a release: integer functions of released numbers.

A planner predicts errors with the same functions before anything is released. Public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import Protocol, TypeAlias

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import StorageError
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.model.pair_bins import PairSums


@dataclass(frozen=True, eq=False)
class EstimateGrid:
    """Numbers that an estimate can take: start + k step for integers k; step 0 is a constant."""

    start: Floats
    step: Floats


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
    error : ErrorModel
        In the same units.
    """

    statistic: str
    estimate: Floats
    grid: EstimateGrid | None
    error: ErrorModel


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


TAIL = 512.0
"""Noise beyond so many scales has a probability below exp(-512)."""
ROOM = 2**61
"""Sums and their noise stay below this, half of what the noise door accepts."""


class Reading(Protocol):
    """Integers that stages share, such as the means of pseudo-users. PRIVATE once computed."""

    @property
    def key(self) -> Hashable:
        """Identity of the integers: equal keys, equal integers for equal sums."""

    def values(self, sums: PrivateSums) -> Ints:
        """Return the integers, shape (batch, n_values). PRIVATE."""


class _Private:
    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"


class PrivateSums(_Private):
    """Sums of each (cell, user) pair, in quanta above the lower bound. PRIVATE.

    A study computes many data sets at once: `batch` is their number, 1 in a release.

    Parameters
    ----------
    total : ndarray of int64, shape (n_pairs,) or (batch, n_pairs)
        From 0 to records times the span.
    squares : ndarray of int64, same shape, optional
        Sums of squares, where variances are released.
    """

    __slots__ = ("_readings", "squares", "total")

    def __init__(self, total: Ints, squares: Ints | None = None) -> None:
        self.total = np.atleast_2d(np.asarray(total, dtype=np.int64))
        self.squares = None if squares is None else np.atleast_2d(squares)
        self._readings: dict[Hashable, Ints] = {}

    def read(self, reading: Reading) -> Ints:
        """Return the integers of a reading, computed once. PRIVATE."""
        # Stages share readings: in a study with values drawn anew, computing them takes longest.
        if reading.key not in self._readings:
            self._readings[reading.key] = reading.values(self)
        return self._readings[reading.key]

    def map_cells(self, occupancy: Occupancy, work: Callable[[Pairs, PairSums], Ints]) -> Ints:
        """Apply a function to the pairs of each cell and their sums, shape (batch, n). PRIVATE.

        Pairs may lie in blocks elsewhere, where the function is sent: see `Occupancy.each`.
        """
        squares = [None] * len(self.total) if self.squares is None else self.squares
        # One data set at a time: functions of pairs may run where the pairs lie, and know no batch.
        rows = zip(self.total, squares, strict=True)
        sums = (PairSums(*row) for row in rows)
        return np.stack([occupancy.map_cells(partial(_beside, work, one)) for one in sums])


def _beside(work: Callable[[Pairs, PairSums], Ints], sums: PairSums, pairs: Pairs) -> Ints:
    return work(pairs, sums.of(pairs))


class Outputs(Mapping[str, Ints]):
    """Noisy integers of the stages done so far, shape (batch, entries) each. Public.

    Only `execute` and `replay` add to them, so a stage sees nothing of the sums but through noise.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[str, Ints] | None = None) -> None:
        # A copy: nobody else can add rows to outputs on which a stage was authorised.
        self._rows = dict(rows or {})

    def __getitem__(self, name: str) -> Ints:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def extended(self, name: str, entries: int, row: Ints) -> Outputs:
        """Return these outputs and the row of one more stage.

        Raises
        ------
        StorageError
            If the row is none of the stage's: another width, or a second row of one name.
        """
        if row.ndim != 2 or row.shape[1] != entries or name in self._rows:
            raise StorageError(
                f"the stored result of the stage {name!r} is not a single row of "
                f"{entries:,} integers: the ledger was changed by something else; restore it "
                "from a copy."
            )
        return Outputs({**self._rows, name: row})


@dataclass(frozen=True, eq=False, repr=False)
class Values(_Private):
    """Integers for discrete Laplace noise, shape (batch, entries). PRIVATE."""

    integers: Ints


@dataclass(frozen=True, eq=False, repr=False)
class Scores(_Private):
    """Integer scores of candidates, run-length encoded. PRIVATE.

    Attributes
    ----------
    scores, sizes : ndarray of int64, shape (1 or batch, n_runs)
        A run of `sizes` neighbouring candidates has one score; a run may be empty.
    """

    scores: Ints
    sizes: Ints


Measured: TypeAlias = Values | Scores
