"""Columns of pairs that each block computes for its own: whole weights, and suppressed pairs.

*Weights* are kept as a number per user and a number per cell. The search for weights
(mechanisms/looks/user_weights.py) gives a pair with m of a cell's N records the weight
f m / (N T): f belongs to the user, and T, the cell's sum of f m / N, to the cell. An array of
weights would be as large as the pairs. Both factors fit a driver, and each block of pairs computes
its weights from them by the same rounded operations, so that a pair has the same whole weight in
its block of cells and in its block of users.

*Suppressed pairs* are a list. An array of truth values as large as the pairs fits no driver; the
suppressed ones are few, since only users of most cells are suppressed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.model.occupancy import LocalOccupancy, Occupancy, PairColumn, Pairs

T = TypeVar("T")

WEIGHT_RESOLUTION = 2**26
"""What the weights of a cell add up to, nearly; no weight is above it."""


class Weights(ReadOnlyArrays):
    """Whole weights of the pairs of an occupancy, each computed where its pair is. Public."""

    occupancy: Occupancy

    @property
    def column(self) -> PairColumn:
        """The weights as kernels take them, without the pairs."""
        raise NotImplementedError

    def is_sound(self) -> bool:
        """Return whether every cell has a weight, and none is negative or too large."""
        raise NotImplementedError

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether these have as many entries as an occupancy has cells, users or pairs."""
        raise NotImplementedError

    def of(self, occupancy: LocalOccupancy) -> Ints:
        """Return the weights of the same pairs at hand, shape (n_pairs,)."""
        return self.column.of(occupancy)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a figure that follows from the weights alone; each is asked of the blocks once."""
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]  # type: ignore[no-any-return]

    @cached_property
    def _known(self) -> dict[str, Any]:
        return {}

    @property
    def totals(self) -> Ints:
        """Sum of weights of each cell; shape (n_cells,)."""
        return self._sums_and_extremes()[0]

    def _sums_and_extremes(self) -> tuple[Ints, ...]:
        work = partial(_sums_and_extremes, weights=self.column)
        return self.once(
            "sums and extremes", lambda: tuple(map(read_only, self.occupancy.map_cells(work)))
        )

    def _are_in_range(self) -> bool:
        totals, largest, smallest = self._sums_and_extremes()
        return bool(
            (totals > 0).all() and (largest <= WEIGHT_RESOLUTION).all() and (smallest >= 0).all()
        )


@dataclass(frozen=True, eq=False)
class FactoredWeights(Weights):
    """Weights by factors.

    Attributes
    ----------
    occupancy : Occupancy
    factor : ndarray of float, shape (n_users,)
        f of each user, from 0 to 1.
    total : ndarray of float, shape (n_cells,)
        T of each cell, above 0.
    """

    occupancy: Occupancy
    factor: Floats
    total: Floats

    @property
    def column(self) -> PairColumn:
        """The weights as kernels take them: see `Weights.column`."""
        records = self.occupancy.records_per_cell.astype(np.float64)
        return _Factored(self.factor, self.total, records)

    def is_sound(self) -> bool:
        """Return whether every cell has a weight, and none is negative or too large."""
        factors = bool(((self.factor >= 0) & (self.factor <= 1)).all())
        if not factors or not (np.isfinite(self.total) & (self.total > 0)).all():
            return False
        # Totals that do not fit the factors would make weights that leave 64 bits.
        return self._are_in_range()

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether there is a factor per user and a total per cell."""
        sizes = self.factor.size, self.total.size
        return sizes == (occupancy.n_users, occupancy.n_cells)


@dataclass(frozen=True, eq=False)
class _Factored:
    """Weights made of factors of users and totals of cells."""

    factor: Floats
    total: Floats
    records: Floats

    def of(self, pairs: Pairs) -> Ints:
        """Return the weight of each pair: f m / (N T) in whole parts, rounded down.

        Examples
        --------
        >>> crowd = LocalOccupancy.from_dense([[3], [1]])
        >>> made = FactoredWeights(crowd, np.ones(2), np.array([1.0]))
        >>> made.of(crowd) / WEIGHT_RESOLUTION
        array([0.75, 0.25])
        """
        weight = self.factor[pairs.user]
        weight *= pairs.n / pairs.spread(self.records)
        weight /= pairs.spread(self.total)
        # Of factors that no search makes, which `is_sound` refuses: still whole numbers.
        sane = np.fmax(np.fmin(weight, 2.0), -2.0)
        return np.asarray(np.floor(sane * WEIGHT_RESOLUTION), dtype=np.int64)


def _sums_and_extremes(pairs: Pairs, *, weights: PairColumn) -> tuple[Ints, ...]:
    begin, weight = pairs.start[:-1], weights.of(pairs)
    return tuple(one.reduceat(weight, begin) for one in (np.add, np.maximum, np.minimum))


# ---- suppressed pairs ----


@dataclass(frozen=True, eq=False)
class SuppressedPairs(ReadOnlyArrays):
    """Cell and user of each suppressed pair, sorted by cell, then user. Public.

    Attributes
    ----------
    cell, user : ndarray of int64, shape (n_suppressed,)
    n_cells, n_users : int
        Of the occupancy.

    Raises
    ------
    InputError
        If a number is out of range, or pairs are unsorted or repeated.
    """

    cell: Ints
    user: Ints
    n_cells: int
    n_users: int

    def __post_init__(self) -> None:
        super().__post_init__()
        cell, user = self.cell, self.user
        are_columns = cell.ndim == 1 and cell.shape == user.shape
        if not are_columns or cell.dtype != np.int64 or user.dtype != np.int64:
            raise InputError("suppressed pairs need a cell and a user each, as whole numbers.")
        inside = (cell >= 0) & (cell < self.n_cells) & (user >= 0) & (user < self.n_users)
        if not inside.all() or not (np.diff(self._keys(cell, user)) > 0).all():
            raise InputError("suppressed pairs must be sorted by cell, then user, each once.")

    @classmethod
    def nothing(cls, occupancy: Occupancy) -> Self:
        """Return that no pair is suppressed."""
        none = np.zeros(0, dtype=np.int64)
        return cls(none, none, occupancy.n_cells, occupancy.n_users)

    @classmethod
    def of_rows(cls, occupancy: Occupancy, cell: Ints, user: Ints) -> Self:
        """Return the pairs in the order of an occupancy, from any order."""
        order = np.lexsort((user, cell))
        return cls(cell[order], user[order], occupancy.n_cells, occupancy.n_users)

    def of(self, pairs: Pairs) -> Bools:
        """Return which of a block's pairs, or of all pairs at hand, are suppressed."""
        if not self.cell.size:
            return np.zeros(pairs.n.size, dtype=np.bool_)
        own, keys = self._keys(self.cell, self.user), self._keys(pairs.cell, pairs.user)
        place = np.minimum(np.searchsorted(own, keys), own.size - 1)
        return np.asarray(own[place] == keys)

    def _keys(self, cell: Ints, user: Ints) -> Ints:
        return cell * np.int64(self.n_users) + user
