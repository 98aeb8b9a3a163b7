"""Vehicle positions of GTFS-Realtime feeds as a DuckDB table, which grows file by file.

The engine has no reader of protobuf: files are decoded in Python, in batches, into a temporary
table, which obeys the engine's memory limit and can be scanned more than once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import identifier
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import ColumnType, Schema
from hexveil.records.sources.gtfs_realtime import COLUMNS, TIME, read_feed

TABLE = "vehicle_positions"
_BATCH = "decoded_positions"
_FILE = "file"
_BATCH_ROWS = 1 << 16
_MEMORY_PER_BYTE = 16
"""Memory for each byte of a file: the message in it and its columns take ten times its size."""


def _column_type(arrow_type: pa.DataType) -> ColumnType:
    if pa.types.is_string(arrow_type):
        return ColumnType("text")
    if pa.types.is_integer(arrow_type):
        return ColumnType("number", is_integer=True)
    return ColumnType("number", float_bits=24 if arrow_type == pa.float32() else 53)


SCHEMA: Schema = {column.name: _column_type(column.type) for column in COLUMNS}


class PositionTable:
    """PRIVATE. The positions of the files that were decoded so far.

    Parameters
    ----------
    session : Session
    paths : sequence of str
        All files of the source.
    configured : collection of str
        Names of the configured columns: no others are decoded.
    """

    def __init__(self, session: Session, paths: Sequence[str], configured: Collection[str]) -> None:
        self._session, self._paths = session, paths
        self._times_listed = Counter(paths)
        self._numbers = {path: number for number, path in enumerate(self._times_listed)}
        # One column at least, since a table without any has no rows.
        self._names = [name for name in COLUMNS.names if name in configured] or [TIME]
        self._decoded: set[str] = set()
        self._n_positions = 0
        fields = [COLUMNS.field(name) for name in self._names]
        self._schema = pa.schema([pa.field(_FILE, pa.int32()), *fields])
        self._run_with(self._schema.empty_table(), f"CREATE OR REPLACE TEMP TABLE {TABLE} AS")

    def __repr__(self) -> str:
        return "PositionTable(private)"

    def select(self, paths: Sequence[str]) -> str:
        """Return the query of the positions of some files."""
        query = f"SELECT {', '.join(map(identifier, self._names))} FROM {TABLE}"
        numbers = sorted({self._numbers[path] for path in paths})
        if len(numbers) == len(self._numbers):
            return query
        return f"{query} WHERE {_FILE} IN ({', '.join(map(str, numbers))})"

    def load(self, paths: Sequence[str] | None) -> None:
        """Decode files, by default all; none is decoded twice.

        Raises
        ------
        InputError
            If a file is no feed, or no file has a vehicle position.
        """
        tables: list[pa.Table] = []
        for path in dict.fromkeys(self._paths if paths is None else paths):
            if path not in self._decoded:
                # A file that is listed twice is read twice, as files of other kinds are.
                tables += [self._decode(path)] * self._times_listed[path]
                self._decoded.add(path)
            if sum(map(len, tables)) >= _BATCH_ROWS:
                self._insert(tables)
                tables = []
        self._insert(tables)
        if self._n_positions == 0 and len(self._decoded) == len(self._numbers):
            raise InputError(
                "source: the GTFS-Realtime feed holds no vehicle position, only other entities, if "
                "any; name the files of the feed that has them."
            )

    def _decode(self, path: str) -> pa.Table:
        max_bytes = int(self._session.memory / _MEMORY_PER_BYTE)
        positions = read_feed(path, self._paths, self._names, max_bytes)
        self._n_positions += len(positions)
        file = pa.repeat(pa.scalar(self._numbers[path], pa.int32()), len(positions))
        return positions.add_column(0, self._schema.field(_FILE), file)

    def _insert(self, tables: Sequence[pa.Table]) -> None:
        rows = pa.concat_tables([self._schema.empty_table(), *tables])
        self._run_with(rows, f"INSERT INTO {TABLE}")

    def _run_with(self, rows: pa.Table, statement: str) -> None:
        self._session.register(_BATCH, rows)
        self._session.run(f"{statement} SELECT * FROM {_BATCH}")
        self._session.forget(_BATCH)
