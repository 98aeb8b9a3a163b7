"""Distributed occupancy: computations are mapped over partitions of (cell, user) pairs.

A country's (cell, user) pairs fill no driver's memory, its cells and its users do not. Everything
computed from pairs is a figure per cell or per user, so the pairs are kept twice, cut into blocks:
blocks of whole cells, and blocks of whole users. A question (`Occupancy.each`) is
put to each block where it lies, and the answers are put one after another. A cell's or a user's
pairs are all in one block, in the order of an `Occupancy`, so that where blocks begin changes no
answer, not in its last bit.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.model.occupancy import Occupancy, Pairs, T, WholeGroup

DIGEST_BYTES = 32
"""Bytes of a cell's part of a fingerprint."""


class PartitionStore(Protocol):
    """Where the blocks are."""

    def map(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterable[T]:
        """Return the results of all blocks of a kind, in the order of their cells or users."""


@dataclass(frozen=True, eq=False, repr=False)
class DistributedOccupancy(Occupancy):
    """Occupancy with distributed pairs: functions are mapped over them, pairs are never fetched.

    Attributes
    ----------
    store : PartitionStore
    n_cells, n_users, n_pairs : int
        Every cell and every user has at least one pair.
    """

    store: PartitionStore
    n_cells: int
    n_users: int
    n_pairs: int
    is_local: ClassVar[bool] = False

    def local(self) -> NoReturn:
        """Refuse: nothing may depend on whether a driver happens to have room for all pairs."""
        raise InputError(
            f"this needs all {self.n_pairs:,} pairs of cells and users in one machine's memory: "
            'use method "joint", with any clipping_range, or the mechanism OptimalClipping with '
            'method "per-cell" or "equal-split", or, read with more memory where the machine has '
            "it."
        )

    def each(self, whole: WholeGroup, work: Callable[[Pairs], T]) -> Iterable[T]:
        """Return the answers of blocks: see `Occupancy.each`."""
        return self.store.map(whole, work)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the digests of cells: the same wherever blocks begin."""
        # Another prefix than local pairs have, whose columns are hashed and not their cells'
        # digests.
        digest = hashlib.sha256(f"spread;{self.n_cells},{self.n_users};".encode())
        digest.update(self.map_cells(_digests).tobytes())
        return digest.hexdigest()


def partition_numbers(size: Sequence[int] | Ints, room: int) -> Ints:
    """Return the block of each cell or user: runs of them with about `room` pairs.

    Parameters
    ----------
    size : array_like of int, shape (n,)
        Pairs of each, at least 1.
    room : int
        A block has fewer than this and the pairs of its last cell or user together.

    Examples
    --------
    >>> partition_numbers([2, 2, 2, 5, 1], 4).tolist()
    [0, 0, 1, 1, 2]
    """
    # By what precedes it, so that no cell or user is cut in two, however many pairs it has.
    preceding = np.cumsum(size) - np.asarray(size)
    return np.unique(preceding // room, return_inverse=True)[1].astype(np.int64)


def _digests(pairs: Pairs) -> NDArray[np.uint8]:
    rows = np.stack((pairs.user, pairs.n), axis=1).astype("<i8")
    edges = pairs.start.tolist()
    digests = b"".join(
        hashlib.sha256(rows[begin:end].tobytes()).digest() for begin, end in pairwise(edges)
    )
    return np.frombuffer(digests, dtype=np.uint8).reshape(-1, DIGEST_BYTES)
