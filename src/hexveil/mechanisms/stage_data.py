"""Data that flows through stages: private sums, integers measured, and noisy outputs.

Private arrays (`PrivateSums`, `Values`, `Scores`) show their shapes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.base.errors import StorageError
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.model.pair_bins import PairSums

TAIL = 512.0
"""Noise beyond so many scales has a probability below exp(-512)."""


class Reading(Protocol):
    """Integers that stages share, such as the means of pseudo-users. PRIVATE once computed."""

    @property
    def key(self) -> Hashable:
        """Identity of the integers: equal keys, equal integers for equal sums."""

    def values(self, sums: PrivateSums) -> Ints:
        """Return the integers, shape (batch, n_values). PRIVATE."""


class PrivateSums:
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

    def __repr__(self) -> str:
        return f"PrivateSums(shape={self.total.shape})"


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
class Values:
    """Integers for discrete Laplace noise, shape (batch, entries). PRIVATE."""

    integers: Ints

    def __repr__(self) -> str:
        return f"Values(shape={self.integers.shape})"


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Integer scores of candidates, run-length encoded. PRIVATE.

    Attributes
    ----------
    scores, sizes : ndarray of int64, shape (1 or batch, n_runs)
        A run of `sizes` neighbouring candidates has one score; a run may be empty.
    """

    scores: Ints
    sizes: Ints

    def __repr__(self) -> str:
        return f"Scores(shape={np.broadcast_shapes(self.scores.shape, self.sizes.shape)})"


Measured: TypeAlias = Values | Scores
