"""Private quantiles over all (cell, user) pairs of a map: of user means, and of distances.

The proof is that of mechanisms/private_quantile.py: of a user in C cells every pair has
V = floor(GRAIN / C) votes, so that a user moves every cost by at most GRAIN, however many cells it
is in. The points are whole quanta: evenly spaced over the bounds of the records for the ends of a
range; for distances within cells geometric. Means are compared exactly: s / m <= point as
ceil(s / m) <= point, in integers.

Loss: every choice has scale 2 GRAIN / ε', rounded up, so that it costs each user at most ε'; it is
charged to all users of the map, those who do not vote too. Where the lower end does not come out
below the upper one, the range is all of the bounds.
Source: IOT section III-E for quantiles; ERRATA 12 for costs and scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DrawnRow, NoisyMax, Scores, Separate
from hexveil.mechanisms.pooled_histogram import GRAIN
from hexveil.mechanisms.private_quantile import (
    EvenPoints,
    ListedPoints,
    RankCost,
    selection_scale,
)
from hexveil.model.occupancy import BLOCK_PAIRS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.mechanisms.contract import (
        Ints,
        NoiseRequest,
        Outputs,
        PrivateSums,
        SensitivityReport,
    )
    from hexveil.model.occupancy import LocalOccupancy, Occupancy, Pairs

RANGE_POINTS = 256
"""Points that can be chosen for an end of the range, at most."""


class PairReading(Protocol):
    """Values of the (cell, user) pairs of a map, computed in blocks. PRIVATE."""

    def blocks(self, sums: PrivateSums) -> Iterator[tuple[slice, Ints]]:
        """Yield rows of pairs with their values, shape (batch, n_rows). PRIVATE."""


class VotedReading(Protocol):
    """Values of pairs, wherever they are, with their votes, tallied there. PRIVATE."""

    def tally(self, sums: PrivateSums, candidates: EvenPoints | ListedPoints) -> Ints:
        """Return the votes of each place, shape (batch, n_candidates + 1). PRIVATE."""


@dataclass(frozen=True, eq=False)
class UserMeans:
    """Mean of each pair in quanta, rounded up: no point lies between it and the exact mean."""

    occupancy: LocalOccupancy

    def blocks(self, sums: PrivateSums) -> Iterator[tuple[slice, Ints]]:
        """Yield the means. PRIVATE."""
        for rows in blocks_of(self.occupancy):
            # Points are whole, so that s / m <= point exactly if ceil(s / m) <= point.
            yield rows, -(-sums.total[:, rows] // self.occupancy.n[rows])


@dataclass(frozen=True, eq=False)
class VotedPairs(ReadOnlyArrays):
    """Values of pairs at hand, each with its votes: a `VotedReading`.

    Attributes
    ----------
    reading : PairReading
    votes : ndarray of int64, shape (n_pairs,)
    """

    reading: PairReading
    votes: Ints

    def tally(self, sums: PrivateSums, candidates: EvenPoints | ListedPoints) -> Ints:
        """Return the votes of each place. PRIVATE."""
        tally = np.zeros((len(sums.total), candidates.size + 1), dtype=np.int64)
        for rows, values in self.reading.blocks(sums):
            for row, places in zip(tally, candidates.places(values), strict=True):
                np.add.at(row, places, self.votes[rows])
        return tally


@dataclass(frozen=True, eq=False)
class EqualVotes:
    """Means of pairs that stay elsewhere, each with an equal part of its user's votes."""

    occupancy: Occupancy

    def tally(self, sums: PrivateSums, candidates: EvenPoints | ListedPoints) -> Ints:
        """Return the votes of each place. PRIVATE."""
        work = partial(_tally_equal_votes, candidates=candidates)
        by_block = sums.map_cells(self.occupancy, work, (), (self.occupancy.cells_per_user,))
        return np.asarray(by_block.sum(axis=1))


