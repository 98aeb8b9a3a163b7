"""Columns of pairs that each block computes for its own: whole weights, and suppressed pairs.

*Weights* are kept as a number per user and a number per cell. The search for weights
(mechanisms/looks/user_weights.py) gives a pair with m of a cell's N records the weight
f m / (N T): f belongs to the user, and T, the cell's sum of f m / N, to the cell. An array of
weights would be as large as the pairs. Both factors fit a driver, and each block of pairs computes
its weights from them by the same rounded operations, so that a pair has the same whole weight in
its block of cells and in its block of users.

*Suppressed pairs* are, of pairs at hand, an array of truth values. One as large as the pairs fits
no driver; the suppressed ones are few, since only users of most cells are suppressed: so of pairs
elsewhere they are a list.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.model.occupancy import (
    Arrays,
    LocalOccupancy,
    Occupancy,
    PairColumns,
    Pairs,
    Partition,
    WholeGroup,
)

T = TypeVar("T")

WEIGHT_RESOLUTION = 2**26
"""What the weights of a cell add up to, nearly; no weight is above it."""


@dataclass(frozen=True)
class _Recipe:
    """How blocks compute weights: a function of pairs, arrays of cells, users and pairs."""

    weight: Callable[..., Ints]
    cells: tuple[Any, ...] = ()
    users: tuple[Any, ...] = ()
    pairs: PairColumns = ()


class Weights(ReadOnlyArrays):
    """Whole weights of the pairs of an occupancy, each computed where its pair is. Public."""

    occupancy: Occupancy

    def recipe(self) -> _Recipe:
        """Return the function by which a block computes its weights, and its arrays."""
        raise NotImplementedError

    def is_sound(self) -> bool:
        """Return whether every cell has a weight, and none is negative or too large."""
        raise NotImplementedError

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether these have as many entries as an occupancy has cells, users or pairs."""
        raise NotImplementedError

    def map(
        self, whole: WholeGroup, work: Callable[..., Any], cells: Arrays = (), users: Arrays = ()
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell, or of each user, and their weights.

        Parameters
        ----------
        whole : "cells" or "users"
        work : callable
            From `Pairs`, their weights, and the arrays, in this order; a function of a module.
        cells, users : sequence of ndarray
            Arrays with an entry per cell, and per user.
        """
        return self.occupancy.map(whole, *self.asked(work, cells, users))

    def map_cells(self, work: Callable[..., Any], cells: Arrays = (), users: Arrays = ()) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell and their weights: see `map`."""
        return self.map("cells", work, cells, users)

    def map_users(self, work: Callable[..., Any], cells: Arrays = (), users: Arrays = ()) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each user and their weights: see `map`."""
        return self.map("users", work, cells, users)

    def asked(
        self, work: Callable[..., Any], cells: Arrays, users: Arrays, kept: int | None = None
    ) -> tuple[Callable[..., Any], Arrays, Arrays, PairColumns]:
        """Return a function that computes weights first, and all arrays that it takes.

        Parameters
        ----------
        work : callable
            From `Pairs`, their weights, private columns, and the arrays, in this order.
        cells, users : sequence of ndarray
        kept : int or None
            How many of two private columns are handed on to the work; None without them.
        """
        recipe = self.recipe()
        weigh = partial(_weigh, work=work, weight=recipe.weight, kept=kept)
        return weigh, (tuple(cells), recipe.cells), (tuple(users), recipe.users), recipe.pairs

    def of(self, occupancy: LocalOccupancy) -> Ints:
        """Return the weights of the same pairs at hand, shape (n_pairs,)."""
        recipe = self.recipe()
        return np.asarray(recipe.weight(occupancy, *recipe.cells, *recipe.users, *recipe.pairs))

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

    @property
    def largest(self) -> Ints:
        """Largest weight in each cell; shape (n_cells,)."""
        return self._sums_and_extremes()[1]

    def _sums_and_extremes(self) -> tuple[Ints, ...]:
        return self.once(
            "sums and extremes", lambda: tuple(map(read_only, self.map_cells(_sums_and_extremes)))
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

    def recipe(self) -> _Recipe:
        """Return how a block computes its weights: see `Weights.recipe`."""
        return _Recipe(whole_weights, (self.occupancy.records_per_cell, self.total), (self.factor,))

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
class ListedWeights(Weights):
    """Weights of pairs at hand as plans listed them before December 2026.

    Attributes
    ----------
    occupancy : LocalOccupancy
    weight : ndarray of int64, shape (n_pairs,)
    """

    occupancy: Occupancy
    weight: Ints

    def recipe(self) -> _Recipe:
        """Return how a block computes its weights: see `Weights.recipe`."""
        return _Recipe(_listed, pairs=(self.weight,))

    def is_sound(self) -> bool:
        """Return whether every cell has a weight, and none is negative or too large."""
        return self._are_in_range()

    def fits(self, occupancy: Occupancy) -> bool:
        """Return whether there is a weight per pair."""
        return self.weight.size == occupancy.n_pairs


def whole_weights(pairs: Pairs, records: Ints, total: Floats, factor: Floats) -> Ints:
    """Return the weight of each pair: f m / (N T) in whole parts, rounded down.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = LocalOccupancy.from_dense([[3], [1]])
    >>> whole_weights(crowd, np.array([4]), np.array([1.0]), np.ones(2)) / WEIGHT_RESOLUTION
    array([0.75, 0.25])
    """
    weight = factor[pairs.user]
    weight *= pairs.n / pairs.spread(records.astype(np.float64))
    weight /= pairs.spread(total)
    # Of factors that no search makes, which `is_sound` refuses: still whole numbers.
    sane = np.fmax(np.fmin(weight, 2.0), -2.0)
    return np.asarray(np.floor(sane * WEIGHT_RESOLUTION), dtype=np.int64)


def _listed(_pairs: Pairs, weight: Ints) -> Ints:
    return weight


def _weigh(
    pairs: Pairs,
    *given: Any,  # noqa: ANN401  arrays, and sums of squares or none
    work: Callable[..., Any],
    weight: Callable[..., Ints],
    kept: int | None,
) -> Any:  # noqa: ANN401  what the work returns
    """Apply the work to pairs, their weights, private sums if any are kept, and arrays.

    Private sums, two if any are kept, come first; then arrays of cells and those that weights are
    made of, arrays of users and those for weights, and columns of pairs for weights.
    """
    cells, own_cells, users, own_users, *own_pairs = given if kept is None else given[2:]
    weights = weight(pairs, *own_cells, *own_users, *own_pairs)
    return work(pairs, weights, *given[: kept or 0], *cells, *users)


def _sums_and_extremes(pairs: Pairs, weight: Ints) -> tuple[Ints, ...]:
    begin = pairs.start[:-1]
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
    def of_rows(cls, occupancy: Occupancy, cell: Ints, user: Ints) -> Self:
        """Return the pairs in the order of an occupancy, from any order."""
        order = np.lexsort((user, cell))
        return cls(cell[order], user[order], occupancy.n_cells, occupancy.n_users)

    def of(self, pairs: Pairs) -> Bools:
        """Return which of a block's pairs, or of all pairs at hand, are suppressed."""
        cell, user = pairs.cell, pairs.user
        if isinstance(pairs, Partition):  # what is whole is numbered from the block's first
            cell = cell + pairs.first if pairs.whole == "cells" else cell
            user = user + pairs.first if pairs.whole == "users" else user
        if not self.cell.size:
            return np.zeros(cell.size, dtype=np.bool_)
        own, keys = self._keys(self.cell, self.user), self._keys(cell, user)
        place = np.minimum(np.searchsorted(own, keys), own.size - 1)
        return np.asarray(own[place] == keys)

    def _keys(self, cell: Ints, user: Ints) -> Ints:
        return cell * np.int64(self.n_users) + user


Suppressed: TypeAlias = Bools | SuppressedPairs
"""Which pairs are suppressed: an array where pairs are at hand, else the list of them."""


def suppressed_column(suppressed: Suppressed, occupancy: LocalOccupancy) -> Bools:
    """Return which of the pairs at hand are suppressed."""
    return suppressed.of(occupancy) if isinstance(suppressed, SuppressedPairs) else suppressed


def no_pairs(occupancy: Occupancy) -> Suppressed:
    """Return that no pair is suppressed."""
    if occupancy.is_local:
        return np.zeros(occupancy.n_pairs, dtype=np.bool_)
    nothing = np.zeros(0, dtype=np.int64)
    return SuppressedPairs(nothing, nothing, occupancy.n_cells, occupancy.n_users)
