"""Typed interface to H3: hexagons of places, their names, outlines and parents.

No other module imports H3. Hexagons of records' places are asked of h3ronpy, which is vectorised
and no recipient has; h3 is its reference in the tests. The caller ensures that places are finite
and in range.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import h3
import h3.api.basic_int
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


def of_places(lat: pa.Array, lon: pa.Array, resolution: int) -> pa.Array:
    """Return the hexagon of each place as uint64; null for a null place.

    Parameters
    ----------
    lat, lon : pyarrow.Array of double
        Degrees, finite and in range, or null.
    resolution : int
        0 to 15.
    """
    from h3ronpy import vector  # noqa: PLC0415  of the extra that publishes

    return pa.array(vector.coordinates_to_cells(lat, lon, resolution))


def of_place(lat: float, lon: float, resolution: int) -> int:
    """Return the hexagon of one place, in degrees."""
    return int(h3.api.basic_int.latlng_to_cell(lat, lon, resolution))


def names(hexagon: NDArray[np.uint64]) -> list[str]:
    """Return each hexagon as its canonical hex string."""
    return [h3.int_to_str(int(index)) for index in hexagon]


def parents(hexagon: NDArray[np.uint64], resolution: int) -> NDArray[np.uint64]:
    """Return the hexagon at a coarser resolution that each belongs to.

    Raises
    ------
    ValueError
        If an index is no hexagon of that resolution or a finer one.
    """
    distinct, place = np.unique(hexagon.astype(np.uint64), return_inverse=True)
    coarse = [h3.api.basic_int.cell_to_parent(index, resolution) for index in distinct.tolist()]
    return np.array(coarse, dtype=np.uint64)[place]


def across(resolution: int) -> float:
    """Return how wide hexagons of a resolution are on average, in km: as circles of their area.

    Examples
    --------
    >>> [float(f"{across(resolution):.2g}") for resolution in (3, 6, 9)]
    [130.0, 6.8, 0.37]
    """
    return 2.0 * math.sqrt(h3.average_hexagon_area(resolution, unit="km^2") / math.pi)


def of_polygon(corners: Iterable[tuple[float, float]], resolution: int) -> NDArray[np.uint64]:
    """Return the hexagons with centres inside a ring of (longitude, latitude), in order."""
    shape = h3.LatLngPoly([(lat, lon) for lon, lat in corners])
    return np.array(sorted(h3.api.basic_int.polygon_to_cells(shape, resolution)), dtype=np.uint64)


def neighbours(hexagon: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the pairs of hexagons that share an edge, each pair once, shape (n, 2)."""
    hexagons = np.unique(np.asarray(hexagon, dtype=np.uint64))
    disks = [h3.api.basic_int.grid_disk(index, 1) for index in hexagons.tolist()]
    centres = np.repeat(hexagons, [len(disk) for disk in disks])
    adjacent = np.array([index for disk in disks for index in disk], dtype=np.uint64)
    # Each edge is listed from both sides; the smaller index keeps it.
    is_pair = (centres < adjacent) & np.isin(adjacent, hexagons)
    return np.stack([centres[is_pair], adjacent[is_pair]], axis=1)


def outline(hexagon: int) -> list[tuple[float, float]]:
    """Return a hexagon's corners as an open ring of (longitude, latitude), counter-clockwise.

    A hexagon that crosses the 180th meridian keeps its longitudes on one side of it (values up to
    540), so that it is drawn in one piece.
    """
    ring = [(lon, lat) for lat, lon in h3.cell_to_boundary(h3.int_to_str(int(hexagon)))]
    lons = [lon for lon, _ in ring]
    if max(lons) - min(lons) > 180:
        ring = [(lon + 360 if lon < 0 else lon, lat) for lon, lat in ring]
    return ring


def centre(hexagon: int) -> tuple[float, float]:
    """Return the latitude and longitude of one hexagon's centre."""
    lat, lon = h3.cell_to_latlng(h3.int_to_str(int(hexagon)))
    return float(lat), float(lon)


def resolution_of(hexagon: int) -> int:
    """Return the resolution of one hexagon."""
    return int(h3.get_resolution(h3.int_to_str(int(hexagon))))


def is_name(text: str, resolution: int) -> bool:
    """Return whether a text is the canonical hex string of a hexagon of this resolution.

    Examples
    --------
    >>> is_name("8842599969fffff", 8), is_name("8842599969FFFFF", 8), is_name("bus 7", 8)
    (True, False, False)
    """
    canonical = h3.is_valid_cell(text) and h3.int_to_str(h3.str_to_int(text)) == text
    return bool(canonical and h3.get_resolution(text) == resolution)
