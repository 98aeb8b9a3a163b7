"""Data files of a release that portals list, and vector tiles of a large map.

Tiles stand in one PMTiles file, written by GDAL. A tile holds every cell that touches it, at every
zoom, with its columns: nothing is dropped or simplified away, so that a map and the table say the
same. A program that draws only some zooms fetches only their parts of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.base.optional_packages import is_installed, require_package
from hexveil.publishing.estimates import places

TILES = "cells.pmtiles"


@dataclass(frozen=True)
class DataFile:
    """A file of a release that portals list.

    Attributes
    ----------
    name : str
        In the folder.
    key : str
        Short name inside a description.
    media_type : str
        By IANA, or by the format's own specification.
    title : str
    role : str
        "data", "metadata" or "overview", as in STAC.
    eu_format : str
        Code of the EU's file types; "" where it has none.
    """

    name: str
    key: str
    media_type: str
    title: str
    role: str = "data"
    eu_format: str = ""


FILES = (
    DataFile(
        "cells.parquet",
        "parquet",
        "application/vnd.apache.parquet",
        "Table of cells, Parquet",
        eu_format="PARQUET",
    ),
    DataFile("cells.csv", "csv", "text/csv", "Table of cells, CSV", eu_format="CSV"),
    DataFile(
        "cells.geojson",
        "geojson",
        "application/geo+json",
        "Map of cells, GeoJSON",
        eu_format="GEOJSON",
    ),
    DataFile(TILES, "pmtiles", "application/vnd.pmtiles", "Map of cells, vector tiles (PMTiles)"),
    DataFile("report.html", "report", "text/html", "Page with map and table", "overview", "HTML"),
    DataFile(
        "manifest.json",
        "manifest",
        "application/json",
        "Guarantee and origin of each number, for programs",
        "metadata",
        "JSON",
    ),
    DataFile(
        "README.txt", "readme", "text/plain", "Guarantee and columns, in words", "metadata", "TXT"
    ),
)
"""In the order in which they are listed."""


def listed_files(names: frozenset[str]) -> tuple[DataFile, ...]:
    """Return the files that portals list, of those that a folder has."""
    return tuple(file for file in FILES if file.name in names)


LAYER = "cells"
MIN_CELLS = 50_000
"""Number of cells from which a folder has tiles unless told otherwise."""
_WORLD = 40_075_017.0
"""Length of the equator in metres: the width of the world at zoom 0."""
_TILE = 512
"""Pixels of a tile's side, as browsers draw vector tiles."""
_SMALLEST, _LARGEST = 2.0, 16.0
"""Width of a hexagon in pixels at the first and at the last zoom; browsers enlarge beyond."""
_MAX_ZOOM = 16
_UNLIMITED = 2**31 - 1


def wants_tiles(table: pa.Table, tiles: bool | None) -> bool:
    """Return whether a folder gets tiles.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    tiles : bool, optional
        Whether they were requested. Without it: for maps of at least `MIN_CELLS` cells where GDAL
        is installed.

    Raises
    ------
    InputError
        If tiles were requested and GDAL is not installed.
    """
    if tiles is False or "hexagon" not in table.column_names:
        return False
    if tiles:
        require_package("pyogrio", "tiles")
        return True
    return table.num_rows >= MIN_CELLS and is_installed("pyogrio")


def write_tiles(table: pa.Table, path: Path) -> None:
    """Write the vector tiles of a map."""
    import pyogrio  # noqa: PLC0415  an extra

    first, final = zooms(int(table["hexagon"][0].as_py(), 16))
    pyogrio.write_arrow(
        _as_features(table),
        path,
        driver="PMTiles",
        layer=LAYER,
        geometry_name="geometry",
        geometry_type="Polygon",
        crs="EPSG:4326",
        dataset_options={
            "NAME": LAYER,
            "MINZOOM": str(first),
            "MAXZOOM": str(final),
            # Otherwise cells that make a tile large would be left out of it.
            "MAX_SIZE": str(_UNLIMITED),
            "MAX_FEATURES": str(_UNLIMITED),
            "SIMPLIFICATION": "0",
        },
    )


def zooms(hexagon: int) -> tuple[int, int]:
    """Return the first and the last zoom for hexagons of this size.

    Examples
    --------
    >>> zooms(0x8742D9993FFFFFF)
    (7, 10)
    """
    corners = np.array(hexagons.outline(hexagon))
    # A degree of latitude is as long everywhere: the height does not depend on the place.
    metres = np.ptp(corners[:, 1]) * _WORLD / 360.0
    pixels = metres * _TILE / _WORLD
    first, final = (int(np.ceil(np.log2(size / pixels))) for size in (_SMALLEST, _LARGEST))
    return min(max(first, 0), _MAX_ZOOM), min(max(final, 0), _MAX_ZOOM)


def _as_features(table: pa.Table) -> pa.Table:
    """Return the table with outlines, and with instants as text, which tiles have no type for."""
    features = places.with_geometry(table).replace_schema_metadata(None)
    if "starts_at_utc" in features.column_names:
        index = features.column_names.index("starts_at_utc")
        texts = [f"{instant:%Y-%m-%dT%H:%M:%SZ}" for instant in table["starts_at_utc"].to_pylist()]
        features = features.set_column(index, "starts_at_utc", pa.array(texts, pa.string()))
    return features
