"""Records counted and summed by Spark: pairs stay there, cells and units are on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from hexveil.model.cells import CellTable
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.records.duckdb.reading import public_metadata
from hexveil.records.read_request import ReadRequest
from hexveil.records.spark.frames import checkpoint
from hexveil.records.spark.session import translate_errors
from hexveil.records.units import Units


@dataclass(frozen=True, eq=False, repr=False)
class CountedRecords:
    """PRIVATE. Counts and sums of all pairs in the used cells.

    Attributes
    ----------
    tally : DataFrame
        Counts and sums of all cells, kept by Spark until `close` or `store`.
    pairs : DataFrame
        A row per pair, in no order, made of these: `cell` INT and `unit` INT from 0, `n` BIGINT,
        `total` BIGINT, and `total_sq` BIGINT where sums of squares fit; with fine bins also
        `bins`, lists of whole numbers (`hexveil.records.bin_number`). The same records give the
        same rows, whatever their partitions.
    pairs_per_cell : ndarray of int64, shape (n_cells,)
    cells : CellTable
        The used cells, numbered as in `pairs`.
    units : Units
        Those of no used cell too; numbered as in `pairs`.
    counts : mapping of str to int
        How many records each rule left out; without what depends on `pairs`.
    everything : int
        Cells before selection.
    squares : bool
        Whether `pairs` has sums of squares.
    request : ReadRequest
    label : str
        The source as the caller wrote it.
    """

    tally: DataFrame
    pairs: DataFrame
    pairs_per_cell: NDArray[np.int64]
    cells: CellTable
    units: Units
    counts: Mapping[str, int]
    everything: int
    squares: bool
    request: ReadRequest
    label: str

    def __repr__(self) -> str:
        return f"CountedRecords(n_cells={len(self.cells)}, n_pairs={self.n_pairs}, private)"

    @property
    def n_pairs(self) -> int:
        """Pairs in the used cells."""
        return int(self.pairs_per_cell.sum())

    def metadata(self, occupancy: Occupancy) -> PublicMetadata:
        """Return the public metadata of the reading, given its occupancy."""
        return public_metadata(
            self.label, self.request, occupancy, self.cells, self.counts, self.everything
        )

    def store(self) -> DataFrame:
        """Return the pairs, kept by Spark in place of the counts of all cells."""
        try:
            pairs = checkpoint(self.pairs).persist(StorageLevel.MEMORY_AND_DISK)
            translate_errors(pairs.count)
        finally:
            self.close()
        return pairs

    def close(self) -> None:
        """Let Spark forget the counts."""
        self.tally.unpersist()
