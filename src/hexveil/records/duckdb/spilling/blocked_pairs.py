"""PRIVATE. From counted pairs to blocks on disk, where memory does not hold all pairs.

Cells and users are numbered in memory; the engine puts the pairs in order, in its own limit of
memory, once by cell and once by user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hexveil.base import scratch as scratch_folder
from hexveil.base.arrow_numbers import to_numpy
from hexveil.base.column_file import ColumnFile
from hexveil.base.errors import HexveilError
from hexveil.model.distributed_occupancy import DistributedOccupancy
from hexveil.records.dataset import check_sums
from hexveil.records.distributed_sums import DistributedSums
from hexveil.records.duckdb.aggregation import NUMBERED_BINS, NUMBERED_PAIRS
from hexveil.records.duckdb.spilling.block_files import (
    PairFile,
    PairFileStore,
    SumsFileStore,
    write_bins,
    write_pairs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.base.arrays import Ints
    from hexveil.model.occupancy import WholeGroup
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.records.duckdb.pair_store import PairStore
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.spilling.block_files import BinFile
    from hexveil.records.read_request import Rules


ROOM_OF_BINS = 8
"""How many fewer pairs a block has with their counts by bin."""
REMEDY = "read with more memory where the machine has it"
"""What to do where a plan needs all pairs in memory."""


class BlockedPairs(NamedTuple):
    """Occupancy in blocks, its sums (private), and the units that its users are."""

    occupancy: DistributedOccupancy
    sums: DistributedSums
    used: NDArray[np.int64]


def block_pairs(
    session: Session,
    stored: PairStore,
    sums: Sequence[str],
    rules: Rules,
    scratch: str | None,
) -> BlockedPairs:
    """Return the pairs of the selected cells in blocks on disk.

    Parameters
    ----------
    session : Session
    stored : PairStore
    sums : sequence of str
        Names of the sums.
    rules : Rules
        Bounds, quantum, and the bins that records are counted by.
    scratch : str or None
        Where temporary files are: see `hexveil.base.scratch`.

    Raises
    ------
    StorageError
        If the disk is full.
    """
    folder, scale = scratch_folder.place(scratch), rules.scale
    private = _CheckedSums(folder, scale)
    n_bins = 0 if rules.bins is None else rules.bins.n_bins
    occupancy, files, used = _block_counts(
        session, stored, sums, scratch, private, fewer=ROOM_OF_BINS if n_bins else 1
    )
    bins = _block_bins(session, stored, files, used, n_bins, scratch) if n_bins else {}
    kept = SumsFileStore(files["cells"], private.file, bins)
    sums_there = DistributedSums(kept, squares=len(sums) > 1, binned=n_bins > 0)
    return BlockedPairs(occupancy, sums_there, used)


def block_occupancy(
    session: Session, stored: PairStore, scratch: str | None
) -> DistributedOccupancy:
    """Return the counts of the pairs of the selected cells in blocks on disk, without sums."""
    return _block_counts(session, stored, (), scratch, None)[0]


def _block_counts(
    session: Session,
    stored: PairStore,
    sums: Sequence[str],
    scratch: str | None,
    private: _CheckedSums | None,
    *,
    fewer: int = 1,
) -> tuple[DistributedOccupancy, dict[WholeGroup, PairFile], Ints]:
    """Return the occupancy, its blocks, and the units that its users are."""
    stored.number_pairs(sums)
    _, per_cell = _sizes(session, "cell")
    used, per_user = _sizes(session, "unit")
    # Units without a selected cell have a number too, and no pair: users are numbered without them.
    user = _user_numbers(used)
    folder = scratch_folder.place(scratch)
    by_cell = write_pairs(
        ((cell, user[unit], n, *rest) for cell, unit, n, *rest in _rows(session, sums, "cell")),
        "cells",
        per_cell,
        used.size,
        folder,
        None if private is None else private.append,
        fewer=fewer,
    )
    # Sums are asked of cells alone.
    by_user = write_pairs(
        ((user[unit], cell, n) for cell, unit, n in _rows(session, (), "unit")),
        "users",
        per_user,
        per_cell.size,
        folder,
        fewer=fewer,
    )
    pairs = PairFileStore(by_cell, by_user)
    occupancy = DistributedOccupancy(
        pairs, per_cell.size, used.size, int(per_cell.sum()), remedy=REMEDY
    )
    # Losses are asked of users, sums of cells: both must be of the same pairs.
    if occupancy.records_per_user.sum() != occupancy.n_records:
        raise HexveilError("pairs by cell and by user do not belong together.")
    return occupancy, {"cells": by_cell, "users": by_user}, used


def _user_numbers(used: Ints) -> Ints:
    """Return the user that each used unit is."""
    user = np.zeros(int(used[-1]) + 1, dtype=np.int64)
    user[used] = np.arange(used.size)
    return user


def _block_bins(
    session: Session,
    stored: PairStore,
    files: Mapping[WholeGroup, PairFile],
    used: Ints,
    n_bins: int,
    scratch: str | None,
) -> dict[WholeGroup, BinFile]:
    """Return the counts by bin of blocks of cells, and of blocks of users."""
    stored.number_bins()
    user, folder = _user_numbers(used), scratch_folder.place(scratch)
    columns = "cell, unit, fine_bin"
    of_cells = _stream(session, f"SELECT {columns}, n FROM {NUMBERED_BINS} ORDER BY {columns}")
    of_units = _stream(
        session,
        f"SELECT unit, fine_bin, CAST(sum(n) AS BIGINT) AS n FROM {NUMBERED_BINS} "
        "GROUP BY unit, fine_bin ORDER BY unit, fine_bin",
    )
    per_cell = session.arrow(
        f"SELECT count(*) AS n FROM {NUMBERED_BINS} GROUP BY cell ORDER BY cell"
    )
    per_unit = session.arrow(
        f"SELECT count(DISTINCT fine_bin) AS n FROM {NUMBERED_BINS} GROUP BY unit ORDER BY unit"
    )
    sizes = [to_numpy(table["n"]).astype(np.int64) for table in (per_cell, per_unit)]
    rows = ((cell, user[unit], place, n) for cell, unit, place, n in of_cells)
    by_cell = write_bins(rows, files["cells"], sizes[0], n_bins, folder)
    rows_of_users = ((user[unit], place, n) for unit, place, n in of_units)
    by_user = write_bins(rows_of_users, files["users"], sizes[1], n_bins, folder)
    return {"cells": by_cell, "users": by_user}


class _CheckedSums:
    """PRIVATE. The file of sums, each block checked against its counts."""

    def __init__(self, folder: Path, lattice: ValueLattice) -> None:
        self.file, self._lattice = ColumnFile(folder), lattice

    def append(self, n: Ints, sums: Sequence[Ints]) -> None:
        """Append the sums of a block; raise HexveilError unless its counts allow them."""
        check_sums(n, sums[0], sums[1] if sums[1:] else None, self._lattice)
        self.file.append(sums)


def _sizes(session: Session, key: str) -> tuple[Ints, Ints]:
    """Return the numbers that have pairs, in order, and how many each has."""
    query = f"SELECT {key}, count(*) AS pairs FROM {NUMBERED_PAIRS} GROUP BY {key} ORDER BY {key}"
    table = session.arrow(query)
    return to_numpy(table[key]).astype(np.int64), to_numpy(table["pairs"]).astype(np.int64)


def _rows(session: Session, sums: Sequence[str], first: str) -> Iterator[list[Ints]]:
    """Yield cell, unit, n and sums of pairs in order."""
    order = "cell, unit" if first == "cell" else "unit, cell"
    columns = ", ".join(("cell", "unit", "n", *sums))
    yield from _stream(session, f"SELECT {columns} FROM {NUMBERED_PAIRS} ORDER BY {order}")


def _stream(session: Session, query: str) -> Iterator[list[Ints]]:
    """Yield the columns of a query of whole numbers, batch by batch."""
    for batch in session.stream(query):
        yield [to_numpy(column).astype(np.int64) for column in batch.columns]
