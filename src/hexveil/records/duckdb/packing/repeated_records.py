"""Repeats of a user and time among records that are whole numbers: found by sorting, exactly.

What becomes of them is left to the engine: see `records.duckdb.record_repeats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Whole = NDArray[np.int64]
    Numbers = NDArray[np.uint64]

MICROSECONDS = 10**6
_BITS = 64


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
