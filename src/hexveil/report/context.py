"""The optional layer beneath the map: public lines, outlines and points from a GeoJSON file.

Only geometry is kept; properties are never read. Places are (longitude, latitude) in degrees
(RFC 7946); a file in projected coordinates is refused.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 20_000_000
Line = list[tuple[float, float]]

# How deep the positions lie inside "coordinates", and how many of them a line needs.
_DEPTH = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2}
_DEPTH["MultiPolygon"] = 3

# What reading JSON of another shape can raise.
_NOT_GEOJSON = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def read_context(path: str | Path) -> dict[str, Any]:
    """Return the geometry of a GeoJSON file as a GeometryCollection, without properties.

    Parameters
    ----------
    path : str or Path
        A GeoJSON file of at most 20 MB with lines, polygons or points in degrees.

    Raises
    ------
    InputError
        If the file is missing, too large, not GeoJSON, or holds nothing that can be drawn.
    """
    if not isinstance(path, (str, Path)):
        raise InputError(
            f"context must be the path of a GeoJSON file, got a {type(path).__name__}; write it "
            "to a file first."
        )
    file = Path(path)
    try:
        size = file.stat().st_size
        text = file.read_bytes() if file.is_file() and size <= MAX_BYTES else None
    except OSError:
        raise InputError(
            f"context: the file {str(path)!r} cannot be read; name a GeoJSON file."
        ) from None
    if text is None:
        raise InputError(
            f"context: {str(path)!r} must be a file of at most {MAX_BYTES // 10**6} MB; "
            "keep only the lines near the map."
        )
    geometries = None
    with contextlib.suppress(*_NOT_GEOJSON):  # an error that holds the text is not kept
        geometries = list(_geometries(json.loads(text)))
    if geometries is None:
        raise InputError(
            f"context: {str(path)!r} is not GeoJSON with places as [longitude, latitude] in "
            "degrees; export the layer as GeoJSON in WGS 84."
        )
    if not geometries:
        raise InputError(
            f"context: {str(path)!r} holds no line, polygon or point; "
            "export a layer that has geometry."
        )
    return {"type": "GeometryCollection", "geometries": geometries}


def lines_of(context: dict[str, Any]) -> list[Line]:
    """Return everything drawable in GeoJSON as lines; a point is a line of one place.

    Raises
    ------
    InputError
        If it is not GeoJSON in degrees.
    """
    try:
        shapes = list(_geometries(context))
    except _NOT_GEOJSON:
        raise InputError(
            "context must be GeoJSON with places as [longitude, latitude] in degrees; "
            "read it with hexveil.report.read_context."
        ) from None
    return [line for shape in shapes for line in _lines(shape)]


def _geometries(data: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  any JSON
    """Yield each geometry that can be drawn, checked and reduced to type and coordinates."""
    kind = data["type"]
    if kind == "FeatureCollection":
        for feature in data["features"]:
            yield from _geometries(feature)
    elif kind == "Feature":
        if data.get("geometry") is not None:
            yield from _geometries(data["geometry"])
    elif kind == "GeometryCollection":
        for geometry in data["geometries"]:
            yield from _geometries(geometry)
    else:
        places = _places(data["coordinates"], _DEPTH[kind])
        if places:
            yield {"type": kind, "coordinates": places}


def _places(value: Any, depth: int) -> Any:  # noqa: ANN401  nested lists of JSON
    """Return nested lists of (longitude, latitude); raise ValueError outside degrees."""
    if not isinstance(value, list):
        raise TypeError("coordinates must be a list")
    if depth:
        return [inner for inner in (_places(item, depth - 1) for item in value) if inner]
    if not value:
        return []
    if any(isinstance(number, (str, bool)) for number in value[:2]):
        raise TypeError("a place must be two numbers")
    lon, lat = float(value[0]), float(value[1])
    if not (math.isfinite(lon) and abs(lon) <= 360 and abs(lat) <= 90):
        raise ValueError("not degrees")
    return [lon, lat]


def _lines(shape: dict[str, Any]) -> list[Line]:
    depth, places = _DEPTH[shape["type"]], shape["coordinates"]
    if depth == 0:
        return [[tuple(places)]]
    if shape["type"] == "MultiPoint":
        return [[tuple(place)] for place in places]
    if depth == 1:
        return [[tuple(place) for place in places]]
    rings = places if depth == 2 else [ring for polygon in places for ring in polygon]
    return [[tuple(place) for place in ring] for ring in rings]
