"""Where pairs lie: the same occupancy or data set in each store, for one test over all of them."""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from distributed_blocks import distributed, distributed_dataset
from hexveil.base.column_file import ColumnFile
from hexveil.model.distributed_occupancy import DistributedOccupancy
from hexveil.model.pair_columns import SuppressedPairs
from hexveil.records.dataset import Dataset, DistributedSums
from hexveil.records.duckdb import spilled_pairs as block_files

STORES = "memory", "runs", "blocks", "disk"
"""One block in memory, several small ones, blocks that functions are sent to, files."""
ROOM = 7
"""Pairs of a block, about."""


def suppressed_where(occupancy, marked):
    """Return the marked pairs at hand as a plan has them; nothing where none are asked for."""
    if marked is None:
        return None
    rows = np.flatnonzero(marked)
    return SuppressedPairs.of_rows(occupancy, occupancy.cell[rows], occupancy.user[rows])


@contextlib.contextmanager
def stored(occupancy, store, room=ROOM):
    """Yield an occupancy at hand as this store has it."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        if store == "runs":
            for module in ("model.occupancy", "planning.optimizers.pair_sums"):
                patch.setattr(f"hexveil.{module}.BLOCK_PAIRS", room)
        if store in ("memory", "runs"):
            yield occupancy
        elif store == "blocks":
            yield distributed(occupancy, room)
        else:
            yield _occupancy_of(occupancy, _files(occupancy, Path(folder), room))


@contextlib.contextmanager
def stored_dataset(dataset, store, room=ROOM):
    """Yield a data set at hand, without counts by bin, as this store has it."""
    occupancy, sums = dataset.public.occupancy, dataset.sums
    with stored(occupancy, store, room), tempfile.TemporaryDirectory() as folder:
        if store in ("memory", "runs"):
            yield dataset
        elif store == "blocks":
            yield distributed_dataset(dataset, room)
        else:
            files = _files(occupancy, Path(folder), room)
            by_cell = files["cells"]
            file = ColumnFile(Path(folder))
            kept = [one for one in (sums.total, sums.total_sq) if one is not None]
            for rows in np.split(
                np.arange(occupancy.n_pairs), np.cumsum(by_cell.sizes)[by_cell.first[1:-1] - 1]
            ):
                file.append([one[rows] for one in kept])
            store = block_files.FileStore(files, file)
            there = DistributedSums(store, squares=dataset.has_squares)
            spread = _occupancy_of(occupancy, files)
            facts = replace(dataset.public, occupancy=spread, recount=None)
            yield Dataset(facts, there, dataset.units)


def _files(occupancy, folder, room):
    """Return the pairs in files, in blocks of cells and of users."""
    cell, user, n = occupancy.cell, occupancy.user, occupancy.n
    order, fewer = np.lexsort((cell, user)), block_files.BLOCK_PAIRS // room
    made = {}
    for whole, rows, sizes, others in (
        ("cells", [cell, user, n], occupancy.users_per_cell, occupancy.n_users),
        ("users", [a[order] for a in (user, cell, n)], occupancy.cells_per_user, occupancy.n_cells),
    ):
        made[whole] = block_files.write_pairs(
            iter([rows]), whole, sizes, others, folder, fewer=fewer
        )
    return made


def _occupancy_of(occupancy, files):
    """Return the occupancy of files."""
    store = block_files.FileStore(files)
    return DistributedOccupancy(store, occupancy.n_cells, occupancy.n_users, occupancy.n_pairs)
