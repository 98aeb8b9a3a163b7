"""Blocks of pairs in memory: what a store elsewhere answers, and how often it was asked."""

import pickle
from dataclasses import dataclass, field

import numpy as np

from hexveil.model.distributed_occupancy import DistributedOccupancy, partition_numbers
from hexveil.model.occupancy import Partition
from hexveil.model.pair_bins import PairBins, PairSums
from hexveil.records.dataset import Dataset, DistributedSums


def sent(work):
    """Return a function as executors get it; what tests define within others cannot be sent."""
    if "<locals>" in getattr(work, "__qualname__", ""):
        return work
    return pickle.loads(pickle.dumps(work))  # noqa: S301  made here


@dataclass
class Blocks:
    """Blocks of whole cells and of whole users with their sums, if any; perhaps counts by bin."""

    by_cell: list
    by_user: list
    sums: list = field(default_factory=list)
    bins: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    received: list = field(default_factory=list)

    def map(self, whole, work):
        """Return the answers of all blocks of a kind."""
        self.asked.append((whole, getattr(work, "func", work).__name__))
        blocks, work = self.by_cell if whole == "cells" else self.by_user, sent(work)
        return self.noted([work(block) for block in blocks])

    def map_sums(self, work):
        """Return the answers of blocks of cells with their sums."""
        self.asked.append(("sums", getattr(work, "func", work).__name__))
        both, work = zip(self.by_cell, self.sums, strict=True), sent(work)
        return self.noted([work(block, sums) for block, sums in both])

    def map_bins(self, whole, work):
        """Return the answers of blocks of a kind with their counts by bin."""
        self.asked.append(("bins", getattr(work, "func", work).__name__))
        blocks, work = self.by_cell if whole == "cells" else self.by_user, sent(work)
        return self.noted([work(*both) for both in zip(blocks, self.bins[whole], strict=True)])

    def noted(self, answers):
        """Return the answers of all blocks; note how many bytes came, beside who asked."""
        columns = (one if isinstance(one, tuple) else (one,) for one in answers)
        size = sum(array.nbytes for answer in columns for array in answer)
        self.received.append((self.asked[-1][1], size))
        return answers


def blocks_of(occupancy, room, total=None, squares=None, bins=None):
    """Return an occupancy's blocks of about `room` pairs."""
    of_cell = partition_numbers(occupancy.users_per_cell, room)[occupancy.cell]
    order = np.lexsort((occupancy.cell, occupancy.user))
    of_user = partition_numbers(occupancy.cells_per_user, room)[occupancy.user[order]]
    by_cell, sums, by_user, binned = [], [], [], {"cells": [], "users": []}
    for number in np.unique(of_cell):
        rows = np.flatnonzero(of_cell == number)
        cell, user, n = (a[rows] for a in (occupancy.cell, occupancy.user, occupancy.n))
        first, last = int(cell[0]), int(cell[-1])
        by_cell.append(
            Partition("cells", first, cell, user, n, last - first + 1, occupancy.n_users)
        )
        sums.append(PairSums(*(None if one is None else one[rows] for one in (total, squares))))
        if bins is not None:
            binned["cells"].append(bins.of_pairs(of_cell == number))
    for number in np.unique(of_user):
        rows = order[of_user == number]
        cell, user, n = (a[rows] for a in (occupancy.cell, occupancy.user, occupancy.n))
        first, last = int(user[0]), int(user[-1])
        by_user.append(
            Partition("users", first, cell, user, n, occupancy.n_cells, last - first + 1)
        )
        if bins is not None:
            own = np.flatnonzero(
                (occupancy.user[bins.pair] >= first) & (occupancy.user[bins.pair] <= last)
            )
            of_users = (occupancy.user[bins.pair[own]] - first, bins.bin[own], bins.count[own])
            binned["users"].append(PairBins.of_rows(*of_users))
    return Blocks(by_cell, by_user, sums, binned)


def distributed(occupancy, room):
    """Return the same occupancy with its pairs in blocks."""
    store = blocks_of(occupancy, room)
    return DistributedOccupancy(store, occupancy.n_cells, occupancy.n_users, occupancy.n_pairs)


def distributed_dataset(dataset, room):
    """Return the same data set with its pairs and sums in blocks."""
    from dataclasses import replace  # noqa: PLC0415  beside its use

    occupancy, sums = dataset.public.occupancy, dataset.sums
    store = blocks_of(occupancy, room, sums.total, sums.total_sq, sums.bins)
    spread = DistributedOccupancy(store, occupancy.n_cells, occupancy.n_users, occupancy.n_pairs)
    facts = replace(dataset.public, occupancy=spread, recount=None)
    there = DistributedSums(store, squares=dataset.has_squares, binned=sums.bins is not None)
    return Dataset(facts, there, dataset.units)
