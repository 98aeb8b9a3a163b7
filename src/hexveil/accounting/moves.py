"""The one accountant: how far each unit moves each number that is noised, and what that costs.

Booking and meter add up the same terms from the same statement of moves. The booking takes the
planned noise and rounds up; the meter takes the noise that goes to the door and rounds down.

Neighbours: one unit's records change as its privacy model says; who moves what is public.
Sensitivity: a unit moves a number by at most d, a whole number of the steps that are noised. Where
a plan knows no lattice, for bare counts, bounds have `FINE` steps and d need not be whole.
Loss: numbers have independent noise. Discrete Laplace noise of scale R costs at most d / R by the
triangle inequality, so that a unit loses Σ d / R. Discrete Gaussian noise of parameter R costs

    m = max(Σ d² / R², s / LATTICE)  with  s = Σ d / R²

as a square of μ: all numbers of a stage are one vector, moved by at most √(Σ d²) in L2, and the
second keeps the lattice term s within what composition asks (accounting/gaussian_composition.py,
with proof and source). It matters where a unit moves a number by fewer than 1 / LATTICE = 512
steps. A unit's losses, and its squares, add up over stages, also those that outcomes chose.
Rounding: of each term by a few correctly rounded operations, which `ROUNDING` covers; of sums in
the direction that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import LATTICE
from hexveil.base.rational import sum_upper_bounds
from hexveil.base.read_only import read_only
from hexveil.model.occupancy import BLOCK_PAIRS
from hexveil.model.pair_blocks import CellSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.occupancy import Occupancy, Pairs
    from hexveil.model.pair_columns import Suppressed, Weights

    Moved = Iterable[tuple[Ints | Floats, Floats]]
    Terms = tuple[Floats, ...]
    Currency = Callable[[Moved], Terms]

FINE = 2.0**40
"""Steps of bounds whose lattice is not known; a power of two, so that products are exact."""
ROUNDING = 1.0 + 2.0**-49
"""More than the roundings of a term: eight ulps, of a quotient of numbers off by one, squared."""
ULP = 2.0**-52


# ---- what moves cost ----


def quotient(by: Ints | Floats, scale: Floats) -> Floats:
    """Return moves over scales: 0 where nothing moves, infinite where a move has no noise."""
    with np.errstate(divide="ignore"):
        return np.divide(by, scale, out=np.zeros(np.shape(by)), where=by > 0)


def losses(moved: Moved) -> Terms:
    """Return the pure loss of each pair by moves and scales, which add up."""
    return (np.asarray(sum(quotient(by, scale) for by, scale in moved)),)


def squares(moved: Moved) -> Terms:
    """Return the square of μ of each pair by moves and parameters, and its lattice term."""
    stage: Any = 0.0
    lattice: Any = 0.0
    for by, scale in moved:
        ratio = quotient(by, scale)
        stage = stage + ratio**2
        lattice = lattice + quotient(ratio, scale) / float(LATTICE)
    return np.asarray(stage), np.asarray(lattice)


def beyond(moved: Moved) -> Terms:
    """Return the pure loss of each pair beyond what was authorised and not spent.

    Moves in the noise of this stage, in that which was authorised before, and in that which spent
    some of it. A difference of nearly equal doubles is mostly their rounding: 16 ulps of either.
    """
    terms, authorised, used = (quotient(by, scale) for by, scale in moved)
    rounding = 16.0 * ULP * (terms + authorised + used)
    return (np.maximum(terms - (authorised - used) - rounding, 0.0),)


def add_up(user: Ints, terms: Terms, n_users: int, *, up: bool) -> Floats:
    """Return what each unit loses: the sum of its terms, rounded up or down; of two the larger."""
    if up:
        sums = [sum_upper_bounds(user, one * ROUNDING, n_users) for one in terms]
    else:
        sums = [sum_lower_bound(user, one, n_users) for one in terms]
    return np.asarray(np.max(sums, axis=0))


def sum_lower_bound(user: Ints, terms: Floats, n_users: int) -> Floats:
    """Return per user the sum of non-negative terms, rounded down.

    A sum of k doubles in any order is off by a factor of at most (1 + ulp/2)^(k-1); each term was
    computed by at most a dozen rounded operations.
    """
    total = np.bincount(user, weights=terms, minlength=n_users)
    largest = int(np.bincount(user).max(initial=0))
    return np.asarray(total * (1.0 - (largest + 16.0) * ULP), dtype=np.float64)


# ---- moves of pairs, wherever these are ----


@dataclass(frozen=True, eq=False)
class StatisticMoves:
    """By how much each pair moves its cell's number of one statistic.

    Attributes
    ----------
    moved_by : callable
        Function of pairs, their weights if there are any, `cells`, arrays of users and columns of
        pairs; to moves in steps. Of a module, so that it can be sent to pairs elsewhere.
    cells : tuple of ndarray
        Arrays with an entry per cell.
    scale : ndarray of float, shape (n_cells,)
        Noise of each cell's number, in steps; infinite where a cell publishes a constant.
    """

    moved_by: Callable[..., Ints | Floats]
    cells: tuple[NDArray[Any], ...]
    scale: Floats

    @classmethod
    def of(
        cls, moved_by: Callable[..., Ints | Floats], cells: tuple[NDArray[Any], ...], scale: Floats
    ) -> StatisticMoves:
        """Return the same, of scales that are 0 where a cell publishes a constant."""
        arrays = tuple(map(read_only, cells))
        return cls(moved_by, arrays, read_only(np.where(scale == 0, np.inf, scale)))


@dataclass(frozen=True, eq=False)
class PairMoves:
    """Moves of one stage by pairs that are at hand, on disk or spread over machines.

    Attributes
    ----------
    occupancy : Occupancy
    statistics : tuple of StatisticMoves
    users : tuple of ndarray
        Arrays with an entry per user.
    suppressed : tuple of ndarray of bool, or of SuppressedPairs
        Columns of pairs.
    weight : Weights or None
        Weights of pairs.
    """

    occupancy: Occupancy
    statistics: tuple[StatisticMoves, ...]
    users: tuple[Floats, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    weight: Weights | None = None

    def at(self, scales: Sequence[Floats]) -> PairMoves:
        """Return the same moves under other noise: of each statistic, in the order of cells.

        A cell that publishes a constant has no entry.
        """
        statistics = []
        for statistic, scale in zip(self.statistics, scales, strict=True):
            everywhere = np.full(statistic.scale.size, np.inf)
            everywhere[np.isfinite(statistic.scale)] = scale
            statistics.append(replace(statistic, scale=everywhere))
        return replace(self, statistics=tuple(statistics))

    def per_user(self, currency: Currency, *, up: bool) -> Floats:
        """Return what each user loses, rounded up or down."""
        work = partial(_user_sums, reading=self._reading(currency), up=up)
        return np.asarray(self._map("users", work))

    def per_pair(self, currency: Currency) -> Floats:
        """Return what each pair at hand adds to its user's loss, not rounded up."""
        work = partial(_pair_terms, reading=self._reading(currency))
        return np.asarray(self._map("users", work))

    def claimed(self, currency: Currency) -> Floats:
        """Return what each user loses if each of its cells costs what it costs at most."""
        claims = self._map("cells", partial(_largest, reading=self._reading(currency)))
        # Columns of one array come back as the array.
        claims = claims if isinstance(claims, tuple) else (claims,)
        work = partial(_claimed, reading=self._reading(currency, len(claims)))
        return np.asarray(self._map("users", work, claims))

    def charged_cells(self) -> Ints:
        """Return in how many cells each user moves anything."""
        work = partial(_charged_cells, reading=self._reading(losses))
        return np.asarray(self._map("users", work))

    def _reading(self, currency: Currency, claims: int = 0) -> _Reading:
        works = tuple((one.moved_by, len(one.cells)) for one in self.statistics)
        weights = 0 if self.weight is None else 1
        return _Reading(works, currency, weights, claims, len(self.suppressed))

    def _map(self, whole: str, work: Callable[..., Any], claims: Sequence[Floats] = ()) -> Any:  # noqa: ANN401  what the work returns
        cells: list[NDArray[Any]] = [*claims]
        for one in self.statistics:
            cells += [one.scale, *one.cells]
        weight, occupancy = self.weight, self.occupancy
        if weight is not None:
            mapped = weight.map_cells if whole == "cells" else weight.map_users
            return mapped(work, cells, self.users)
        mapped = occupancy.map_cells if whole == "cells" else occupancy.map_users
        return mapped(work, cells, self.users, self.suppressed)


