"""Half of a range that holds most distances from users' own means, found privately.

Only users who were in two cells or more count: for others there is nothing to compare. Of a user in
C cells every (cell, user) mean counts V = floor(GRAIN / C); its distance is that from the user's
own mean, both in whole quanta, rounded down. The points are evenly spaced up to the width of the
interval, and none is below 1. Each point's cost is |Σ V over the pairs at or below it - the
target|; the point of least cost is chosen by the vetted noisy max (permute-and-flip).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts stay. Then only this user's distances change, all of them at once, and Σ V at or below a
point changes by at most GRAIN; so does every cost.
Loss: noisy max of scale R at an L∞ distance of d costs at most 2 d / R (mechanisms/noise.py); R is
2 GRAIN / ε rounded up: ε for every user. It is charged to all, those who do not count too.
The points depend on the interval, which is noisy and public by then.
Source: mechanisms/range_quantiles.py; ERRATA 12 for costs and scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import round_up
from hexveil.mechanisms import noise
from hexveil.mechanisms.range_quantiles import GRAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.records import Dataset

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

POINTS = 128
"""Points that can be chosen, at most."""


@dataclass(frozen=True, eq=False)
class Measure:
    """The public side of the choice.

    Attributes
    ----------
    points : ndarray of int64, shape (n_points,)
        In quanta, ascending.
    vote : ndarray of int64, shape (n_pairs,)
        V of each pair; 0 for users in one cell.
    target : int
        Σ V that is wanted at or below the point.
    scale : float
        Of the noisy max.
    """

    points: Ints
    vote: Ints
    target: int
    scale: float


def measure(occupancy: Occupancy, width: int, inside: Fraction, epsilon: Fraction) -> Measure:
    """Return what is chosen from, and at which scale, from public facts.

    Parameters
    ----------
    occupancy : Occupancy
    width : int
        Of the interval, in quanta.
    inside : Fraction
        Share of all that counts that is wanted at or below the point.
    epsilon : Fraction
        What the choice costs every user.
    """
    evenly = [max(width * k // POINTS, 1) for k in range(1, POINTS + 1)]
    points = np.unique(evenly).astype(np.int64)
    cells = occupancy.cells_per_user[occupancy.user]
    vote = np.where(cells > 1, GRAIN // cells, 0).astype(np.int64)
    target = int(int(vote.sum()) * inside + Fraction(1, 2))
    return Measure(points, vote, target, round_up(2 * GRAIN / epsilon))


def own_means(dataset: Dataset) -> tuple[Ints, Ints]:
    """Return each user's sum and number of records over all its cells. PRIVATE."""
    occupancy = dataset.occupancy
    total, n = (np.zeros(occupancy.n_users, dtype=np.int64) for _ in range(2))
    np.add.at(total, occupancy.user, dataset.sums.total)
    np.add.at(n, occupancy.user, occupancy.n)
    return total, n


def costs(dataset: Dataset, asked: Measure) -> Ints:
    """Return the costs of the points. PRIVATE.

    Privacy
    -------
    They leave only through the noise door. One user moves each by at most GRAIN.
    """
    occupancy = dataset.occupancy
    total, n = own_means(dataset)
    away = np.abs(dataset.sums.total // occupancy.n - (total // n)[occupancy.user])
    place = np.searchsorted(asked.points, away)
    at = np.zeros(asked.points.size + 1, dtype=np.int64)
    np.add.at(at, place, asked.vote)
    return np.asarray(np.abs(np.cumsum(at)[:-1] - asked.target))


def losses(occupancy: Occupancy, asked: Measure) -> Floats:
    """Return what each user loses by the choice: it moves every cost by Σ V at most."""
    moved = np.bincount(occupancy.user, weights=asked.vote, minlength=occupancy.n_users)
    return np.asarray(2.0 * moved / asked.scale)


def prepare(dataset: Dataset, asked: Measure) -> Callable[[], int]:
    """Return the draw of the point, in quanta. PRIVATE: values leave by it, through noise."""
    scores = -costs(dataset, asked)
    return lambda: int(asked.points[noise.noisy_max(scores, asked.scale)])
