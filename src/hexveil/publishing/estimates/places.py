"""Columns that name a cell for people: its place in words, its day, and where its centre lies.

    cell, name, date, slot, lat, lon, hexagon, slot_end, starts_at_utc, labels ...

are the first columns of every release, in both privacy models. A name is that of the geography of
the package ("8 km south-east of Udhna"), or the labels of the cell; `date` is the local day of a
calendar slot, else the period of the records ("2025-03-05", "2025-03-01/2025-03-31", empty where
none is declared). A label column of one of these names takes its place.

The geometry of released cells: GeoParquet's WKB column and GeoJSON features.
"""

import json
import math
import struct
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.publishing.estimates.table import describe_column
from hexveil.report.geography.background import words_of
from hexveil.report.origin import slot_days, stated_days
from hexveil.report.templates import render_sentence

NAMES = ("name", "date", "lat", "lon")
PLACE = ("cell", "name", "date", "slot", "lat", "lon", "hexagon", "slot_end", "starts_at_utc")
"""Names of the first columns, in order."""
DIGITS = 6
"""Of degrees: about ten centimetres."""


def with_places(
    table: pa.Table, manifest: Mapping[str, Any], *, geography: bool = True
) -> pa.Table:
    """Return the table with the columns that name its cells for people.

    Parameters
    ----------
    table : pyarrow.Table
        Of a release, with or without these columns.
    manifest : mapping
        With the grid, the selection and what the holder declares.
    geography : bool
        Whether a hexagon has the name of its place; else it has its index.
    """
    placed = without_places(table, manifest)
    labels = manifest["grid"].get("columns") or ()
    for name, column in _columns(placed, manifest, geography=geography).items():
        if name not in labels:
            text = render_sentence("columns.txt", "naming", name=name)
            field = pa.field(name, column.type, metadata={"description": text})
            placed = placed.append_column(field, column)
    # A label of one of these names stands with the labels.
    own = [name for name in PLACE if name not in labels or name == "cell"]
    leading = [name for name in own if name in placed.column_names]
    return placed.select([*leading, *(name for name in placed.column_names if name not in leading)])


def without_places(table: pa.Table, manifest: Mapping[str, Any]) -> pa.Table:
    """Return the table without the columns that `with_places` adds."""
    return table.drop_columns(added_columns(table, manifest))


def added_columns(table: pa.Table, manifest: Mapping[str, Any]) -> list[str]:
    """Return the columns of a table that `with_places` adds: no labels."""
    labels = manifest["grid"].get("columns") or ()
    return [name for name in NAMES if name in table.column_names and name not in labels]


def _columns(
    table: pa.Table, manifest: Mapping[str, Any], *, geography: bool
) -> dict[str, pa.Array]:
    """Return the columns of all cells by name."""
    # The two sides of a comparison have dates of their own.
    is_comparison = "change" in table.column_names
    columns = {} if is_comparison else {"date": pa.array(_dates(table, manifest), pa.string())}
    if "hexagon" not in table.column_names:
        labels = [
            name
            for name in manifest["grid"].get("columns") or ("cell",)
            if name in table.column_names
        ]
        if not labels:
            return columns
        rows = zip(*(table[name].to_pylist() for name in labels), strict=True)
        return columns | {"name": pa.array([", ".join(row) for row in rows], pa.string())}
    names = table["hexagon"].to_pylist()
    distinct = tuple(dict.fromkeys(names))
    words = dict(zip(distinct, _words(distinct) if geography else distinct, strict=True))
    centres = {name: hexagons.centre(int(name, 16)) for name in distinct}
    return columns | {
        "name": pa.array([words[name] for name in names], pa.string()),
        "lat": pa.array([round(centres[name][0], DIGITS) for name in names], pa.float64()),
        "lon": pa.array([round(centres[name][1], DIGITS) for name in names], pa.float64()),
    }


@lru_cache(maxsize=4)
def _words(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the place of each hexagon in words, its index without any; kept for the next file."""
    return tuple(words_of(names)) or names


def _dates(table: pa.Table, manifest: Mapping[str, Any]) -> list[str]:
    days = stated_days(manifest)
    text = "" if days is None else days[0] if days[0] == days[1] else "/".join(days)
    return slot_days(table) or [text] * table.num_rows


GEOPARQUET = "1.1.0"


def with_geometry(table: pa.Table) -> pa.Table:
    """Return the table with a WKB `geometry` column and GeoParquet metadata; as is for labels."""
    rings = _outlines(table)
    if rings is None:
        return table
    shapes = {name: _wkb(ring) for name, ring in rings.items()}
    geometry = pa.array([shapes[h] for h in table["hexagon"].to_pylist()], type=pa.binary())
    corners = np.array([corner for ring in rings.values() for corner in ring])
    column = {
        "encoding": "WKB",
        "geometry_types": ["Polygon"],
        "orientation": "counterclockwise",
        "bbox": [*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist()],
    }
    geo = {"version": GEOPARQUET, "primary_column": "geometry", "columns": {"geometry": column}}
    description = {"description": describe_column("geometry")}
    merged = table.append_column(pa.field("geometry", pa.binary(), metadata=description), geometry)
    metadata = dict(table.schema.metadata or {}) | {b"geo": json.dumps(geo).encode()}
    return merged.replace_schema_metadata(metadata)


def geojson(table: pa.Table) -> bytes | None:
    """Return the cells as the text of a GeoJSON FeatureCollection; None for labels."""
    collection = feature_collection(table)
    return None if collection is None else json.dumps(collection, ensure_ascii=False).encode()


def feature_collection(table: pa.Table) -> dict[str, Any] | None:
    """Return the cells as a GeoJSON FeatureCollection of Python values; None for labels."""
    rings = _outlines(table)
    if rings is None:
        return None
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [[*ring, ring[0]]]},
            "properties": {k: _json_value(v) for k, v in row.items()},
        }
        for row in table.to_pylist()
        for ring in (rings[row["hexagon"]],)
    ]
    return {"type": "FeatureCollection", "features": features}


def _outlines(table: pa.Table) -> dict[str, list[tuple[float, float]]] | None:
    """Return each hexagon's corners by name."""
    if "hexagon" not in table.column_names:
        return None
    return {name: hexagons.outline(int(name, 16)) for name in set(table["hexagon"].to_pylist())}


def _wkb(ring: list[tuple[float, float]]) -> bytes:
    """Return a closed polygon of one ring as little-endian well-known binary."""
    # A ring of the standard ends where it begins.
    corners = [*ring, ring[0]]
    flat = [coordinate for corner in corners for coordinate in corner]
    # Byte order, type polygon, one ring, its number of corners; then the coordinates.
    return struct.pack(f"<BIII{len(flat)}d", 1, 3, 1, len(corners), *flat)


def _json_value(value: object) -> object:
    # JSON has neither infinity nor NaN.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, (str, int, float)) or value is None else str(value)
