"""Streets and names of an OpenStreetMap extract, `.osm` or `.osm.pbf`, read by GDAL.

Kept are roads from motorways to residential streets, railways, rivers and canals, with the names of
roads, and the names of settlements and districts. Footpaths, driveways, buildings and areas would
fill a page and name nothing that a hexagon needs. The data are under the Open Database License
(ODbL), which asks for the attribution that the page shows.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package

if TYPE_CHECKING:
    from pathlib import Path

    Feature = dict[str, Any]

ATTRIBUTION = "© OpenStreetMap contributors (ODbL)"
MAX_BYTES = 100_000_000
ENDINGS = (".osm", ".pbf")
ROADS = (
    "motorway", "trunk", "primary", "secondary", "tertiary", "unclassified", "residential",
    "living_street", "pedestrian",
)  # fmt: skip
"""Classes of roads, the most important first."""
PLACES = (
    "city", "town", "borough", "suburb", "village", "quarter", "neighbourhood", "hamlet",
)  # fmt: skip
"""Kinds of named places, the best known first."""
WATERWAYS = ("river", "canal")
_LAYERS = {
    "points": ("place", f"place IN {PLACES}"),
    "lines": (
        "highway",
        f"highway IN {ROADS} OR waterway IN {WATERWAYS} OR railway IN ('rail')",
    ),
}
_POINT, _LINE = 1, 2
"""Kinds of geometry in well-known binary (OGC 06-103r4)."""


def is_extract(file: Path) -> bool:
    """Return whether a file has the ending of an OpenStreetMap extract."""
    return file.suffix.lower() in ENDINGS


def read_extract(file: Path) -> list[Feature]:
    """Return the streets and named places of an extract as GeoJSON features.

    Places come first, the best known before others; then lines, main roads before side streets.

    Parameters
    ----------
    file : Path

    Raises
    ------
    InputError
        If the extra `tiles` is missing, or the file is no extract.
    """
    require_package("pyogrio", "tiles")
    features: list[Feature] = []
    for layer, (key, condition) in _LAYERS.items():
        rows = _rows(file, layer, key, condition)
        order = PLACES if layer == "points" else ROADS
        # Stable: among equals the order of the file.
        rows.sort(key=lambda row: order.index(row[1]) if row[1] in order else len(order))
        features += [_feature(name, kind, shape) for name, kind, shape in rows]
    return [feature for feature in features if feature["geometry"]["coordinates"]]


def _rows(file: Path, layer: str, key: str, condition: str) -> list[tuple[str, str, bytes]]:
    """Return name, kind and well-known binary of the features that meet a condition."""
    import pyogrio  # noqa: PLC0415  an extra

    try:
        _, table = pyogrio.read_arrow(file, layer=layer, columns=["name", key], where=condition)
    except (pyogrio.errors.DataSourceError, pyogrio.errors.DataLayerError, RuntimeError):
        raise InputError(
            f"context: {str(file)!r} is not an OpenStreetMap extract; name a file .osm or "
            ".osm.pbf, such as osmium extract writes."
        ) from None
    columns = (table[name].to_pylist() for name in ("name", key, table.column_names[-1]))
    return [(name or "", kind or "", shape) for name, kind, shape in zip(*columns, strict=True)]


def _feature(name: str, kind: str, shape: bytes) -> Feature:
    # Rivers and railways are drawn; they name no street.
    named = {"name": name} if name and kind else {}
    geometry, coordinates = _coordinates(shape)
    return {
        "type": "Feature",
        "properties": named,
        "geometry": {"type": geometry, "coordinates": coordinates},
    }


def _coordinates(shape: bytes) -> tuple[str, list[Any]]:
    """Return the type and positions of a point or line in little-endian well-known binary."""
    kind = struct.unpack_from("<I", shape, 1)[0] if shape else 0
    if kind == _POINT:
        return "Point", np.frombuffer(shape, "<f8", 2, 5).tolist()
    if kind == _LINE:
        return "LineString", np.frombuffer(shape, "<f8", offset=9).reshape(-1, 2).tolist()
    return "LineString", []
