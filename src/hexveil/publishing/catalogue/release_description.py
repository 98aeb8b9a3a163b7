"""Description of a release for data portals: one set of facts for every standard.

Made from the released table's public columns and the manifest; no released number enters it, so it
is the same whatever the values were. Area and period come from the cells and the declared
selection. Data files are listed with their media types, as portals list them.
"""

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.model.cells import zone
from hexveil.publishing.archive.folder_names import folder_name
from hexveil.publishing.kinds.guarantee import WORDS
from hexveil.records.sources.record_format import NOT_DECLARED
from hexveil.report.manifest_view import common_unit, format_heading, spoken_value
from hexveil.report.origin import clock_name, days_of, describe_origin, stated_days
from hexveil.report.templates import render_sentence

Box = tuple[float, float, float, float]

_TEMPLATE = "catalogue.txt"
_SHORT = 16
"""Letters of a request in the name of its release."""
_DIGITS = 6
"""Of degrees: about ten centimetres."""


class DataFile(NamedTuple):
    """A file of a release that portals list.

    Attributes
    ----------
    name, title : str
    key : str
        Short name inside a description.
    media_type : str
        By IANA, or by the format's own specification.
    role : str
        "data", "metadata" or "overview", as in STAC.
    eu_format : str
        Code of the EU's file types.
    """

    name: str
    key: str
    media_type: str
    title: str
    role: str
    eu_format: str


_PARQUET, _GEOJSON = "application/vnd.apache.parquet", "application/geo+json"
_GUARANTEE = "Guarantee and origin of each number, for programs"
_FILES = (
    DataFile("cells.parquet", "parquet", _PARQUET, "Table of cells, Parquet", "data", "PARQUET"),
    DataFile("cells.csv", "csv", "text/csv", "Table of cells, CSV", "data", "CSV"),
    DataFile("cells.geojson", "geojson", _GEOJSON, "Map of cells, GeoJSON", "data", "GEOJSON"),
    DataFile("report.html", "report", "text/html", "Page with map and table", "overview", "HTML"),
    DataFile("manifest.json", "manifest", "application/json", _GUARANTEE, "metadata", "JSON"),
    DataFile(
        "README.txt", "readme", "text/plain", "Guarantee and columns, in words", "metadata", "TXT"
    ),
)
"""In the order in which they are listed."""


class ColumnDescription(NamedTuple):
    """A column of the released table.

    Attributes
    ----------
    name, text, unit : str
        `unit` is "" where there is none.
    kind : str
        "string", "integer", "number", "boolean", "time" (of a pooled slot), "datetime" (local) or
        "instant".
    optional : bool
        Whether a cell may have no number: closed cells of a map with private presence, and cells
        that one of several value columns does not have.
    """

    name: str
    text: str
    unit: str
    kind: str
    optional: bool


class Coverage(NamedTuple):
    """Area and period of a release.

    Attributes
    ----------
    box : (float, float, float, float) or None
        West, south, east and north end in degrees; west is larger than east where the area crosses
        the 180th meridian. None for labels.
    start, end : datetime or None
        First instant, and the instant after the last, UTC; None where the local clock is not known.
    days : (str, str) or None
        First and last local day.
    """

    box: Box | None
    start: datetime | None
    end: datetime | None
    days: tuple[str, str] | None

    def period(self) -> tuple[str, str] | None:
        """Return both ends of the period as ISO 8601: instants, else days; None without any."""
        if self.start is not None and self.end is not None:
            return instant_text(self.start), instant_text(self.end)
        return self.days


@dataclass(frozen=True)
class ReleaseDescription:
    """Facts that describe a release to portals.

    Attributes
    ----------
    identifier : str
        Fingerprint of the public request.
    name : str
        Lower-case ASCII, unique for the release.
    title, text : str
    version : str
        Of the records, as declared; "" if not.
    rows : int
        Number of cells.
    columns : tuple of ColumnDescription
    privacy : dict
        The promise, for programs.
    coverage : Coverage
    files : tuple of DataFile
    stated : dict
        Facts that the holder states; see `Catalogue.stated`.
    """

    identifier: str
    name: str
    title: str
    text: str
    version: str
    rows: int
    columns: tuple[ColumnDescription, ...]
    privacy: dict[str, Any]
    coverage: Coverage
    files: tuple[DataFile, ...]
    stated: dict[str, Any]

    @property
    def language(self) -> str:
        """Language of title and text."""
        return str(self.stated.get("language", "en"))

    @property
    def license_url(self) -> str:
        """URL of the licence; "" where none is stated."""
        stated = str(self.stated.get("license", ""))
        return f"https://spdx.org/licenses/{stated}" if stated and "://" not in stated else stated

    @property
    def email(self) -> str:
        """Address of the contact; "" where there is none, or a page in its place."""
        contact = str(self.stated.get("contact", ""))
        return "" if "://" in contact else contact

    def privacy_sentence(self) -> str:
        """Return the promise in words."""
        facts = {k: v for k, v in self.privacy.items() if k != "model"}
        return render_sentence(_TEMPLATE, "privacy", **facts)


