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
from typing import TYPE_CHECKING

import numpy as np

from hexveil.model.occupancy import LocalOccupancy

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def user_features(occupancy: LocalOccupancy) -> Floats:
    """Return each user as a point: where it reports, and how much; shape (n_users, directions)."""
    records = records_per_user(occupancy)
    feature = occupancy.n / records[occupancy.user]
    # Few cells are their own directions: projections would only add error.
    if occupancy.n_cells <= MAX_DIRECTIONS:
        is_used = np.zeros((occupancy.n_users, occupancy.n_cells))
        is_used[occupancy.user, occupancy.cell] = feature
    else:
        is_used = _directions(occupancy, feature)
    return np.column_stack((SHARE_WEIGHT * is_used, SIZE_WEIGHT * np.log2(records)))


def _directions(occupancy: LocalOccupancy, part: Floats) -> Floats:
    """Return the shares in fixed random directions, which keep distances nearly (Achlioptas)."""
    # A fixed seed: a plan must not differ from run to run, or it would be paid twice.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (occupancy.n_cells, MAX_DIRECTIONS))
    directions = np.empty((occupancy.n_users, MAX_DIRECTIONS))
    for column in range(MAX_DIRECTIONS):
        directions[:, column] = np.bincount(
            occupancy.user, part * signs[occupancy.cell, column], occupancy.n_users
        )
    return directions / math.sqrt(MAX_DIRECTIONS)


def cluster_users(occupancy: LocalOccupancy, points: Floats, classes: int) -> UserClusters:
    """Return users in at most so many classes of those who are alike.

    Parameters
    ----------
    occupancy : LocalOccupancy
    points : ndarray of float, shape (n_users, directions)
        By `user_features`.
    classes : int

    Examples
    --------
    >>> two = LocalOccupancy.from_dense([[9, 0]] * MIN_CLUSTER_USERS + [[0, 9]] * MIN_CLUSTER_USERS)
    >>> np.bincount(cluster_users(two, user_features(two), 2).labels)
    array([10, 10])
    """
    clusters = _nearest(points, min(classes, len(points)))
    return clusters_from_labels(
        occupancy, np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    )


def clusters_from_labels(occupancy: LocalOccupancy, of: Ints) -> UserClusters:
    """Return clusters from each user's cluster number."""
    users = np.arange(occupancy.n_users)
    # Sorted by cluster, then user, as every occupancy is.
    order = np.lexsort((users, of))
    number = int(of.max()) + 1
    merged = LocalOccupancy(
        of[order], users[order], records_per_user(occupancy)[order], number, users.size
    )
    position = occupancy.cell * number + of[occupancy.user]
    counted = np.bincount(position, occupancy.n, occupancy.n_cells * number)
    share = counted.reshape(-1, number) / occupancy.records_per_cell[:, None]
    return UserClusters(of, merged, share)


def records_per_user(occupancy: LocalOccupancy) -> Ints:
    """Return the records of each user."""
    counted = np.bincount(occupancy.user, occupancy.n, occupancy.n_users)
    return np.asarray(counted, dtype=np.int64)


def _nearest(points: Floats, classes: int) -> Ints:
    """Return each point's class by k-means, the closest of a few beginnings."""
    from scipy.cluster import vq  # noqa: PLC0415  slow to import

    sample = points
    if len(points) > SAMPLED_USERS:
        # A sample finds the centres nearly as well, and k-means is linear in the points.
        nearest = np.random.default_rng(0).choice(len(points), SAMPLED_USERS, replace=False)
        sample = points[nearest]
    best, smallest = None, math.inf
    for seed in SEEDS:
        begin = _apart(sample, classes, np.random.default_rng(seed))
        with warnings.catch_warnings():
            # A class may lose all its points: it is small, and taken out.
            warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
            middles, _ = vq.kmeans2(sample, begin, iter=PASSES, minit="matrix", missing="warn")
        middles = _without_small(sample, middles, MIN_CLUSTER_USERS * len(sample) / len(points))
        _, distance = vq.vq(sample, middles)
        off = float((distance**2).sum())
        if best is None or off < smallest:
            best, smallest = middles, off
    assert best is not None  # noqa: S101  there are seeds
    return np.asarray(vq.vq(points, best)[0], dtype=np.int64)


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
