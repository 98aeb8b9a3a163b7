"""The optional layer beneath the map: public lines, outlines and points.

They come from a GeoJSON file. Of the properties only a name is kept, and of the file an
`attribution`. Positions are (longitude, latitude) in degrees (RFC 7946); a file in projected
coordinates is refused.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hexveil.base.errors import InputError

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
    """Return a GeoJSON file as a FeatureCollection of shapes and names.

    Names are text from outside: whoever writes them somewhere must escape them.

    Parameters
    ----------
    path : str or Path
        A GeoJSON file of at most 20 MB with lines, polygons or points in degrees.

    Returns
    -------
    dict
        GeoJSON; with `attribution`, a text, where the file has one.

    Raises
    ------
    InputError
        If the file is missing, too large, of another format, or holds nothing that can be drawn.
    """
    if not isinstance(path, (str, Path)):
        raise InputError(
            f"context must be the path of a GeoJSON file, got a {type(path).__name__}; write it "
            "to a file first."
        )
    file = Path(path)
    try:
        fits = file.stat().st_size <= MAX_BYTES and file.is_file()
    except OSError:
        raise InputError(
            f"context: the file {str(file)!r} cannot be read; name a GeoJSON file."
        ) from None
    if not fits:
        raise InputError(
            f"context: {str(file)!r} must be a file of at most {MAX_BYTES // 10**6} MB; "
            "keep only what is near the map."
        )
    collection = _geojson(file)
    if not collection["features"]:
        raise InputError(
            f"context: {str(path)!r} holds no line, polygon or point; "
            "export a layer that has geometry."
        )
    return {"type": "FeatureCollection", **collection}


def _geojson(file: Path) -> dict[str, Any]:
    """Return the features of a GeoJSON file, and its attribution if it has one."""
    with contextlib.suppress(*_NOT_GEOJSON, OSError):  # an error that holds the text is not kept
        content = json.loads(file.read_bytes())
        credit = _one_line(content.get("attribution"))
        return ({"attribution": credit} if credit else {}) | {"features": list(_features(content))}
    raise InputError(
        f"context: {str(file)!r} is not GeoJSON with places as [longitude, latitude] in degrees; "
        "export the layer as GeoJSON in WGS 84."
    )


def lines_of(context: dict[str, Any]) -> list[Line]:
    """Return everything drawable in a context as lines; a point is a line of one place."""
    return [line for feature in context["features"] for line in _lines(feature["geometry"])]


def named_positions(context: dict[str, Any]) -> list[tuple[str, tuple[float, float], bool]]:
    """Return each name with a position, and whether it is that of a line, as of a street.

    A point stands where it is, an area at the mean of its corners, a line at its middle corner.
    """
    result = []
    for feature in context["features"]:
        name = feature["properties"].get("name")
        lines = _lines(feature["geometry"]) if name else []
        if not lines:
            continue
        is_line = feature["geometry"]["type"].endswith("LineString")
        longest = max(lines, key=len)
        # The first corner of a ring is its last one too.
        corners = longest[:-1] if len(longest) > 1 and longest[0] == longest[-1] else longest
        middle = tuple(sum(one) / len(corners) for one in zip(*corners, strict=True))
        result.append((name, longest[len(longest) // 2] if is_line else middle, is_line))
    return result


def _features(data: Any, name: str = "") -> Iterator[dict[str, Any]]:  # noqa: ANN401  any JSON
    """Yield each geometry that can be drawn with its name, checked and reduced to these."""
    kind = data["type"]
    if kind == "FeatureCollection":
        for feature in data["features"]:
            yield from _features(feature)
    elif kind == "Feature":
        if data.get("geometry") is not None:
            texts = map((data.get("properties") or {}).get, NAMES)
            name = next((text for text in texts if isinstance(text, str)), "")
            yield from _features(data["geometry"], _one_line(name))
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


def _one_line(text: object) -> str:
    """Return a text on one line, cut; "" for anything else."""
    if not isinstance(text, str):
        return ""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
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
    if shape["type"].endswith("Point"):
        return [[tuple(place)] for place in (places if depth else [places])]
    rings = places if depth > 1 else [places]
    rings = [ring for polygon in rings for ring in polygon] if depth > 2 else rings
    return [[tuple(place) for place in ring] for ring in rings]