def instant_text(instant: datetime) -> str:
    """Return an instant of UTC as ISO 8601."""
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def describe_release(
    table: pa.Table, manifest: dict[str, Any], names: frozenset[str]
) -> ReleaseDescription:
    """Return the description of a release.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    manifest : dict
        Statements of all value columns together.
    names : frozenset of str
        Files of the folder.
    """
    dataset, grid, stated = manifest["dataset"], manifest["grid"], manifest.get("catalogue", {})
    guarantee, statistics = manifest["guarantee"], manifest["plan"]["statistics"]
    sentence = {
        "heading": format_heading(statistics, spoken_value(dataset)),
        # Numbers of units, and shares of records, have no unit of measure.
        "value_unit": common_unit(statistics, dataset["value_unit"]),
        "dataset": dataset["name"],
        "grid": grid,
        "width": f"{hexagons.across(grid['resolution']):.2g}" if "resolution" in grid else "",
        "days": describe_origin(table, manifest)["brief_period"],
        "cells": table.num_rows,
        "promise": guarantee["promise"],
        "subtitle": manifest.get("subtitle", ""),
    }
    return ReleaseDescription(
        identifier=manifest["request"],
        name=f"{folder_name(dataset['name'])}-{manifest['request'][:_SHORT]}",
        title=stated.get("title")
        or manifest.get("title")
        or render_sentence(_TEMPLATE, "title", **sentence),
        text=stated.get("description") or render_sentence(_TEMPLATE, "description", **sentence),
        version="" if dataset["version"] in (None, NOT_DECLARED) else dataset["version"],
        rows=table.num_rows,
        columns=tuple(_column(field, manifest) for field in table.schema),
        privacy={
            "model": f"{'(epsilon, delta)' if 'delta' in guarantee else 'pure epsilon'}"
            "-differential privacy",
            "epsilon": guarantee["epsilon_spent"],
            "delta": guarantee.get("delta", ""),
            **{name: guarantee[name] for name in ("privacy_unit", *WORDS)},
        },
        coverage=find_coverage(table, manifest),
        files=tuple(file for file in _FILES if file.name in names),
        stated=stated,
    )


def _column(field: pa.Field, manifest: dict[str, Any]) -> ColumnDescription:
    """Return the description of a column, its kind by its name where Arrow has text."""
    kinds = {"int64": "integer", "double": "number", "bool": "boolean"}
    slot = "time" if manifest["grid"].get("slot") == "pooled" else "datetime"
    kind_by_name = {"slot": slot, "slot_end": slot, "starts_at_utc": "instant"}
    kind = kind_by_name.get(field.name) or kinds.get(str(field.type), "string")
    metadata = field.metadata or {}
    # Several value columns leave cells out, and closed cells have no number.
    gaps = tuple(f"{entry['prefix']}_" for entry in manifest.get("columns", ()))
    is_closed = manifest.get("model") == "presence" and kind == "number"
    text, unit = (metadata.get(key, b"").decode() for key in (b"description", b"unit"))
    return ColumnDescription(field.name, text, unit, kind, is_closed or field.name.startswith(gaps))


def find_coverage(table: pa.Table, manifest: dict[str, Any]) -> Coverage:
    """Return the coverage of a release: by its cells, its selection, or as the holder states it."""
    name, box = clock_name(manifest), _box(table)
    clock = zone(name) if name else None
    if "starts_at_utc" in table.column_names and clock is not None:
        starts = table["starts_at_utc"].to_pylist()
        final = datetime.fromisoformat(max(table["slot_end"].to_pylist())).replace(tzinfo=clock)
        ends = min(starts).astimezone(UTC), final.astimezone(UTC)
        return Coverage(box, *ends, days_of(table, manifest))
    stated = stated_days(manifest)
    if stated is None or clock is None:
        return Coverage(box, None, None, stated)
    first, last_day = map(date.fromisoformat, stated)
    ends = _midnight(first, clock), _midnight(last_day + timedelta(1), clock)
    return Coverage(box, *ends, stated)


def _midnight(day: date, clock: zoneinfo.ZoneInfo) -> datetime:
    return datetime.combine(day, datetime.min.time(), clock).astimezone(UTC)


def _box(table: pa.Table) -> Box | None:
    """Return the smallest box around all hexagons, across the 180th meridian if need be."""
    if "hexagon" not in table.column_names:
        return None
    names = sorted(set(table["hexagon"].to_pylist()))
    corners = np.array([corner for name in names for corner in hexagons.outline(int(name, 16))])
    around = np.unique(corners[:, 0] % 360.0)
    # The widest gap between meridians of corners lies outside of the area.
    gap = int(np.argmax(np.diff(np.append(around, around[0] + 360.0))))
    west, east = (
        (end + 180.0) % 360.0 - 180.0 for end in (around[(gap + 1) % around.size], around[gap])
    )
    ends = (west, corners[:, 1].min(), east, corners[:, 1].max())
    west, south, east, north = (round(float(end), _DIGITS) for end in ends)
    return west, south, east, north
