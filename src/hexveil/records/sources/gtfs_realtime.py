"""Vehicle positions of GTFS-Realtime feeds as Arrow tables, one file at a time.

A file is one protobuf message, a snapshot of a feed. Each of its vehicle positions is a record, and
columns are called as the fields of a vehicle position in the specification: `vehicle.id`,
`position.speed`. Trip updates and alerts in the same feed are no records.

Source: https://gtfs.org/documentation/realtime/reference/, version 2.0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hexveil.base.errors import InputError
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
