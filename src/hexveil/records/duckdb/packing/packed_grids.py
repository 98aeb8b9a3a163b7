"""Many kept records counted on other grids by packing: a grid, or the finest of some, at a time.

Kept records are a table of the session without their values, which count for nothing here. Records
are packed as those of a data set are (`packed_records`): on the finest of some grids, from which
`grid_rollup` adds up the others where its counts are few, and else on each grid by itself, so that
the pairs of one grid are in memory at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hexveil.model.cells import DAY, Cells
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.packing.packed_records import pack
from hexveil.records.duckdb.pair_store import PackedPairStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.model.cells import Labels
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.validation import ValidatedRecords
    from hexveil.records.read_request import ReadRequest

_NO_VALUE = ValueLattice.of((0, 1), 1)
"""Every record has the value 0."""


@dataclass(frozen=True, repr=False)
class PackableRecords:
    """PRIVATE. Kept records of places in a table, to be counted on one grid after another.

    Attributes
    ----------
    session : Session
    request : ReadRequest
    records : ValidatedRecords
        Of the table.
    n_records : int
    """

    session: Session
    request: ReadRequest
    records: ValidatedRecords
    n_records: int

    @classmethod
    def of_table(
        cls, session: Session, request: ReadRequest, table: str, source: ValidatedRecords
    ) -> PackableRecords:
        """Return the records of a table that has the columns of kept ones."""
        rows = f"SELECT *, CAST(0 AS BIGINT) AS quanta FROM {table}"
        records = replace(
            source,
            query=f"SELECT CAST(0 AS TINYINT) AS reject_reason, * FROM ({rows})",
            raw=rows,
            clocked=rows,
            columnar=True,
            naive=False,
        )
        return cls(session, request, records, aggregation.count_raw(session, records))

    def pack(self, grid: Cells | Labels) -> PackedPairStore | None:
        """Return the pairs on a grid, without sums; None if the engine should group them."""
        rules = self.request.rules
        if not isinstance(grid, Cells):
            return None
        # The wall clock that records have is the data set's.
        if grid.timeslot is not None and not (self.records.local and grid.timezone == rules.clock):
            return None
        keys = aggregation.group_keys(self.session, grid, rules.privacy_unit, self.records.places)
        rules = replace(rules, cells=grid, scale=_NO_VALUE, terms=())
        packed = pack(self.session, self.records, keys, rules, self.n_records, deduplicated=False)
        return None if packed is None else PackedPairStore(self.session, keys, packed)


def finest_of(grids: Sequence[Cells | Labels]) -> Cells | None:
    """Return the grid of one resolution from which all of these can be added up.

    None if there is none: for labels, and for slots none of which divides the others.

    Examples
    --------
    >>> finest_of([Cells(8, "6h", "UTC", "pooled"), Cells(8, None), Cells(8, "1h", "UTC")])
    Cells(resolution=8, timeslot='1h', timezone='UTC', slot='calendar')
    """
    hexagons = [grid for grid in grids if isinstance(grid, Cells)]
    lengths = [grid.seconds for grid in hexagons if grid.seconds is not None]
    if not lengths:
        return hexagons[0] if hexagons else None
    divides = [grid for grid in hexagons if grid.seconds == math.gcd(*lengths)]
    return replace(divides[0], slot="calendar") if divides else None


def fine_table(store: PackedPairStore) -> pa.Table:
    """Return pairs on the finest grid as the table of fine counts (`grid_rollup`)."""
    table = store.packed.keyed().select([*store.keys.all, "n"])
    if "slot" not in table.column_names:
        return table
    # `base` is shifted by a day: see `regrid`.
    base = pc.add(table["slot"], pa.scalar(DAY, pa.int64()))
    return table.drop_columns(["slot"]).append_column("base", base)
