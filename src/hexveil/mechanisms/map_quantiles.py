"""Private quantiles over all (cell, user) pairs of a map: of user means, and of their residuals.

The proof is that of mechanisms/private_quantile.py: of a user in C cells every pair has
V = floor(GRAIN / C) votes, so that a user moves every cost by at most GRAIN, however many cells it
is in. The points are whole quanta: evenly spaced over the bounds of the records for the ends of a
range; for residuals up to the width of the range, which is noisy and public by then, and none below
1. Means are compared exactly: s / m <= point as ceil(s / m) <= point, in integers.

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

GRAIN = 2**20
"""Votes of one user over all its cells, at most."""
RANGE_POINTS = 256
"""Points that can be chosen for an end of the range, at most."""
RESIDUAL_POINTS = 128
"""Points that can be chosen for a quantile of residuals, at most."""


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
class UserResiduals:
    """Distance of each pair's mean from the user's mean over all cells, both rounded down.

    Those of a user share its votes equally; the distance of a user in one cell has none.
    """

    occupancy: Occupancy

    def tally(self, sums: PrivateSums, candidates: EvenPoints | ListedPoints) -> Ints:
        """Return the votes of each place. PRIVATE."""
        work = partial(_tally_residuals, candidates=candidates)
        # All of a user's pairs at once: its mean over all cells is needed, and stays there.
        return sums.sum_over_users(self.occupancy, work, (), (self.occupancy.cells_per_user,))


def _tally_residuals(
    pairs: Pairs,
    sums: Ints,
    _squares: Ints | None,
    cells_per_user: Ints,
    candidates: EvenPoints | ListedPoints,
) -> Ints:
    total, n = user_sums(pairs, sums)
    distances = np.abs(sums // pairs.n - (total // n)[pairs.user])
    votes = residual_votes(cells_per_user)[pairs.user]
    return np.asarray(tally_votes(distances, votes, candidates)[0])


def residual_votes(cells_per_user: Ints) -> Ints:
    """Return the votes of each distance of a user, shape (n_users,)."""
    # The residual of a user in one cell is 0 whatever it reports: it would only pull h down.
    return np.where(cells_per_user > 1, GRAIN // cells_per_user, 0).astype(np.int64)


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


def user_sums(pairs: Pairs, sums: Ints) -> tuple[Ints, Ints]:
    """Return the sum and the records of each user over all of its pairs. PRIVATE."""
    total, n = np.zeros((2, pairs.n_users), dtype=np.int64)
    # Not bincount: its weights are doubles, and a user's sum may exceed 2^53.
    np.add.at(total, pairs.user, sums)
    np.add.at(n, pairs.user, pairs.n)
    return total, n


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


def residual_quantile(
    occupancy: Occupancy,
    width: int,
    quantile: Fraction,
    epsilon: Fraction,
    name: str = "deviation",
) -> MapQuantiles:
    """Return the choice of a quantile of the residuals of user means, for a range of this width.

    Only users who were in two cells or more vote: for others there is nothing to compare. The loss
    is charged to all. No point is below 1.

    Parameters
    ----------
    occupancy : Occupancy
    width : int
        Width of the range in quanta.
    quantile : Fraction
        Share of all votes that is wanted at or below the point.
    epsilon : Fraction
        Loss of every user.
    """
    # A half width of 0 would leave the second stage without a noise scale.
    evenly = [max(width * k // RESIDUAL_POINTS, 1) for k in range(1, RESIDUAL_POINTS + 1)]
    cells = occupancy.cells_per_user
    user_votes = residual_votes(cells) * cells
    return MapQuantiles(
        name,
        UserResiduals(occupancy),
        ListedPoints(np.unique(evenly).astype(np.int64)),
        vote_targets(user_votes, (quantile,)),
        user_votes,
        selection_scale(GRAIN, epsilon),
    )


def vote_targets(votes: Ints | int, quantiles: tuple[Fraction, ...]) -> tuple[int, ...]:
    """Return the votes wanted at or below each quantile of these votes, rounded half up."""
    total = int(np.sum(votes))
    return tuple(int(total * quantile + Fraction(1, 2)) for quantile in quantiles)


def votes_of_users(occupancy: LocalOccupancy, votes: Ints) -> Ints:
    """Return the votes of each user, from those of each pair."""
    user_votes = np.zeros(occupancy.n_users, dtype=np.int64)
    np.add.at(user_votes, occupancy.user, votes)
    return user_votes