def _tally_equal_votes(
    pairs: Pairs,
    sums: Ints,
    _squares: Ints | None,
    cells_per_user: Ints,
    candidates: EvenPoints | ListedPoints,
) -> Ints:
    return tally_votes(rounded_means(pairs, sums), GRAIN // cells_per_user[pairs.user], candidates)


def rounded_means(pairs: Pairs, sums: Ints) -> Ints:
    """Return the mean of each pair, rounded up as those of `UserMeans`. PRIVATE."""
    return np.asarray(-(-sums // pairs.n))


def tally_votes(values: Ints, votes: Ints, candidates: EvenPoints | ListedPoints) -> Ints:
    """Return the votes of each place among a block's values, shape (1, n_candidates + 1). PRIVATE.

    One row per block: rows of all blocks are added up on the driver.
    """
    tally = np.zeros((1, candidates.size + 1), dtype=np.int64)
    np.add.at(tally[0], candidates.places(values[None])[0], votes)
    return tally


def blocks_of(occupancy: LocalOccupancy) -> Iterator[slice]:
    """Yield blocks of pairs that stay in a processor's cache."""
    for start in range(0, occupancy.n_pairs, BLOCK_PAIRS):
        yield slice(start, start + BLOCK_PAIRS)


@dataclass(frozen=True, eq=False)
class MapQuantiles(ReadOnlyArrays, DrawnRow):
    """Choices among values of all pairs of a map, in which no user has more votes than another.

    Attributes
    ----------
    name : str
    reading : VotedReading
    candidates : EvenPoints or ListedPoints
    targets : tuple of int
        Votes that are wanted at or below each point.
    user_votes : ndarray of int64, shape (n_users,)
        Votes of each user.
    scale : float
        Of every choice.
    """

    name: str
    reading: VotedReading
    candidates: EvenPoints | ListedPoints
    targets: tuple[int, ...]
    user_votes: Ints
    scale: float

    @property
    def entries(self) -> int:
        """One candidate per target."""
        return len(self.targets)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return a permute-and-flip per choice."""
        return (NoisyMax(self.scale),) * self.entries

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that a user moves every cost by at most its votes."""
        return (Separate.of_one_entry(self.user_votes),) * self.entries

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Scores, ...]:  # noqa: ARG002
        """Return the scores of the candidates. PRIVATE."""
        # A rank needs only the votes at or below each point: one pass serves all targets.
        cumulative = np.cumsum(self.reading.tally(sums, self.candidates), axis=1)
        ones = np.ones((1, self.candidates.size), dtype=np.int64)
        return tuple(Scores(-RankCost(t).costs(cumulative), ones) for t in self.targets)

    def points(self, outputs: Outputs) -> Ints:
        """Return the points that were chosen, in quanta."""
        return self.candidates.points(outputs[self.name][0])


def range_quantiles(
    occupancy: Occupancy,
    lattice_steps: int,
    quantiles: tuple[Fraction, Fraction],
    epsilon: Fraction,
    name: str = "interval",
) -> RangeQuantiles:
    """Return the choice of the two ends of a range by quantiles of user means.

    Parameters
    ----------
    occupancy : Occupancy
    lattice_steps : int
        Width of the records' bounds in quanta.
    quantiles : pair of Fraction
        Shares of all votes that are wanted at or below each end.
    epsilon : Fraction
        Loss of every user by both choices together.
    """
    points = EvenPoints(lattice_steps, min(lattice_steps, RANGE_POINTS))
    # Equal votes for users, split over their cells: with a vote per pair, whoever is in C cells
    # would move every cost C times as far.
    share = GRAIN // occupancy.cells_per_user
    user_votes = share * occupancy.cells_per_user
    reading: VotedReading = EqualVotes(occupancy)
    if occupancy.is_local:
        local = occupancy.local()
        reading = VotedPairs(UserMeans(local), share[local.user])
    targets = vote_targets(user_votes, quantiles)
    scale = selection_scale(GRAIN, epsilon / 2)
    return RangeQuantiles(name, reading, points, targets, user_votes, scale)


@dataclass(frozen=True, eq=False)
class RangeQuantiles(MapQuantiles):
    """The stage that chooses both ends of a range."""

    candidates: EvenPoints

    def ends(self, outputs: Outputs) -> tuple[int, int]:
        """Return the chosen ends in quanta; all of the bounds if the range would be empty."""
        low, high = map(int, self.points(outputs))
        # A function of released points, so that it costs nothing.
        return (low, high) if low < high else (0, self.candidates.top)


def vote_targets(votes: Ints | int, quantiles: tuple[Fraction, ...]) -> tuple[int, ...]:
    """Return the votes wanted at or below each quantile of these votes, rounded half up."""
    total = int(np.sum(votes))
    return tuple(int(total * quantile + Fraction(1, 2)) for quantile in quantiles)


def votes_of_users(occupancy: LocalOccupancy, votes: Ints) -> Ints:
    """Return the votes of each user, from those of each pair."""
    user_votes = np.zeros(occupancy.n_users, dtype=np.int64)
    np.add.at(user_votes, occupancy.user, votes)
    return user_votes
