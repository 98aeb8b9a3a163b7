"""Private choice of a point by weighted ranks: quantiles, medians and ranges, with one proof.

Value i has the public whole weight V_i, its votes, and takes a place among public candidates
0, 1, ..., C - 1, or beyond all of them. Let F(j) be the votes of values with a place of at most j.
Candidate j costs

    |F(j) - t|                         for a rank: t votes are wanted at or below the point,
    max(F(j - 1), F(C) - F(j))         for a middle: as many votes below the bin as above it,

and permute-and-flip (the vetted noisy max) chooses one of low cost. Costs are integers.

Neighbours: one user's values all change within the bounds; users, counts and votes are public.
Sensitivity: let a user's values have d votes together. Whatever they become, F(j) stays between
the votes of all other values at or below j and d more; so each F(j) moves by at most d, and F(C)
does not move. |x - t| moves no more than x, and a larger of two numbers no more than both. So every
cost moves by at most d.
Loss: 2 d/scale for each choice (permute-and-flip, ERRATA 12). Some costs rise while others fall, so
the library's "monotonic" distance is never asked for. The scale is 2 d*/ε rounded up, d* a public
bound on all d and ε the loss of one choice: ε for the most exposed user.
Source: IOT sections III-D and III-E; ERRATA 11 (middle) and 12 (rank). A run of candidates between
two values weighs as much as it has candidates, as in the papers' continuous form.

Nothing here depends on how places were computed from values: only that a user's values have d votes
is used. The values themselves come from a `Reading`, which names the users who move each.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, round_up, to_fraction
from hexveil.mechanisms.contract import DrawnRow
from hexveil.mechanisms.sensitivity_report import NoiseRequest, NoisyMax, Separate
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Reading, Scores

ROUND_UP = 1.0 + 2.0**-48
"""Covers the rounding of a loss computed by a few double operations."""


def selection_scale(votes: int, epsilon: Fraction) -> float:
    """Return the scale at which permute-and-flip loses at most ε: 2 votes/ε, rounded up.

    Examples
    --------
    >>> selection_scale(1, Fraction(1, 2)), selection_scale(2, Fraction(1, 2))
    (4.0, 8.0)
    """
    return round_up(Fraction(2 * votes) / epsilon)


# ---- candidates ----


@dataclass(frozen=True)
class EvenPoints:
    """Points floor(top j/steps) for j = 0, ..., steps, in quanta; a value counts at or below one.

    Attributes
    ----------
    top : int
        The last point.
    steps : int
        At most `top`, so that points differ.
    grain : int
        Values are in parts of 1/grain of a quantum.
    """

    top: int
    steps: int
    grain: int = 1

    @property
    def size(self) -> int:
        """Number of points."""
        return self.steps + 1

    def points(self, selected: Ints) -> Ints:
        """Return the points of these numbers, in quanta."""
        return np.asarray(self.top * selected // self.steps)

    def places(self, values: Ints) -> Ints:
        """Return the first point that is not below each value. PRIVATE.

        A point is whole, so it is not below v/grain if it is not below the whole number k above
        that; and floor(top j/steps) >= k if and only if j >= k steps/top.

        Examples
        --------
        >>> EvenPoints(10, 4).places(np.array([0, 2, 3, 10])).tolist()  # points 0, 2, 5, 7, 10
        [0, 1, 2, 4]
        """
        quanta = -(-values // self.grain) if self.grain > 1 else values
        return np.asarray(-(-quanta * self.steps // self.top))


@dataclass(frozen=True)
class EvenBins:
    """Bins of equal width that cover [0, top], in quanta; a value lies in one of them."""

    top: int
    size: int
    grain: int = 1

    def places(self, values: Ints) -> Ints:
        """Return the bin of each value; the top lies in the last one. PRIVATE."""
        bins = values * self.size // (self.grain * self.top)
        return np.asarray(np.minimum(bins, self.size - 1))

    def double_middles(self, selected: Ints) -> Ints:
        """Return twice the middles of these bins, in quanta, rounded down.

        Examples
        --------
        >>> EvenBins(10, 3).double_middles(np.arange(3)).tolist()  # 5/3, 5, 25/3
        [3, 10, 16]
        """
        return np.asarray(self.top * (2 * selected + 1) // self.size)


Candidates: TypeAlias = EvenPoints | EvenBins
"""Public candidates, and the place that a value takes among them."""


# ---- costs ----


@dataclass(frozen=True)
class RankCost:
    """|votes at or below the candidate - target|."""

    target: int

    def costs(self, cumulative: Ints) -> Ints:
        """Return the costs, for votes at or below each candidate and, at last, all votes."""
        return np.asarray(np.abs(cumulative[:, :-1] - self.target))


@dataclass(frozen=True)
class MiddleCost:
    """The larger of the votes below a candidate and the votes above it."""

    def costs(self, cumulative: Ints) -> Ints:
        """Return the costs, for votes at or below each candidate and, at last, all votes."""
        up_to, total = cumulative[:, :-1], cumulative[:, -1:]
        below = np.concatenate((np.zeros_like(total), up_to[:, :-1]), axis=1)
        return np.asarray(np.maximum(below, total - up_to))


Cost: TypeAlias = RankCost | MiddleCost


# ---- the stage ----


@dataclass(frozen=True, eq=False)
class PrivateQuantile(DrawnRow):
    """One or more choices among the same candidates, drawn together; see the module's head.

    Attributes
    ----------
    name : str
        Of its row, which holds the number of the candidate chosen by each cost.
    reading : Reading
        The values.
    candidates : Candidates
    costs : tuple of RankCost or MiddleCost
        A choice each.
    user_votes : ndarray of int64, shape (n_users,)
        Votes of the values that each user can move.
    scale : float
        Of every choice, see `selection_scale`.
    """

    name: str
    reading: Reading
    candidates: Candidates
    costs: tuple[Cost, ...]
    user_votes: Ints
    scale: float

    @property
    def entries(self) -> int:
        """One number per choice."""
        return len(self.costs)

    def losses(self) -> Floats:
        """Return each user's loss, whatever is chosen; rounded up."""
        each = Separate.of_one_entry(self.user_votes).loss_upper_bound(NoisyMax(self.scale))
        return np.asarray(self.entries * each)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return a permute-and-flip per choice."""
        return (NoisyMax(self.scale),) * self.entries

    def sensitivity(self, earlier: Outputs) -> tuple[Separate, ...]:  # noqa: ARG002
        """Return that a user moves every cost by at most its votes."""
        return (Separate.of_one_entry(self.user_votes),) * self.entries

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Scores, ...]:  # noqa: ARG002
        """Return the scores of the candidates. PRIVATE."""
        places = self.candidates.places(sums.read(self.reading))
        if places.shape[1] < self.candidates.size:
            targets = [cost.target for cost in self.costs if isinstance(cost, RankCost)]
            if len(targets) == self.entries:
                return self._runs(places, targets)
        return self.scores(places)

    def scores(self, places: Ints) -> tuple[Scores, ...]:
        """Return the scores of values at these candidates, a candidate each. PRIVATE."""
        width = self.candidates.size + 1
        bins = (places + width * np.arange(len(places))[:, None]).ravel()
        tally = np.bincount(bins, minlength=width * len(places))
        cumulative = np.cumsum(tally.reshape(len(places), width), axis=1)
        ones = np.ones((1, self.candidates.size), dtype=np.int64)
        return tuple(Scores(-cost.costs(cumulative), ones) for cost in self.costs)

    def _runs(self, places: Ints, targets: list[int]) -> tuple[Scores, ...]:
        """Return the same scores of few values: runs of candidates between two neighbours."""
        n = places.shape[1]
        begin = np.zeros((len(places), n + 2), dtype=np.int64)
        begin[:, 1:-1] = np.sort(places, axis=1)
        begin[:, -1] = self.candidates.size
        sizes = np.diff(begin, axis=1)
        ranks = np.arange(n + 1)
        return tuple(Scores(-np.abs(ranks - target)[None], sizes) for target in targets)


# ---- arguments of mechanisms with private choices ----

CANDIDATES = 4096
"""Steps of a grid of points unless another number is asked for: finer changes no error visibly."""


def check_candidates(candidates: int) -> int:
    """Return the steps of a grid; raise InputError unless a whole number of at least 1."""
    if isinstance(candidates, bool) or not isinstance(candidates, int) or candidates < 1:
        raise InputError(f"candidates must be a whole number of at least 1, got {candidates!r}.")
    return candidates


def check_split(split: Number) -> Fraction:
    """Return a share of ε; raise InputError unless it lies strictly between 0 and 1."""
    share = to_fraction(split, "split")
    if not 0 < share < 1:
        raise InputError(f"split must lie between 0 and 1, got {share}.")
    return share
