"""Pseudo-users: how the samples of a cell are put into arrays of one length.

Source: IOT section III-A, Algorithms 1 (WRAPAROUND) and 2 (BESTFIT); RW appendix A.
Neighbours: one user's values all change; users and their counts are public, so a grouping is too.
Symbols: m samples per user, cap the length of an array (m_UB), Γ = min(m, cap) samples placed of
a user, K arrays, w(A) the filled places of an array.

Users are taken in non-increasing order of m, equal ones in the order given. A *piece* is what one
user has in one array: one piece per user under BESTFIT, at most two under WRAPAROUND, none for a
user whose samples all fall in WRAPAROUND's last, unfilled array, which is deleted.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError


@dataclass(frozen=True, eq=False)
class PseudoUsers:
    """Which samples share an array; public, for one cell.

    The mean of array i is Σ piece_share · (user's mean) over the pieces with piece_array == i.

    Attributes
    ----------
    cap : int
        Length of an array, in samples.
    n_arrays : int
        K, the arrays that are used.
    array_of_user : ndarray of int64, shape (n_users,)
        The array that holds the user's first sample; -1 if none of its samples is used. Under
        WRAPAROUND a user may continue in the next array: see the pieces.
    fill : ndarray of int64, shape (n_arrays,)
        Samples in each array.
    weights : ndarray of float, shape (n_users,)
        Weight of each user's mean in the average of the array means; they sum to one.
    piece_user, piece_array, piece_size : ndarray of int64, shape (n_pieces,)
        Who, where, and how many samples.
    """

    cap: int
    n_arrays: int
    array_of_user: Ints
    fill: Ints
    weights: Floats
    piece_user: Ints
    piece_array: Ints
    piece_size: Ints

    @property
    def piece_share(self) -> Floats:
        """Part of its array that each piece fills."""
        return np.asarray(self.piece_size / self.fill[self.piece_array], dtype=np.float64)

    def user_sensitivity(self, span: float, width: float | None = None) -> Floats:
        """Largest change of the average of array means when one user's values change, per user.

        U w without `width` (ERRATA 7: at most U/K, where IOT prints 2U/K for WRAPAROUND). If the
        array means are first projected to an interval of that width, Σ min(width, U share) / K
        over the user's pieces: at most min(2 width, U)/K, or width/K under BESTFIT. Exact.

        Parameters
        ----------
        span : float
            U, the width of the bounds, in value units.
        width : float, optional
            Width of the interval that array means are projected to; public or already released.

        Returns
        -------
        ndarray of float, shape (n_users,)
            In value units.

        Examples
        --------
        >>> wrap_around([3, 2, 1], 2).user_sensitivity(6.0).tolist()
        [3.0, 3.0, 0.0]
        """
        if width is None:
            return np.asarray(span * self.weights, dtype=np.float64)
        sensitivity = np.minimum(width, span * self.piece_share) / self.n_arrays
        return np.bincount(self.piece_user, sensitivity, self.weights.size).astype(np.float64)


def wrap_around(counts: ArrayLike, cap: int) -> PseudoUsers:
    """Return arrays filled one after another, a user's samples running over into the next.

    K = ⌊Σ min(m, cap) / cap⌋ full arrays (IOT eq. (3), Algorithm 1); the samples left over are
    not used.

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    cap : int
        Length of an array, at least 1.

    Raises
    ------
    InputError
        If a count or the cap is below 1, or the cap is so large that no array is filled.

    Examples
    --------
    >>> groups = wrap_around([3, 2, 2], 3)
    >>> groups.n_arrays, groups.array_of_user.tolist(), groups.piece_size.tolist()
    (2, [0, 1, 1], [3, 2, 1])
    """
    m, length = check_counts(counts), check_cap(cap)
    capped = np.minimum(m, length)
    n_arrays = int(capped.sum()) // length
    if not n_arrays:
        raise InputError(
            f"cap {length} is more than the cell's {int(m.sum())} samples, so that no array is "
            f"filled; use a cap of at most {int(m.max())}, the largest count."
        )
    order = np.argsort(-m, kind="stable")
    begin = np.empty_like(capped)
    begin[order] = np.cumsum(capped[order]) - capped[order]
    first_array, room = begin // length, length - begin % length
    user = np.arange(m.size)
    pieces = np.concatenate((user, user))
    arrays = np.concatenate((first_array, first_array + 1))
    sizes = np.concatenate((np.minimum(capped, room), np.maximum(capped - room, 0)))
    used = (sizes > 0) & (arrays < n_arrays)
    home = np.where(first_array < n_arrays, first_array, -1)
    return _grouping(length, n_arrays, home, (pieces[used], arrays[used], sizes[used]))


def best_fit(counts: ArrayLike, cap: int) -> PseudoUsers:
    """Return arrays in which each user's samples stay together.

    Each user in turn goes to the least-indexed of the fullest arrays that can take min(m, cap)
    samples (IOT Algorithm 2). Arrays are numbered in the order in which they are first used.

    Parameters
    ----------
    counts : array_like of int, shape (n_users,)
        Samples per user, each >= 1. Public.
    cap : int
        Length of an array, at least 1.

    Raises
    ------
    InputError
        If a count or the cap is below 1.

    Examples
    --------
    >>> groups = best_fit([1, 5, 2, 1], 3)
    >>> groups.n_arrays, groups.array_of_user.tolist(), groups.fill.tolist()
    (3, [1, 0, 1, 2], [3, 3, 1])
    """
    m, length = check_counts(counts), check_cap(cap)
    capped = np.minimum(m, length)
    order, home = np.argsort(-m, kind="stable"), np.empty_like(capped)
    home[order] = arrays = _place(capped[order].tolist(), length)
    n_arrays = max(arrays) + 1
    return _grouping(length, n_arrays, home, (np.arange(m.size), home, capped))


def check_cap(cap: int) -> int:
    """Return the cap as an int; raise InputError unless it is a whole number of at least 1."""
    if isinstance(cap, bool) or not isinstance(cap, (int, np.integer)) or cap < 1:
        raise InputError(f"cap must be a whole number of at least 1, got {cap!r}.")
    return int(cap)


def _grouping(cap: int, n_arrays: int, home: Ints, pieces: tuple[Ints, Ints, Ints]) -> PseudoUsers:
    """Return the grouping, with fill and weights worked out from its pieces."""
    user, array, size = pieces
    fill = np.bincount(array, weights=size, minlength=n_arrays).astype(np.int64)
    piece_share = size / (n_arrays * fill)[array]
    weights = np.bincount(user, piece_share, home.size).astype(np.float64)
    return PseudoUsers(cap, n_arrays, home, fill, weights, user, array, size)


def _place(sizes: list[int], cap: int) -> list[int]:
    """Return the array of each user, of descending sizes."""
    rooms: list[tuple[int, int]] = []  # free room and number of each open array, ascending
    home, n_arrays = [], 0
    for size in sizes:
        place = bisect_left(rooms, (size, 0))
        if place < len(rooms):
            room, array = rooms.pop(place)
        else:
            room, array, n_arrays = cap, n_arrays, n_arrays + 1
        home.append(array)
        if room > size:
            insort(rooms, (room - size, array))
    return home
