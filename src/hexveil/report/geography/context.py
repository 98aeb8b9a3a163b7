"""The optional layer beneath the map: public lines, outlines and points.

They come from a GeoJSON file. Of the properties only a name is kept, and of the file an
`attribution`. Positions are (longitude, latitude) in degrees (RFC 7946); a file in projected
coordinates is refused.
"""

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hexveil.base.errors import InputError

MAX_BYTES = 20_000_000
MAX_LETTERS = 60
"""Of a name; longer ones are cut."""
NAMES = ("name:en", "name")
"""Properties that name a feature; the first that is there is taken."""
Line = list[tuple[float, float]]
_DEPTH = {"MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}
"""Depth of the lists of positions in "coordinates"; a point has none."""
# What reading JSON of another shape can raise.
_NOT_GEOJSON = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


class Shape(NamedTuple):
    """A point, line or area of the layer.

    Attributes
    ----------
    name : str
        "" without one. Text from outside: whoever writes it somewhere must escape it.
    is_line : bool
        Whether it is a line, as a street is.
    lines : list of Line
        Everything to draw, in degrees; a point is a line of one place.
    """

    name: str
    is_line: bool
    lines: list[Line]

    @property
    def middle(self) -> tuple[float, float]:
        """The point, the middle corner of the longest line, or the mean of the area's corners."""
        longest = max(self.lines, key=len)
        if self.is_line:
            return longest[len(longest) // 2]
        # The first corner of a ring is its last one too.
        corners = longest[:-1] if len(longest) > 1 and longest[0] == longest[-1] else longest
        lon, lat = (sum(ends) / len(corners) for ends in zip(*corners, strict=True))
        return lon, lat


class Layer(NamedTuple):
    """What is drawn beneath the map, and its `attribution`; "" where the file has none."""

    shapes: list[Shape]
    attribution: str = ""


def read_context(path: str | Path) -> Layer:
    """Return the shapes and names of a GeoJSON file.

    Parameters
    ----------
    path : str or Path
        A GeoJSON file of at most 20 MB with lines, polygons or points in degrees.

    Returns
    -------
    Layer

    Raises
    ------
    InputError
        If the file is missing, too large, of another format, or holds nothing that can be drawn.
    """
    file = Path(path)
    if not file.is_file() or file.stat().st_size > MAX_BYTES:
        raise InputError(
            f"context: {str(file)!r} must be a file of at most {MAX_BYTES // 10**6} MB; name a "
            "GeoJSON file with only what is near the map."
        )
    layer = _layer(file)
    if not layer.shapes:
        raise InputError(
            f"context: {str(file)!r} holds no line, polygon or point; "
            "export a layer that has geometry."
        )
    return layer


def _layer(file: Path) -> Layer:
    """Return the content of a GeoJSON file."""
    with contextlib.suppress(*_NOT_GEOJSON, OSError):  # an error that holds the text is not kept
        content = json.loads(file.read_bytes())
        return Layer([*_shapes(content)], _one_line(content.get("attribution")))
    raise InputError(
        f"context: {str(file)!r} is not GeoJSON with places as [longitude, latitude] in degrees; "
        "export the layer as GeoJSON in WGS 84."
    )


def _shapes(data: Any, name: str = "") -> Iterator[Shape]:  # noqa: ANN401  any JSON
    """Yield each geometry that can be drawn with its name, checked and reduced to these."""
    kind = data["type"]
    if kind == "FeatureCollection":
        for feature in data["features"]:
            yield from _shapes(feature)
    elif kind == "Feature":
        if data.get("geometry") is not None:
            texts = map((data.get("properties") or {}).get, NAMES)
            name = next((text for text in texts if isinstance(text, str)), "")
            yield from _shapes(data["geometry"], _one_line(name))
    else:
        lines = _lines(data["coordinates"], 0 if kind == "Point" else _DEPTH[kind])
        if kind == "MultiPoint":
            lines = [[place] for line in lines for place in line]
        if lines:
            yield Shape(name, kind.endswith("LineString"), lines)


def _one_line(text: object) -> str:
    """Return a text on one line, cut; "" for anything else."""
    if not isinstance(text, str):
        return ""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:MAX_LETTERS]


def _lines(value: Any, depth: int) -> list[Line]:  # noqa: ANN401  nested lists of JSON
    """Return the lines in nested lists of positions."""
    if not isinstance(value, list):
        raise TypeError("coordinates must be a list")
    if depth > 1:
        return [line for inner in value for line in _lines(inner, depth - 1)]
    places = [_place(place) for place in (value if depth else [value])]
    return [places] if places else []


def _place(value: Any) -> tuple[float, float]:  # noqa: ANN401  JSON
    """Return (longitude, latitude); raise ValueError or TypeError outside degrees."""
    lon, lat = value[:2]
    if not (type(lon) in {int, float} and type(lat) in {int, float}):
        raise TypeError("a place must be two numbers")
    if not (math.isfinite(lon) and abs(lon) <= 360 and abs(lat) <= 90):
        raise ValueError("not degrees")
    return float(lon), float(lat)
