"""The optional layer beneath the map: public lines, outlines and points.

They come from a GeoJSON file, or from an OpenStreetMap extract (openstreetmap.py). Of the
properties only a name is kept. Positions are (longitude, latitude) in degrees (RFC 7946); a file in
projected coordinates is refused.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.report.geography import openstreetmap

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 20_000_000
MAX_LETTERS = 60
"""Of a name; longer ones are cut."""
NAMES = ("name:en", "name")
"""Properties that name a feature; the first that is there is taken."""
Line = list[tuple[float, float]]

# How deep the positions lie inside "coordinates", and how many of them a line needs.
_DEPTH = {"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2}
_DEPTH["MultiPolygon"] = 3

# What reading JSON of another shape can raise.
_NOT_GEOJSON = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def read_context(path: str | Path) -> dict[str, Any]:
    """Return a GeoJSON file or OpenStreetMap extract as a FeatureCollection of shapes and names.

    Names are text from outside: whoever writes them somewhere must escape them.

    Parameters
    ----------
    path : str or Path
        A GeoJSON file of at most 20 MB with lines, polygons or points in degrees, or an extract of
        OpenStreetMap, `.osm` or `.osm.pbf`, of at most 100 MB.

    Returns
    -------
    dict
        GeoJSON; with `attribution`, a text, where the data ask for one.

    Raises
    ------
    InputError
        If the file is missing, too large, of another format, or holds nothing that can be drawn;
        for an extract without the extra `tiles`.
    """
    if not isinstance(path, (str, Path)):
        raise InputError(
            "context must be the path of a GeoJSON file or an OpenStreetMap extract, got a "
            f"{type(path).__name__}; write it to a file first."
        )
    file = Path(path)
    is_extract = openstreetmap.is_extract(file)
    _check_size(file, openstreetmap.MAX_BYTES if is_extract else MAX_BYTES)
    if is_extract:
        collection = {"attribution": openstreetmap.ATTRIBUTION, "features": _extract(file)}
    else:
        collection = {"features": _geojson(file)}
    if not collection["features"]:
        raise InputError(
            f"context: {str(path)!r} holds no line, polygon or point; "
            "export a layer that has geometry."
        )
    return {"type": "FeatureCollection", **collection}


def _check_size(file: Path, limit: int) -> None:
    try:
        fits = file.stat().st_size <= limit and file.is_file()
    except OSError:
        raise InputError(
            f"context: the file {str(file)!r} cannot be read; name a GeoJSON file or an "
            "OpenStreetMap extract."
        ) from None
    if not fits:
        raise InputError(
            f"context: {str(file)!r} must be a file of at most {limit // 10**6} MB; "
            "keep only what is near the map."
        )


def _extract(file: Path) -> list[dict[str, Any]]:
    """Return the features of an extract, checked as those of GeoJSON are."""
    features = openstreetmap.read_extract(file)
    return list(_features({"type": "FeatureCollection", "features": features}))


def _geojson(file: Path) -> list[dict[str, Any]]:
    """Return the features of a GeoJSON file."""
    features = None
    with contextlib.suppress(*_NOT_GEOJSON, OSError):  # an error that holds the text is not kept
        features = list(_features(json.loads(file.read_bytes())))
    if features is None:
        raise InputError(
            f"context: {str(file)!r} is not GeoJSON with places as [longitude, latitude] in "
            "degrees; export the layer as GeoJSON in WGS 84."
        )
    return features


def lines_of(context: dict[str, Any]) -> list[Line]:
    """Return everything drawable in GeoJSON as lines; a point is a line of one place.

    Raises
    ------
    InputError
        If it is not GeoJSON in degrees.
    """
    return [line for feature in _checked(context) for line in _lines(feature["geometry"])]


def named_positions(context: dict[str, Any]) -> list[tuple[str, tuple[float, float], bool]]:
    """Return each name with a position, and whether it is that of a line, as of a street.

    A point stands where it is, an area at the mean of its corners, a line at its middle corner.

    Raises
    ------
    InputError
        If it is not GeoJSON in degrees.
    """
    found = []
    for feature in _checked(context):
        name = feature["properties"].get("name")
        lines = _lines(feature["geometry"]) if name else []
        if not lines:
            continue
        is_line = feature["geometry"]["type"].endswith("LineString")
        longest = max(lines, key=len)
        found.append((name, longest[len(longest) // 2] if is_line else _middle(longest), is_line))
    return found


def named_lines(context: dict[str, Any]) -> list[tuple[str, Line]]:
    """Return each named line, as of a street, with its name.

    Raises
    ------
    InputError
        If it is not GeoJSON in degrees.
    """
    return [
        (name, line)
        for feature in _checked(context)
        if (name := feature["properties"].get("name"))
        and feature["geometry"]["type"].endswith("LineString")
        for line in _lines(feature["geometry"])
    ]


def _middle(line: Line) -> tuple[float, float]:
    # The first corner of a ring is its last one too.
    corners = line[:-1] if len(line) > 1 and line[0] == line[-1] else line
    return (
        sum(lon for lon, _ in corners) / len(corners),
        sum(lat for _, lat in corners) / len(corners),
    )


def _checked(context: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return list(_features(context))
    except _NOT_GEOJSON:
        raise InputError(
            "context must be GeoJSON with places as [longitude, latitude] in degrees; "
            "read it with hexveil.report.read_context."
        ) from None


def _features(data: Any, name: str = "") -> Iterator[dict[str, Any]]:  # noqa: ANN401  any JSON
    """Yield each geometry that can be drawn with its name, checked and reduced to these."""
    kind = data["type"]
    if kind == "FeatureCollection":
        for feature in data["features"]:
            yield from _features(feature)
    elif kind == "Feature":
        if data.get("geometry") is not None:
            yield from _features(data["geometry"], _name(data.get("properties") or {}))
    elif kind == "GeometryCollection":
        for geometry in data["geometries"]:
            yield from _features(geometry, name)
    else:
        places = _places(data["coordinates"], _DEPTH[kind])
        if places:
            yield {
                "type": "Feature",
                "properties": {"name": name} if name else {},
                "geometry": {"type": kind, "coordinates": places},
            }


def _name(properties: dict[str, Any]) -> str:
    """Return the name of a feature on one line; "" without one."""
    found = (properties.get(key) for key in NAMES)
    name = next((text for text in found if isinstance(text, str)), "")
    printable = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(printable.split())[:MAX_LETTERS]


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