@dataclass(frozen=True)
class _Reading:
    """How a block reads its arrays: weights, claims, scales and cells, users, columns of pairs."""

    works: tuple[tuple[Callable[..., Ints | Floats], int], ...]
    currency: Currency
    weights: int
    claims: int
    columns: int

    def terms(self, pairs: Pairs, given: tuple[NDArray[Any], ...]) -> Terms:
        """Return the terms of all pairs, computed in parts that fit a processor's cache."""
        end = len(given) - self.columns
        found = []
        for begin in range(0, max(pairs.n.size, 1), BLOCK_PAIRS):
            rows = slice(begin, begin + BLOCK_PAIRS)
            columns = pairs.cell[rows], pairs.user[rows], pairs.n[rows]
            start = np.zeros(0, dtype=np.int64)
            part = CellSlice(*columns, pairs.n_cells, pairs.n_users, start=start)
            weights = [one[rows] for one in given[: self.weights]]
            suppressed = [one[rows] for one in given[end:]]
            cells = given[self.weights + self.claims : end]
            found.append(self.currency(self._moved(part, weights, cells, suppressed)))
        return tuple(map(np.concatenate, zip(*found, strict=True)))

    def _moved(
        self,
        pairs: Pairs,
        weights: list[NDArray[Any]],
        cells: tuple[NDArray[Any], ...],
        suppressed: list[NDArray[Any]],
    ) -> Iterator[tuple[Ints | Floats, Floats]]:
        users, at = cells[sum(1 + size for _, size in self.works) :], 0
        for work, size in self.works:
            own = cells[at + 1 : at + 1 + size]
            by = work(pairs, *weights, *own, *users, *suppressed)
            yield by, cells[at][pairs.cell]
            at += 1 + size


