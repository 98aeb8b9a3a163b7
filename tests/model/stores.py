"""Where pairs lie: the same occupancy or data set in each store, for one test over all of them."""

import contextlib
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hexveil import Dataset
from hexveil.model.distributed_occupancy import DistributedOccupancy
from hexveil.model.pair_columns import SuppressedPairs
from hexveil.records.dataset import DistributedSums
from hexveil.records.duckdb import spilled_pairs
from hexveil.records.duckdb.spilled_pairs import ColumnFile, FileStore, write_bins, write_pairs

STORES = "memory", "runs", "elsewhere"
"""One block in memory; several small ones; files, whose blocks functions are sent to."""
ROOM = 7
"""Pairs of a block, about."""


def sent(work):
    """Return a function as executors get it; what tests define within others cannot be sent."""
    if "<locals>" in getattr(work, "__qualname__", ""):
        return work
    return pickle.loads(pickle.dumps(work))  # noqa: S301  made here


class WatchedStore(FileStore):
    """Files that note who asked them about what, and how many bytes came back of each block."""

    def __init__(self, *files):
        super().__init__(*files)
        self.asked, self.received = [], []

    def map(self, whole, work):
        """Return the answers of all blocks of a kind."""
        return self._noted(whole, work, super().map(whole, sent(work)))

    def map_sums(self, work):
        """Return the answers of blocks of cells with their sums."""
        return self._noted("sums", work, super().map_sums(sent(work)))

    def map_bins(self, whole, work):
        """Return the answers of blocks of a kind with their counts by bin."""
        return self._noted("bins", work, super().map_bins(whole, sent(work)))

    def _noted(self, about, work, answers):
        name, answers = getattr(work, "func", work).__name__, list(answers)
        self.asked.append((about, name))
        columns = (one if isinstance(one, tuple) else (one,) for one in answers)
        size = sum(array.nbytes for answer in columns for array in answer)
        self.received.append((name, size))
        return answers

    @property
    def blocks(self):
        """How many blocks of cells there are."""
        return self.pairs["cells"].first.size - 1


def distributed(occupancy, room=ROOM):
    """Return an occupancy with its pairs in files, in blocks of about `room` pairs."""
    return _occupancy_of(occupancy, WatchedStore(_files(occupancy, room)))


def distributed_dataset(dataset, room=ROOM):
    """Return the same data set with its pairs, sums and counts by bin in files."""
    occupancy, sums, bins = dataset.public.occupancy, dataset.sums, {}
    with tempfile.TemporaryDirectory() as folder:
        pairs = _files(occupancy, room, folder)
        file = ColumnFile(Path(folder))
        ends = np.cumsum(pairs["cells"].sizes)[pairs["cells"].first[1:] - 1].tolist()
        for begin, end in zip([0, *ends], ends, strict=False):
            kept = [one for one in (sums.total, sums.total_sq) if one is not None]
            file.append([one[begin:end] for one in kept])
        for whole in pairs if sums.bins is not None else ():
            cell, user = occupancy.cell[sums.bins.pair], occupancy.user[sums.bins.pair]
            rows = [cell, user, sums.bins.bin, sums.bins.count]
            order = np.arange(cell.size) if whole == "cells" else np.lexsort((rows[2], user))
            sizes = np.bincount(cell if whole == "cells" else user)
            some = iter([[one[order] for one in rows]])
            n_bins = dataset.public.bins.n_bins
            bins[whole] = write_bins(some, pairs[whole], sizes, n_bins, Path(folder))
    store = WatchedStore(pairs, file, bins)
    facts = replace(dataset.public, occupancy=_occupancy_of(occupancy, store), recount=None)
    there = DistributedSums(store, squares=dataset.has_squares, binned=sums.bins is not None)
    return Dataset(facts, there, dataset.units)


@contextlib.contextmanager
def stored(one, store, room=ROOM):
    """Yield an occupancy or a data set at hand as this store has it."""
    with pytest.MonkeyPatch.context() as patch:
        if store == "runs":
            for module in ("model.occupancy", "planning.optimizers.pair_sums"):
                patch.setattr(f"hexveil.{module}.BLOCK_PAIRS", room)
        spread = distributed_dataset if isinstance(one, Dataset) else distributed
        yield spread(one, room) if store == "elsewhere" else one


def suppressed_where(occupancy, marked):
    """Return the marked pairs at hand as a plan has them; nothing where none are asked for."""
    if marked is None:
        return None
    rows = np.flatnonzero(marked)
    return SuppressedPairs.of_rows(occupancy, occupancy.cell[rows], occupancy.user[rows])


def _files(occupancy, room, folder=None):
    """Return the pairs in files, in blocks of cells and of users; open files need no folder."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return _files(occupancy, room, made)
    cell, user, n = occupancy.cell, occupancy.user, occupancy.n
    order = np.lexsort((cell, user))
    by_user = [one[order] for one in (user, cell, n)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled_pairs, "BLOCK_PAIRS", room)
        return {
            whole: write_pairs(iter([rows]), whole, sizes, others, Path(folder))
            for whole, rows, sizes, others in (
                ("cells", [cell, user, n], occupancy.users_per_cell, occupancy.n_users),
                ("users", by_user, occupancy.cells_per_user, occupancy.n_cells),
            )
        }


def _occupancy_of(occupancy, store):
    """Return the occupancy of a store."""
    return DistributedOccupancy(store, occupancy.n_cells, occupancy.n_users, occupancy.n_pairs)
