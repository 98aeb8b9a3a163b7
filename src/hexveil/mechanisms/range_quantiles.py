"""One private interval for the whole map: two quantiles of user means, each user counted once.

Of a user in C cells every (cell, user) mean counts V = floor(GRAIN / C), so that a user counts at
most GRAIN in all, however many cells it is in. The points are whole quanta, evenly spaced over the
bounds of the records. Each point's cost is |Σ V over the pairs whose mean is at or below it - the
target|; the point of least cost is chosen by the vetted noisy max (permute-and-flip), once for
each end.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts stay. Then Σ V at or below a point changes by at most GRAIN, and so does every cost. They
do not all move one way: the library's monotonic distance is not asked for (ERRATA 12).
Loss: noisy max of scale R at an L∞ distance of d costs at most 2 d / R (mechanisms/noise.py). R is
2 GRAIN / (ε/2), rounded up, for each of the two choices: ε in all, for every user of the map.
Where the lower end does not come out below the upper one, the interval is all of the bounds.
Means are compared exactly: s / m <= point as s <= point m, in whole numbers.
Source: IOT section III-E for quantiles; ERRATA 12 for costs and scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import round_up
from hexveil.mechanisms import noise
from hexveil.model.occupancy import BLOCK_PAIRS
from hexveil.planning.clipping_range.private_range import widened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.records import Dataset

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

GRAIN = 2**20
"""What a user counts in all, at most."""
POINTS = 256
"""Points that can be chosen, at most."""
COUNTED = 2**20
"""Up to so many quanta each is counted by itself, which is quicker than looking for its point."""


@dataclass(frozen=True, eq=False)
class Ballot:
    """The public side of a choice.

    Attributes
    ----------
    points : ndarray of int64, shape (n_points,)
        In quanta above the lower bound of the records, ascending.
    vote : ndarray of int64, shape (n_pairs,)
        V of each pair.
    targets : tuple of int
        Σ V that is wanted at or below each end.
    scale : float
        Of the noisy max.
    """

    points: Ints
    vote: Ints
    targets: tuple[int, int]
    scale: float


def ballot(
    facts: PublicMetadata, quantiles: tuple[Fraction, Fraction], epsilon: Fraction
) -> Ballot:
    """Return what is chosen from, and at which scale, from public facts.

    Parameters
    ----------
    facts : PublicMetadata
    quantiles : pair of Fraction
        Shares of all that counts that are wanted at or below each end.
    epsilon : Fraction
        What both choices cost every user together.
    """
    steps = facts.lattice.span_quanta
    number = min(steps, POINTS)
    points = np.array([steps * k // number for k in range(number + 1)], dtype=np.int64)
    vote = GRAIN // facts.occupancy.cells_per_user[facts.occupancy.user]
    total = int(vote.sum())
    low, high = (int(total * one + Fraction(1, 2)) for one in quantiles)
    return Ballot(points, vote.astype(np.int64), (low, high), round_up(4 * GRAIN / epsilon))


def costs(dataset: Dataset, asked: Ballot) -> tuple[Ints, Ints]:
    """Return the costs of the points for the lower and for the upper end. PRIVATE.

    Privacy
    -------
    They leave only through the noise door. One user moves each by at most GRAIN.
    """
    n, total, most = dataset.occupancy.n, dataset.sums.total, int(asked.points[-1])
    at = np.zeros(most + 1 if most <= COUNTED else asked.points.size, dtype=np.int64)
    for first in range(0, n.size, BLOCK_PAIRS):
        some = slice(first, first + BLOCK_PAIRS)
        # A point m >= s is one that is not below the mean of the pair, rounded up.
        place = -(-total[some] // n[some])
        if most > COUNTED:
            place = np.searchsorted(asked.points, place)
        np.add.at(at, place, asked.vote[some])
    below = np.cumsum(at)
    below = below[asked.points] if most <= COUNTED else below
    low, high = (np.abs(below - target) for target in asked.targets)
    return low, high


def losses(occupancy: Occupancy, asked: Ballot) -> Floats:
    """Return what each user loses by both choices: it moves every cost by Σ V at most."""
    moved = np.bincount(occupancy.user, weights=asked.vote, minlength=occupancy.n_users)
    return np.asarray(4.0 * moved / asked.scale)


def prepare(dataset: Dataset, asked: Ballot) -> Callable[[], Ints]:
    """Return the draw of the numbers of both points. PRIVATE: values leave by it, through noise."""
    both = costs(dataset, asked)

    def draw() -> Ints:
        chosen = [noise.noisy_max(-cost, asked.scale) for cost in both]
        return np.array(chosen, dtype=np.int64)

    return draw


def interval(
    chosen: Sequence[int] | Ints, asked: Ballot, steps: int, stretch: Fraction = Fraction(1)
) -> tuple[int, int]:
    """Return the ends in quanta above the lower bound of the records; all of the bounds if empty.

    The interval is made wider around its middle by `stretch`, within the bounds: a function of
    what was chosen, and of public facts.

    Examples
    --------
    >>> points = np.array([0, 5, 10])
    >>> asked = Ballot(points, np.array([1]), (0, 1), 1.0)
    >>> interval([0, 1], asked, 10), interval([2, 1], asked, 10)
    ((0, 5), (0, 10))
    >>> interval([0, 1], asked, 10, Fraction(2))
    (0, 8)
    """
    low, high = (int(asked.points[k]) for k in chosen)
    if low >= high:
        return 0, steps
    return widened((low, high), steps, stretch)
