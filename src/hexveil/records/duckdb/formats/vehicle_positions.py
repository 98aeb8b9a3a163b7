"""Vehicle positions of GTFS-Realtime feeds as a DuckDB table, which grows file by file.

A file is one protobuf message, a snapshot of a feed. Each of its vehicle positions is a record, and
columns are called as the fields of a vehicle position in the specification: `vehicle.id`,
`position.speed`. Trip updates and alerts in the same feed are no records.
Source: https://gtfs.org/documentation/realtime/reference/, version 2.0.

The engine has no reader of protobuf: files are decoded in Python, in batches, into a temporary
table, which obeys the engine's memory limit and can be scanned more than once.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import identifier
from hexveil.records.duckdb.session import Session
from hexveil.records.sources.columns import ColumnType, Schema
from hexveil.records.sources.source_files import read_bytes, safe_path

if TYPE_CHECKING:
    from google.transit.gtfs_realtime_pb2 import FeedMessage, VehiclePosition

COLUMNS = pa.schema(
    [
        ("vehicle.id", pa.string()),
        ("vehicle.label", pa.string()),
        ("vehicle.license_plate", pa.string()),
        ("trip.trip_id", pa.string()),
        ("trip.route_id", pa.string()),
        ("trip.direction_id", pa.uint32()),
        ("position.latitude", pa.float32()),
        ("position.longitude", pa.float32()),
        ("position.bearing", pa.float32()),
        ("position.odometer", pa.float64()),
        ("position.speed", pa.float32()),
        ("current_stop_sequence", pa.uint32()),
        ("stop_id", pa.string()),
        ("occupancy_percentage", pa.uint32()),
        ("timestamp", pa.uint64()),
    ]
)
"""Columns, with the types that the specification gives them."""
TIME = "timestamp"
VALUE_UNITS = {
    "position.bearing": "degrees",
    "position.odometer": "m",
    "position.speed": "m/s",
    "occupancy_percentage": "%",
}
_CHUNK = 10_000
"""Entities at once: Python's objects for the messages in them take more than the messages."""
_INSTALL = 'pip install "hexveil[gtfs]"'


def read_feed(path: str, among: Sequence[str], names: Sequence[str], max_bytes: int) -> pa.Table:
    """Return the vehicle positions of one file; a field that is not set is null.

    Parameters
    ----------
    path : str
    among : sequence of str
        All files of the source, for messages.
    names : sequence of str
        Columns to decode, of `COLUMNS`.
    max_bytes : int
        Size of a file, unpacked, above which it is refused: a message is decoded whole.

    Raises
    ------
    InputError
        If the file is too large or no feed, or the bindings are not installed.
    """
    data = read_bytes(path, among, max_bytes + 1)
    if len(data) > max_bytes:
        raise InputError(
            f"source: the file {safe_path(path, among)} is too large for this memory: a GTFS-"
            f"Realtime file is decoded whole, and may have {max_bytes / 1e6:.0f} MB at most; raise "
            "memory, or check that it is one snapshot of a feed."
        )
    feed = _parse(data, safe_path(path, among))
    schema = pa.schema([COLUMNS.field(name) for name in names])
    batches = []
    for start in range(0, len(feed.entity), _CHUNK):
        positions = [
            entity.vehicle
            for entity in feed.entity[start : start + _CHUNK]
            if entity.HasField("vehicle") and not entity.is_deleted
        ]
        arrays = [pa.array(_column(feed, positions, field.name), field.type) for field in schema]
        batches.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _parse(data: bytes, label: str) -> FeedMessage:
    """Return the message in a file; raise our own error, without the text of the file."""
    feed = _new_feed()
    from google.protobuf.message import DecodeError  # noqa: PLC0415  as the bindings

    with contextlib.suppress(DecodeError):
        feed.ParseFromString(data)
        # Few bytes suffice for a message of unknown fields, but each feed must have a header.
        if feed.HasField("header"):
            return feed
    raise InputError(
        f"source: {label} is not a readable GTFS-Realtime feed; it may be truncated, or of another "
        "kind: fetch it again, or remove it."
    )


def _new_feed() -> FeedMessage:
    """Return an empty message; the bindings are an extra, loaded where a feed is read."""
    try:
        from google.transit.gtfs_realtime_pb2 import FeedMessage  # noqa: PLC0415

        return FeedMessage()
    except ImportError:
        failure = f"GTFS-Realtime feeds need the package gtfs-realtime-bindings: {_INSTALL}."
    except Exception:  # noqa: BLE001  generated code has an error of its own for a protobuf too old
        failure = (
            "the package gtfs-realtime-bindings does not run with the installed protobuf; install "
            f"both anew: {_INSTALL}."
        )
    raise InputError(failure)


def _column(feed: FeedMessage, positions: Sequence[VehiclePosition], name: str) -> list[object]:
    """Return a field of all positions, None where it is not set."""
    if name == TIME:
        # Zero is no time: proto2 tells it from a field that is not set, but producers do not. A
        # position without a time is as old as its message.
        sent = feed.header.timestamp or None
        return [position.timestamp or sent for position in positions]
    *parents, field = name.split(".")
    holders = list(positions)
    for parent in parents:
        holders = [getattr(holder, parent) for holder in holders]
    # A field that is not set reads as zero, which would be a place in the sea, or a speed.
    values = [getattr(h, field) if h.HasField(field) else None for h in holders]
    if pa.types.is_string(COLUMNS.field(name).type):
        # Text that is not UTF-8 comes as bytes.
        return [value if isinstance(value, str) else None for value in values]
    return values


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