def _user_sums(pairs: Pairs, *given: NDArray[Any], reading: _Reading, up: bool) -> Floats:
    return add_up(pairs.user, reading.terms(pairs, given), pairs.n_users, up=up)


def _pair_terms(pairs: Pairs, *given: NDArray[Any], reading: _Reading) -> Floats:
    return reading.terms(pairs, given)[0]


def _largest(pairs: Pairs, *given: NDArray[Any], reading: _Reading) -> Terms:
    begin = pairs.start[:-1]
    return tuple(np.maximum.reduceat(one, begin) for one in reading.terms(pairs, given))


def _claimed(pairs: Pairs, *given: NDArray[Any], reading: _Reading) -> Floats:
    claims = given[reading.weights : reading.weights + reading.claims]
    own = reading.terms(pairs, given)
    # A user who moves nothing in a cell is not charged there, whatever the others lose.
    terms = (
        np.where(mine > 0, claim[pairs.cell], 0.0) for mine, claim in zip(own, claims, strict=True)
    )
    return add_up(pairs.user, tuple(terms), pairs.n_users, up=True)


def _charged_cells(pairs: Pairs, *given: NDArray[Any], reading: _Reading) -> Ints:
    (terms,) = reading.terms(pairs, given)
    return np.bincount(pairs.user[terms > 0], minlength=pairs.n_users)
