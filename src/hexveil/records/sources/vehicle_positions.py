"""Vehicle positions of GTFS-Realtime feeds as a table, by the official bindings.

A file is one protobuf message, a snapshot of a feed. Each of its vehicle positions is a record with
the fields of the specification, nested as there: `vehicle.id`, `position.speed`. Trip updates and
alerts in the same feed are no records. A field that is not set is missing, never zero.
Source: https://gtfs.org/documentation/realtime/reference/, version 2.0.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from hexveil.base.errors import InputError

_TEXT, _REAL = pa.string(), pa.float32()
SCHEMA = pa.schema(
    {
        "vehicle": pa.struct({"id": _TEXT, "label": _TEXT, "license_plate": _TEXT}),
        "trip": pa.struct({"trip_id": _TEXT, "route_id": _TEXT, "direction_id": pa.uint32()}),
        "position": pa.struct(
            {
                **dict.fromkeys(("latitude", "longitude", "bearing", "speed"), _REAL),
                "odometer": pa.float64(),
            }
        ),
        "current_stop_sequence": pa.uint32(),
        "stop_id": _TEXT,
        "occupancy_percentage": pa.uint32(),
        "timestamp": pa.uint64(),
    }
)
"""Fields that are read, with the types that the specification gives them."""
_INSTALL = 'pip install "hexveil[gtfs]"'


def read_positions(files: Iterable[tuple[str, bytes]]) -> pa.Table:
    """Return the vehicle positions of files, by their names for messages and their bytes.

    Raises
    ------
    InputError
        If a file is no feed, no file has a position, or the bindings are not installed.
    """
    tables = [_positions(name, data) for name, data in files]
    table = pa.concat_tables([SCHEMA.empty_table(), *tables])
    if not len(table):
        raise InputError(
            "source: the GTFS-Realtime feed holds no vehicle position, only other entities, if "
            "any; name the files of the feed that has them."
        )
    return table


def _positions(name: str, data: bytes) -> pa.Table:
    """Return the positions of one file; an error shows nothing of it."""
    try:
        from google.transit.gtfs_realtime_pb2 import FeedMessage  # noqa: PLC0415  an extra

        feed = FeedMessage()
    except Exception:  # noqa: BLE001  generated code has an error of its own for another protobuf
        feed = None
    if feed is None:
        raise InputError(
            "GTFS-Realtime feeds need the packages gtfs-realtime-bindings and protobuf, in "
            f"versions that fit: {_INSTALL}."
        )
    try:
        feed.ParseFromString(data)
        sent, rows = feed.header.timestamp or None, list[dict[str, Any]]()
        for entity in feed.entity:
            if entity.HasField("vehicle") and not entity.is_deleted:
                # Zero is no time; a position without one is as old as its message.
                time = entity.vehicle.timestamp or sent
                rows.append(_fields(entity.vehicle) | {"timestamp": time})
        # Few bytes suffice for a message of unknown fields, but each feed must have a header.
        table = pa.Table.from_pylist(rows, schema=SCHEMA) if feed.HasField("header") else None
    except Exception:  # noqa: BLE001  the error of either library may quote a field
        table = None
    if table is None:
        raise InputError(
            f"source: {name} is not a readable GTFS-Realtime feed; it may be truncated, or of "
            "another kind: fetch it again, or remove it."
        )
    return table


def _fields(message: Any) -> dict[str, Any]:  # noqa: ANN401  of a package that is an extra
    """Return the fields of a message that are set; text that is not UTF-8 comes as bytes."""
    fields = {field.name: value for field, value in message.ListFields()}
    return {
        name: _fields(value) if hasattr(value, "ListFields") else value
        for name, value in fields.items()
        if not isinstance(value, bytes)
    }
