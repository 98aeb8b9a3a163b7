"""Declared areas: a polygon, a box, or hexagons by name. Public, and never made from records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexveil.base import hexagons
from hexveil.base.errors import InputError
from hexveil.base.rational import items_of

_FORMS = (
    "area must be a box (west, south, east, north in degrees), a polygon of (longitude, latitude) "
    "corners, a GeoJSON polygon, or names of hexagons"
)


@dataclass(frozen=True)
class Polygon:
    """Area inside a ring of corners; hexagons with centres in it belong to the grid.

    Attributes
    ----------
    corners : tuple of (float, float)
        Longitude and latitude in degrees, at least three.
    """

    corners: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        corners = tuple((float(lon), float(lat)) for lon, lat in self.corners)
        if len(set(corners)) < 3:
            raise InputError("a polygon needs at least three different corners.")
        if not all(-180 <= lon <= 180 and -90 <= lat <= 90 for lon, lat in corners):
            raise InputError(
                "corners are (longitude, latitude) in degrees, from -180 to 180 and -90 to 90."
            )
        object.__setattr__(self, "corners", corners)

    @classmethod
    def of_box(cls, west: float, south: float, east: float, north: float) -> "Polygon":
        """Return the area between two longitudes and two latitudes."""
        if not (west < east and south < north):
            raise InputError("a box runs from west to east and from south to north.")
        return cls(((west, south), (east, south), (east, north), (west, north)))

    def hexagons(self, resolution: int) -> NDArray[np.uint64]:
        """Return the hexagons of the area."""
        return hexagons.of_polygon(self.corners, resolution)


@dataclass(frozen=True)
class HexagonList:
    """Hexagons by name. Listing them declares that they are in use.

    Attributes
    ----------
    names : tuple of str
        Canonical H3 indexes.
    """

    names: tuple[str, ...]

    def hexagons(self, resolution: int) -> NDArray[np.uint64]:
        """Return the hexagons; raise InputError for a name of another resolution."""
        for name in self.names:
            if not hexagons.is_name(name, resolution):
                raise InputError(f"{name!r} is no hexagon of resolution {resolution}.")
        return np.array(sorted({int(name, 16) for name in self.names}), dtype=np.uint64)


Area: TypeAlias = Polygon | HexagonList


def area_of(value: object) -> Area:
    """Return the area that a caller wrote.

    Parameters
    ----------
    value : Polygon, HexagonList, mapping or sequence
        A GeoJSON Polygon (its outer ring), four degrees, corners, or names of hexagons.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> area_of((72.7, 21.0, 73.0, 21.4)).corners[0]
    (72.7, 21.0)
    >>> area_of(["8642c8d37ffffff"])
    HexagonList(names=('8642c8d37ffffff',))
    """
    if isinstance(value, (Polygon, HexagonList)):
        return value
    try:
        return _parsed(value)
    except (TypeError, ValueError, KeyError, IndexError):
        raise InputError(f"{_FORMS}, got {value!r}."[:400]) from None


def _parsed(value: object) -> Area:
    """Return the area of a value of plain Python; raise any error of a conversion."""
    if isinstance(value, Mapping):
        geometry = value.get("geometry", value)
        if geometry["type"] != "Polygon" or len(geometry["coordinates"]) != 1:
            raise ValueError("not a polygon of one ring")
        return Polygon(tuple((float(p[0]), float(p[1])) for p in geometry["coordinates"][0]))
    if isinstance(value, (set, frozenset)) and not all(isinstance(item, str) for item in value):
        raise TypeError("degrees and corners have an order")
    value = [] if isinstance(value, str) else items_of(value)
    if not value:
        raise TypeError("not a sequence")
    if all(isinstance(item, (list, tuple)) for item in value):
        return Polygon(tuple((float(lon), float(lat)) for lon, lat in value))
    if len(value) == 4 and all(_is_degree(item) for item in value):
        west, south, east, north = map(float, value)
        return Polygon.of_box(west, south, east, north)
    if not all(isinstance(item, str) for item in value):
        raise TypeError("not names")
    return HexagonList(tuple(value))


def _is_degree(value: object) -> bool:
    """Return whether a value is a number from -180 to 180, also as text."""
    try:
        return abs(float(value)) <= 180.0  # type: ignore[arg-type]  # any value
    except (TypeError, ValueError):
        return False
