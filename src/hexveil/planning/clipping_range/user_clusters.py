"""Clusters of users with similar reports, and the cost of publishing each cluster's mean.

Users' own means differ, and those who report much differ from those who report little; a cell's
mean is off by that if heavy users are weighed down. Means of classes of users mend it: each user is
in one class, so that all classes together cost what one cell would. Classes are made from public
counts alone: from the share of each user's records in each cell (reduced to `MAX_DIRECTIONS`
directions where there are more cells), and from how many records it has. Users are put together by
k-means. The scales of both were chosen on flights.

What K classes leave unsaid is not to be known from counts. A stated prior says it: user means have
a standard deviation τ, and what a cell's mix of users within its classes makes it off by is τ/√K on
average. On the four sets it was looked at (flights, Surat, Warsaw at two resolutions) it was 0.7 to
1.2 times that for 17 to 190 classes.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.model.distributed_occupancy import Partition
from hexveil.model.occupancy import LocalOccupancy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy, Pairs

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MAX_DIRECTIONS = 64
"""Directions in which users' shares are compared."""
SHARE_WEIGHT, SIZE_WEIGHT = 8.0, 0.5
"""How much a share of 1, and twice as many records, count as distance."""
MIN_CLUSTER_USERS = 10
"""Users of a class; the users of smaller ones go to the nearest others. Little would be known of
them but noise."""
SAMPLED_USERS = 20_000
"""Users by which the middles of classes are found; all are then put to the nearest."""
SEEDS = (1, 2, 3)
"""K-means begins at these; the closest classes are kept."""
PASSES = 25
NEAREST_AT_ONCE = 2**14
"""Users whose distances from all middles are in memory together."""


@dataclass(frozen=True, eq=False)
class UserClusters:
    """Classes of users as an occupancy of their own: a class is a cell, a user is in one.

    Attributes
    ----------
    labels : ndarray of int64, shape (n_users,)
        The class of each user.
    occupancy : LocalOccupancy
        Of classes and users; the counts are the users' records.
    share : ndarray of float, shape (n_cells, n_classes)
        The part of each cell's records that is of each class.
    """

    labels: Ints
    occupancy: LocalOccupancy
    share: Floats


def user_features(pairs: Pairs, records: Ints) -> Floats:
    """Return each user as a point: where it reports, and how much; shape (n_users, directions).

    Parameters
    ----------
    pairs : Pairs
        All pairs of some users.
    records : ndarray of int64, shape (n_users,)
        Records of each of these users.
    """
    feature = pairs.n / records[pairs.user]
    # Few cells are their own directions: projections would only add error.
    if pairs.n_cells <= MAX_DIRECTIONS:
        is_used = np.zeros((pairs.n_users, pairs.n_cells))
        is_used[pairs.user, pairs.cell] = feature
    else:
        is_used = _directions(pairs, feature)
    return np.column_stack((SHARE_WEIGHT * is_used, SIZE_WEIGHT * np.log2(records)))


def _directions(pairs: Pairs, part: Floats) -> Floats:
    """Return the shares in fixed random directions, which keep distances nearly (Achlioptas)."""
    # A fixed seed: a plan must not differ from run to run, or it would be paid twice.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (pairs.n_cells, MAX_DIRECTIONS))
    directions = np.empty((pairs.n_users, MAX_DIRECTIONS))
    for column in range(MAX_DIRECTIONS):
        directions[:, column] = np.bincount(
            pairs.user, part * signs[pairs.cell, column], pairs.n_users
        )
    return directions / math.sqrt(MAX_DIRECTIONS)


def cluster_labels(occupancy: Occupancy, numbers: Sequence[int]) -> list[Ints]:
    """Return each user's class, for at most so many classes of users who are alike.

    Points of a sample of users are fetched; where there are more users, each is put to the nearest
    class where its pairs are.

    Parameters
    ----------
    occupancy : Occupancy
    numbers : sequence of int
        Of classes; tried one after another.

    Examples
    --------
    >>> two = LocalOccupancy.from_dense([[9, 0]] * MIN_CLUSTER_USERS + [[0, 9]] * MIN_CLUSTER_USERS)
    >>> np.bincount(cluster_labels(two, [2])[0])
    array([10, 10])
    """
    users, records = occupancy.n_users, occupancy.records_per_user
    sampled = _sampled_users(users)
    is_sampled = np.zeros(users, dtype=bool)
    is_sampled[sampled] = True
    points = occupancy.map_users(_sampled_features, users=(records, is_sampled))
    sample = points[np.searchsorted(np.flatnonzero(is_sampled), sampled)]
    middles = [_middles(sample, min(number, users), users) for number in numbers]
    if len(sample) == users:
        classes = _nearest_of_points(sample, middles)
    else:
        nearest = partial(_nearest_of_users, middles=middles)
        classes = occupancy.map_users(nearest, users=(records,))
    return [
        np.unique(column, return_inverse=True)[1].astype(np.int64)
        for column in np.ascontiguousarray(classes.T)
    ]


