"""Whole weights of distributed pairs, kept as a number per user and a number per cell.

The search for weights (planning/clipping_range/user_weights.py) gives a pair with m of a cell's N
records the weight f m / (N T): f belongs to the user, and T, the cell's sum of f m / N, to the
cell. An array of weights would be as large as the pairs. Both factors fit a driver, and each block
of pairs computes its weights from them by the same rounded operations, so that a pair has the same
whole weight in its block of cells and in its block of users.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hexveil.base.read_only import ReadOnlyArrays, read_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.model.occupancy import Arrays, LocalOccupancy, Occupancy, Pairs


T = TypeVar("T")


class MappedSums(Protocol):
    """Private sums that functions are mapped over: `hexveil.mechanisms.contract.PrivateSums`."""

    def map_cells(
        self, occupancy: Occupancy, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell and their sums. PRIVATE."""

    def sum_over_users(
        self, occupancy: Occupancy, work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> Any:  # noqa: ANN401  what the work returns
        """Add up a function of users' pairs and their sums. PRIVATE."""


WEIGHT_RESOLUTION = 2**26
"""What the weights of a cell add up to, nearly; no weight is above it."""


@dataclass(frozen=True, eq=False)
class FactoredWeights(ReadOnlyArrays):
    """Whole weights of the pairs of an occupancy. Public.

    Attributes
    ----------
    occupancy : Occupancy
    factor : ndarray of float, shape (n_users,)
        f of each user, from 0 to 1.
    total : ndarray of float, shape (n_cells,)
        T of each cell, above 0.
    """

    occupancy: Occupancy
    factor: NDArray[np.float64]
    total: NDArray[np.float64]

    def map_cells(self, work: Callable[..., Any], cells: Arrays = (), users: Arrays = ()) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell and their weights.

        Parameters
        ----------
        work : callable
            From `Pairs`, their weights, and the arrays, in this order; a function of a module.
        cells, users : sequence of ndarray
            Arrays with an entry per cell, and per user.
        """
        return self.occupancy.map_cells(*self._asked(_weigh, work, cells, users))

    def map_users(self, work: Callable[..., Any], cells: Arrays = (), users: Arrays = ()) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each user and their weights: see `map_cells`."""
        return self.occupancy.map_users(*self._asked(_weigh, work, cells, users))

    def map_sums(
        self,
        sums: MappedSums,
        work: Callable[..., Any],
        cells: Arrays = (),
        users: Arrays = (),
        *,
        squares: bool = False,
    ) -> Any:  # noqa: ANN401  what the work returns
        """Apply a function to the pairs of each cell, their weights and their sums. PRIVATE.

        Parameters
        ----------
        sums : PrivateSums
        work : callable
            From `Pairs`, their weights, their sums (and sums of squares), and the arrays, in this
            order.
        cells, users : sequence of ndarray
        squares : bool
            Whether the function takes sums of squares.
        """
        weigh = partial(_weigh_sums, with_squares=squares)
        work, cells, users = self._asked(weigh, work, cells, users)
        return sums.map_cells(self.occupancy, work, cells, users)

    def sum_over_users(
        self,
        sums: MappedSums,
        work: Callable[..., Any],
        cells: Arrays = (),
        users: Arrays = (),
    ) -> Any:  # noqa: ANN401  what the work returns
        """Add up a function of users' pairs, their weights and their sums. PRIVATE.

        Parameters
        ----------
        sums : PrivateSums
        work : callable
            From `Pairs` of whole users, their weights, their sums, and the arrays, in this order,
            to integers.
        cells, users : sequence of ndarray
        """
        weigh = partial(_weigh_sums, with_squares=False)
        return sums.sum_over_users(self.occupancy, *self._asked(weigh, work, cells, users))

    def _asked(
        self, weigh: Callable[..., Any], work: Callable[..., Any], cells: Arrays, users: Arrays
    ) -> tuple[Callable[..., Any], Arrays, Arrays]:
        asked = partial(weigh, work=work, n_cells=len(cells))
        return asked, (*cells, self.occupancy.records_per_cell, self.total), (*users, self.factor)

    def of(self, occupancy: LocalOccupancy) -> NDArray[np.int64]:
        """Return the weights of the same pairs at hand, shape (n_pairs,)."""
        return whole_weights(occupancy, occupancy.records_per_cell, self.total, self.factor)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return a figure that follows from the weights alone; each is asked of the blocks once."""
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]  # type: ignore[no-any-return]

    @cached_property
    def _known(self) -> dict[str, Any]:
        return {}

    @property
    def totals(self) -> NDArray[np.int64]:
        """Sum of weights of each cell; shape (n_cells,)."""
        return self._sums_and_largest()[0]

    @property
    def largest(self) -> NDArray[np.int64]:
        """Largest weight in each cell; shape (n_cells,)."""
        return self._sums_and_largest()[1]

    def _sums_and_largest(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        def asked() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            sums, largest = self.map_cells(_sums_and_largest)
            return read_only(sums), read_only(largest)

        return self.once("sums and largest", asked)

    def is_sound(self) -> bool:
        """Return whether every cell has a weight, and none is negative or too large."""
        factors = bool(((self.factor >= 0) & (self.factor <= 1)).all())
        if not factors or not (np.isfinite(self.total) & (self.total > 0)).all():
            return False
        # Totals that do not fit the factors would make weights that leave 64 bits.
        return bool((self.totals > 0).all() and (self.largest <= WEIGHT_RESOLUTION).all())


Weights: TypeAlias = NDArray[np.int64] | FactoredWeights
"""Whole weights of pairs: an array where pairs are at hand, else their factors."""


def whole_weights(
    pairs: Pairs,
    records: NDArray[np.int64],
    total: NDArray[np.float64],
    factor: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return the weight of each pair: f m / (N T) in whole parts, rounded down.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = LocalOccupancy.from_dense([[3], [1]])
    >>> whole_weights(crowd, np.array([4]), np.array([1.0]), np.ones(2)) / WEIGHT_RESOLUTION
    array([0.75, 0.25])
    """
    weight = factor[pairs.user]
    weight *= pairs.n / records.astype(np.float64)[pairs.cell]
    weight /= total[pairs.cell]
    # Of factors that no search makes, which `is_sound` refuses: still whole numbers.
    sane = np.fmax(np.fmin(weight, 2.0), -2.0)
    return np.asarray(np.floor(sane * WEIGHT_RESOLUTION), dtype=np.int64)


def _weigh(pairs: Pairs, *given: NDArray[Any], work: Callable[..., Any], n_cells: int) -> Any:  # noqa: ANN401  what the work returns
    weight, others = _weights_and_others(pairs, given, n_cells)
    return work(pairs, weight, *others)


def _weigh_sums(
    pairs: Pairs,
    sums: NDArray[np.int64],
    squares: NDArray[np.int64] | None,
    *given: NDArray[Any],
    work: Callable[..., Any],
    n_cells: int,
    with_squares: bool,
) -> Any:  # noqa: ANN401  what the work returns
    weight, others = _weights_and_others(pairs, given, n_cells)
    private = (sums, squares) if with_squares else (sums,)
    return work(pairs, weight, *private, *others)


def _weights_and_others(
    pairs: Pairs, given: tuple[NDArray[Any], ...], n_cells: int
) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...]]:
    """Return the pairs' weights, and the arrays without those that the weights are made of."""
    (records, total), factor = given[n_cells : n_cells + 2], given[-1]
    weight = whole_weights(pairs, records, total, factor)
    return weight, (*given[:n_cells], *given[n_cells + 2 : -1])


def _sums_and_largest(
    pairs: Pairs, weight: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    begin = pairs.start[:-1]
    return np.add.reduceat(weight, begin), np.maximum.reduceat(weight, begin)
