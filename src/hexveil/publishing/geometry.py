"""The geometry of released cells: GeoParquet's WKB column and GeoJSON features."""

from __future__ import annotations

import json
import math
import struct
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.publishing.estimates.released_columns import describe_column

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