def _sampled_users(users: int) -> Ints:
    """Return the users by which middles are found, in the order in which k-means gets them."""
    if users <= SAMPLED_USERS:
        return np.arange(users)
    # A sample finds the centres nearly as well, and k-means is linear in the points.
    return np.random.default_rng(0).choice(users, SAMPLED_USERS, replace=False)


def _sampled_features(pairs: Pairs, records: Ints, is_sampled: NDArray[np.bool_]) -> Floats:
    """Return the points of the sampled users among those of some pairs, in their order."""
    number, rows = np.cumsum(is_sampled) - 1, np.flatnonzero(is_sampled[pairs.user])
    # Without the others, whose points would take most of the time and the memory.
    cell, user, n = pairs.cell[rows], number[pairs.user[rows]], pairs.n[rows]
    own = Partition("users", 0, cell, user, n, pairs.n_cells, int(np.count_nonzero(is_sampled)))
    return user_features(own, records[is_sampled])


def _nearest_of_users(pairs: Pairs, records: Ints, middles: Sequence[Floats]) -> Ints:
    """Return each user's class for each list of middles, shape (n_users, n_lists)."""
    return _nearest_of_points(user_features(pairs, records), middles)


def _nearest_of_points(points: Floats, middles: Sequence[Floats]) -> Ints:
    from scipy.cluster import vq  # noqa: PLC0415  slow to import

    # A few at once: a table of all distances would be far larger than the points.
    runs = [
        points[start : start + NEAREST_AT_ONCE] for start in range(0, len(points), NEAREST_AT_ONCE)
    ]
    columns = [np.concatenate([vq.vq(run, some)[0] for run in runs]) for some in middles]
    return np.column_stack(columns).astype(np.int64)


def clusters_from_labels(occupancy: Occupancy, of: Ints) -> UserClusters:
    """Return clusters from each user's cluster number."""
    users = np.arange(occupancy.n_users)
    # Sorted by cluster, then user, as every occupancy is.
    order = np.lexsort((users, of))
    number = int(of.max()) + 1
    records = occupancy.records_per_user[order]
    merged = LocalOccupancy(of[order], users[order], records, number, users.size)
    cells = (occupancy.records_per_cell,)
    share = occupancy.map_cells(partial(_cluster_shares, number=number), cells, (of,))
    return UserClusters(of, merged, share)


def _cluster_shares(pairs: Pairs, records: Ints, of: Ints, number: int) -> Floats:
    """Return the part of each cell's records that is of each cluster."""
    position = pairs.cell * number + of[pairs.user]
    counted = np.bincount(position, pairs.n, pairs.n_cells * number)
    return np.asarray(counted.reshape(-1, number) / records[:, None])


def _middles(sample: Floats, classes: int, users: int) -> Floats:
    """Return the middles of classes by k-means of a sample, the closest of a few beginnings."""
    from scipy.cluster import vq  # noqa: PLC0415  slow to import

    best, smallest = None, math.inf
    for seed in SEEDS:
        begin = _apart(sample, classes, np.random.default_rng(seed))
        with warnings.catch_warnings():
            # A class may lose all its points: it is small, and taken out.
            warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
            middles, _ = vq.kmeans2(sample, begin, iter=PASSES, minit="matrix", missing="warn")
        middles = _without_small(sample, middles, MIN_CLUSTER_USERS * len(sample) / users)
        _, distance = vq.vq(sample, middles)
        off = float((distance**2).sum())
        if best is None or off < smallest:
            best, smallest = middles, off
    assert best is not None  # noqa: S101  there are seeds
    return best


def _without_small(points: Floats, middles: Floats, fewest: float) -> Floats:
    """Return the middles but for those of few points, the smallest taken out first."""
    from scipy.cluster import vq  # noqa: PLC0415  slow to import

    while len(middles) > 1:
        size = np.bincount(vq.vq(points, middles)[0], minlength=len(middles))
        if size.min() >= fewest:
            break
        middles = np.delete(middles, np.argmin(size), axis=0)
    return middles


def _apart(points: Floats, number: int, dice: np.random.Generator) -> Floats:
    """Return points to begin with, each drawn by its squared distance from those before."""
    chosen = [int(dice.integers(len(points)))]
    squared_distance = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < number and squared_distance.max() > 0:
        chosen.append(int(dice.choice(len(points), p=squared_distance / squared_distance.sum())))
        squared_distance = np.minimum(
            squared_distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1)
        )
    return np.asarray(points[chosen])
