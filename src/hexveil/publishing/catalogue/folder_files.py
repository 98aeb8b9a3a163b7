"""Data files of a release folder, with their media types, as portals list them."""

from __future__ import annotations

from dataclasses import dataclass

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
