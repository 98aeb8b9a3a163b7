"""Private quantiles over all (cell, user) pairs of a map, such as of distances within cells.

The proof is that of mechanisms/private_quantile.py: all pairs of a user have at most PARTS votes
together, so that it moves every cost by at most so many, however many cells it is in. Points are
whole quanta. Means are compared exactly: s / m <= point as ceil(s / m) <= point, in integers.

Loss: a choice has scale 2 PARTS / ε', rounded up, so that it costs each user at most ε'; it is
charged to all users of the map, those who do not vote too.
Source: IOT section III-E for quantiles; ERRATA 12 for costs and scale.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hexveil.base.arrays import Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import (
    DrawnRow,
    NoiseRequest,
    NoisyMax,
    Outputs,
    PrivateSums,
    Scores,
    SensitivityReport,
    Separate,
)
from hexveil.mechanisms.pooled_histogram import VotedValues
from hexveil.mechanisms.private_quantile import ListedPoints, RankCost
from hexveil.model.occupancy import Pairs


def rounded_means(pairs: Pairs, sums: Ints) -> Ints:
    """Return the mean of each pair, rounded up: no point lies between it and the mean. PRIVATE."""
    # Points are whole, so that s / m <= point exactly if ceil(s / m) <= point.
    return np.asarray(-(-sums // pairs.n))


def tally_votes(values: Ints, votes: Ints, candidates: ListedPoints) -> Ints:
    """Return the votes of each place among a block's values, shape (1, n_candidates + 1). PRIVATE.

    One row per block: rows of all blocks are added up on the driver.
    """
    tally = np.zeros((1, candidates.size + 1), dtype=np.int64)
    np.add.at(tally[0], candidates.places(values[None])[0], votes)
    return tally


@dataclass(frozen=True, eq=False)
class MapQuantiles(ReadOnlyArrays, DrawnRow):
    """Choices among values of all pairs of a map, in which no user has more votes than another.

    Attributes
    ----------
    name : str
    reading : VotedValues
    candidates : ListedPoints
    targets : tuple of int
        Votes that are wanted at or below each point.
    user_votes : ndarray of int64, shape (n_users,)
        Votes of each user.
    scale : float
        Of every choice.
    """

    name: str
    reading: VotedValues
    candidates: ListedPoints
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


def vote_targets(votes: Ints | int, quantiles: tuple[Fraction, ...]) -> tuple[int, ...]:
    """Return the votes wanted at or below each quantile of these votes, rounded half up."""
    total = int(np.sum(votes))
    return tuple(int(total * quantile + Fraction(1, 2)) for quantile in quantiles)
