"""Repeats of a user and time among records that are whole numbers: found by sorting, exactly.

Which record stays is what `records.duckdb.aggregation` says: the one of smallest place, on a tie
the one of smallest value. It depends on the values of this user alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Whole = NDArray[np.int64]
    Numbers = NDArray[np.uint64]
    Flags = NDArray[np.bool_]

MICROSECONDS = 10**6
_BITS = 64
_SPARE_BITS = 4
"""So many more bits has the place in a table of numbers than there are numbers."""
_SPREADING = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: multiplied by it, the highest bits depend on all lower ones."""


def user_times(users: Sequence[Whole], times: Sequence[Whole]) -> list[Numbers] | None:
    """Return one number for each user and time; None if 64 bits do not hold it.

    Parameters
    ----------
    users : sequence of ndarray of int
        Numbers of users, part by part.
    times : sequence of ndarray of int64
        Microseconds since 1970, at least 0.
    """
    first = min(int(part.min()) for part in times)
    # Most clocks tell whole seconds, which take 20 bits less.
    whole = all(not (part % MICROSECONDS).any() for part in times)
    step = MICROSECONDS if whole else 1
    first -= first % step
    bits = ((max(int(part.max()) for part in times) - first) // step).bit_length()
    if bits + max(int(part.max()) for part in users).bit_length() > _BITS:
        return None
    return [
        (user.astype(np.uint64) << np.uint64(bits)) | ((time - first) // step).astype(np.uint64)
        for user, time in zip(users, times, strict=True)
    ]


def repeated_numbers(parts: Sequence[Numbers]) -> Numbers:
    """Return the numbers that occur more than once, in order.

    Examples
    --------
    >>> repeated_numbers([np.array([5, 1], np.uint64), np.array([3, 5, 5], np.uint64)])
    array([5], dtype=uint64)
    """
    ordered = np.concatenate(parts)
    ordered.sort()
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def without_repeats(
    keys: Sequence[Numbers], places: Sequence[tuple[NDArray[np.generic], ...]]
) -> tuple[list[Flags] | None, int]:
    """Return which records of each part stay, None if all do, and how many do not.

    Parameters
    ----------
    keys : sequence of ndarray of uint64
        One number for each user and time, part by part.
    places : sequence of tuple of ndarray
        What tells which record stays, the first in importance first.
    """
    repeated = repeated_numbers(keys)
    if not repeated.size:
        return None, 0
    rows = [np.flatnonzero(_occur_in(repeated, part)) for part in keys]
    suspects = [
        np.concatenate([columns[part] for columns, part in zip(column, rows, strict=True)])
        for column in (keys, *zip(*places, strict=True))
    ]
    # The last column is the first that is sorted by.
    order = np.lexsort(suspects[::-1])
    is_first = np.ones(order.size, dtype=np.bool_)
    ordered = suspects[0][order]
    is_first[1:] = ordered[1:] != ordered[:-1]
    stays = np.empty(order.size, dtype=np.bool_)
    stays[order] = is_first
    flags, start = [], 0
    for part, chosen in zip(keys, rows, strict=True):
        kept = np.ones(part.size, dtype=np.bool_)
        kept[chosen] = stays[start : start + chosen.size]
        flags.append(kept)
        start += chosen.size
    return flags, int(order.size - np.count_nonzero(is_first))


def _occur_in(ordered: Numbers, numbers: Numbers) -> Flags:
    """Return which numbers are among some in order."""
    # Most are not, and a table of bits that are spread over it tells so sooner than a search.
    shift = np.uint64(_BITS - ordered.size.bit_length() - _SPARE_BITS)
    table = np.zeros(1 << (_BITS - int(shift)), dtype=np.bool_)
    table[(ordered * _SPREADING) >> shift] = True
    found = table[(numbers * _SPREADING) >> shift]
    rows = np.flatnonzero(found)
    place = np.searchsorted(ordered, numbers[rows])
    found[rows] = ordered[np.minimum(place, ordered.size - 1)] == numbers[rows]
    return np.asarray(found)
