"""The one typed door to H3: hexagons of places, their names, outlines and parents.

h3ronpy is vectorised; h3 stands behind the same functions where h3ronpy is not installed, and is
the reference in the tests. Places must be finite and in range: the caller guards that.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import h3
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

if importlib.util.find_spec("h3ronpy"):
    import h3ronpy
    import h3ronpy.vector as h3v
else:  # pragma: no cover  the fallback is tested through its functions
    h3ronpy = h3v = None


def of_places(lat: pa.Array, lon: pa.Array, resolution: int) -> pa.Array:
    """Return the hexagon of each place as uint64; null for a null place.

    Parameters
    ----------
    lat, lon : pyarrow.Array of double
        Degrees, finite and in range, or null.
    resolution : int
        0 to 15.
    """
    if h3v is None:  # pragma: no cover
        return places_by_reference(lat, lon, resolution)
    return pa.array(h3v.coordinates_to_cells(lat, lon, resolution))


def places_by_reference(lat: pa.Array, lon: pa.Array, resolution: int) -> pa.Array:
    """Return the same as `of_places`, one place at a time, by the H3 reference library."""
    return pa.array(
        [
            None if a is None or b is None else h3.str_to_int(h3.latlng_to_cell(a, b, resolution))
            for a, b in zip(lat.to_pylist(), lon.to_pylist(), strict=True)
        ],
        type=pa.uint64(),
    )


def names(hexagon: NDArray[np.uint64]) -> list[str]:
    """Return each hexagon as the usual hex string."""
    return [h3.int_to_str(int(index)) for index in hexagon]


def parents(hexagon: NDArray[np.uint64], resolution: int) -> NDArray[np.uint64]:
    """Return the hexagon at a coarser resolution that each belongs to."""
    if h3ronpy is None:  # pragma: no cover
        up = [h3.cell_to_parent(h3.int_to_str(int(i)), resolution) for i in hexagon]
        return np.array([h3.str_to_int(i) for i in up], dtype=np.uint64)
    coarse: Any = h3ronpy.change_resolution(pa.array(hexagon, type=pa.uint64()), resolution)
    return np.asarray(pa.array(coarse).to_numpy(), dtype=np.uint64)


def neighbours(hexagon: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the pairs of given hexagons that share an edge, each pair once, shape (n, 2)."""
    given = np.unique(np.asarray(hexagon, dtype=np.uint64))
    if h3ronpy is None:  # pragma: no cover
        text = [h3.grid_disk(h3.int_to_str(int(i)), 1) for i in given]
        disks = [[h3.str_to_int(i) for i in disk] for disk in text]
    else:
        found: Any = h3ronpy.grid_disk(pa.array(given, type=pa.uint64()), 1, flatten=False)
        disks = pa.array(found).to_pylist()
    one = np.repeat(given, [len(disk) for disk in disks])
    other = np.array([i for disk in disks for i in disk], dtype=np.uint64)
    met = (one < other) & np.isin(other, given)
    return np.stack([one[met], other[met]], axis=1)


def outline(hexagon: int) -> list[tuple[float, float]]:
    """Return a hexagon's corners as open ring of (longitude, latitude), counter-clockwise.

    A hexagon that crosses the 180th meridian keeps longitudes on one side of it (up to 540
    degrees apart from nothing), so that it is drawn whole.
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
    """Return whether a text is the usual hex string of a hexagon of this resolution.

    Examples
    --------
    >>> is_name("8842599969fffff", 8), is_name("8842599969FFFFF", 8), is_name("bus 7", 8)
    (True, False, False)
    """
    known = h3.is_valid_cell(text) and h3.int_to_str(h3.str_to_int(text)) == text
    return bool(known and h3.get_resolution(text) == resolution)
