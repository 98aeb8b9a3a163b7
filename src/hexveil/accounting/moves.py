"""The one accountant: moves of each unit in each number that is noised, and their losses.

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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import LATTICE
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import sum_upper_bounds
from hexveil.base.read_only import read_only
from hexveil.model.occupancy import BLOCK_PAIRS, Occupancy, Pairs

Moved: TypeAlias = Iterable[tuple[Ints | Floats, Floats]]
Terms: TypeAlias = tuple[Floats, ...]
Currency: TypeAlias = Callable[[Moved], Terms]

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


def losses(movements: Moved) -> Terms:
    """Return the pure loss of each pair by moves and scales, which add up."""
    return (np.asarray(sum(quotient(by, scale) for by, scale in movements)),)


def squares(movements: Moved) -> Terms:
    """Return the square of μ of each pair by moves and parameters, and its lattice term."""
    stage: Any = 0.0
    lattice: Any = 0.0
    for by, scale in movements:
        ratio = quotient(by, scale)
        stage = stage + ratio**2
        lattice = lattice + quotient(ratio, scale) / float(LATTICE)
    return np.asarray(stage), np.asarray(lattice)


def currency_of(law: NoiseLaw) -> Currency:
    """Return what losses are added up in under a law: ε, or squares of μ."""
    return losses if law.power == 1 else squares


def beyond(movements: Moved) -> Terms:
    """Return the pure loss of each pair above an authorised, unspent part.

    Moves in the noise of this stage, in that which was authorised before, and in that which spent
    some of it. A difference of nearly equal doubles is mostly their rounding: 16 ulps of either.
    """
    terms, authorised, used = (quotient(by, scale) for by, scale in movements)
    rounding = 16.0 * ULP * (terms + authorised + used)
    return (np.maximum(terms - (authorised - used) - rounding, 0.0),)


def add_up(user: Ints, terms: Terms, n_users: int, *, up: bool) -> Floats:
    """Return each unit's loss: the sum of its terms, rounded up or down; of two the larger."""
    if up:
        sums = [sum_upper_bounds(user, term * ROUNDING, n_users) for term in terms]
    else:
        sums = [sum_lower_bound(user, term, n_users) for term in terms]
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


MovedBy: TypeAlias = Callable[[Pairs], Ints | Floats]
"""From pairs to how many steps each moves its cell's number.

A function of a module, with the arrays that it takes of cells and users by name.
"""


@dataclass(frozen=True, eq=False)
class StatisticMoves:
    """By how much each pair moves its cell's number of one statistic.

    Attributes
    ----------
    moved_by : MovedBy
    scale : ndarray of float, shape (n_cells,)
        Noise of each cell's number, in steps; infinite where a cell publishes a constant.
    """

    moved_by: MovedBy
    scale: Floats

    @classmethod
    def of(cls, moved_by: Callable[..., Ints | Floats], scale: Floats, **given: Any) -> Self:  # noqa: ANN401  arrays of cells, and records of them
        """Return the same, of scales that are 0 where a cell publishes a constant."""
        fixed = {name: read_only(one) for name, one in given.items()}
        return cls(partial(moved_by, **fixed), read_only(np.where(scale == 0, np.inf, scale)))


@dataclass(frozen=True, eq=False)
class PairMoves:
    """Moves of one stage by pairs that are at hand, on disk or spread over machines.

    Attributes
    ----------
    occupancy : Occupancy
    statistics : tuple of StatisticMoves
    """

    occupancy: Occupancy
    statistics: tuple[StatisticMoves, ...]

    def at(self, scales: Sequence[Floats]) -> Self:
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
        """Return each user's loss, rounded up or down."""
        return self.occupancy.map_users(partial(_user_sums, terms=self._terms(currency), up=up))

    def per_pair(self, currency: Currency) -> Floats:
        """Return the part of each pair at hand in its user's loss, not rounded up."""
        return self._terms(currency)(self.occupancy.local())[0]

    def claimed(self, currency: Currency) -> Floats:
        """Return each user's loss if each of its cells costs as much as it can."""
        terms = self._terms(currency)
        claims: Any = self.occupancy.map_cells(partial(_largest, terms=terms))
        # Columns of one array come back as the array.
        claims = claims if isinstance(claims, tuple) else (claims,)
        return self.occupancy.map_users(partial(_claimed, terms=terms, claims=claims))

    def charged_cells(self) -> Ints:
        """Return in how many cells each user moves anything."""
        return self.occupancy.map_users(partial(_charged_cells, terms=self._terms(losses)))

    def _terms(self, currency: Currency) -> "PairTerms":
        return partial(_pair_terms, statistics=self.statistics, currency=currency)


PairTerms: TypeAlias = Callable[[Pairs], Terms]


def _pair_terms(
    pairs: Pairs, *, statistics: tuple[StatisticMoves, ...], currency: Currency
) -> Terms:
    """Return the terms of pairs in a currency, made where these are, in parts that fit a cache."""
    terms = []
    for part in pairs.parts(BLOCK_PAIRS):
        movements = ((one.moved_by(part), one.scale[part.cell]) for one in statistics)
        terms.append(currency(movements))
    return tuple(map(np.concatenate, zip(*terms, strict=True)))


def _user_sums(pairs: Pairs, *, terms: PairTerms, up: bool) -> Floats:
    return add_up(pairs.own_user, terms(pairs), pairs.n_users, up=up)


def _largest(pairs: Pairs, *, terms: PairTerms) -> Terms:
    return tuple(np.maximum.reduceat(term, pairs.start[:-1]) for term in terms(pairs))


def _claimed(pairs: Pairs, *, terms: PairTerms, claims: Terms) -> Floats:
    # A user who moves nothing in a cell is not charged there, whatever the others lose.
    charged = tuple(
        np.where(term > 0, claim[pairs.cell], 0.0)
        for term, claim in zip(terms(pairs), claims, strict=True)
    )
    return add_up(pairs.own_user, charged, pairs.n_users, up=True)


def _charged_cells(pairs: Pairs, *, terms: PairTerms) -> Ints:
    return np.bincount(pairs.own_user[terms(pairs)[0] > 0], minlength=pairs.n_users)
