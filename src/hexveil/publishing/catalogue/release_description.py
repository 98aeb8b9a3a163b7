"""Description of a release for data portals: one set of facts for every standard.

Made from the released table's public columns and the manifest; no released number enters it, so it
is the same whatever the values were.

Area and period come from the cells and the declared selection. Data files are listed with their
media types, as portals list them.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons
from hexveil.model.cells import DAY, slot_seconds, zone
from hexveil.publishing.archive.folder_names import folder_name
from hexveil.publishing.catalogue.data_files import DataFile, listed_files
from hexveil.records.sources.record_format import NOT_DECLARED
from hexveil.report.manifest_view import common_unit, format_heading, spoken_value
from hexveil.report.origin import clock_name, days_of, stated_days
from hexveil.report.templates import render_sentence

Box = tuple[float, float, float, float]


_TEMPLATE = "catalogue.txt"
_SHORT = 16


@dataclass(frozen=True)
class ColumnDescription:
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
    optional: bool = False


@dataclass(frozen=True)
class PrivacyStatement:
    """The promise of a release, for programs.

    Attributes
    ----------
    model : str
        The name of the guarantee.
    epsilon : str
        Decimal text: the largest loss of a privacy unit, rounded up.
    unit, promise, neighbours, not_protected : str
    assumptions : tuple of str
    delta : str
        Decimal text; "" of a pure promise.
    """

    model: str
    epsilon: str
    unit: str
    promise: str
    neighbours: str
    not_protected: str
    assumptions: tuple[str, ...]
    delta: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "model": self.model,
            "epsilon": self.epsilon,
            **stated_facts({"delta": self.delta}),
            "privacy_unit": self.unit,
            "promise": self.promise,
            "neighbours": self.neighbours,
            "assumptions": list(self.assumptions),
            "not_protected": self.not_protected,
        }

    def in_words(self) -> str:
        """Return it as text."""
        facts = {name: fact for name, fact in vars(self).items() if name != "model"}
        return render_sentence(_TEMPLATE, "privacy", **facts)


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
    timeslot : str
        Length of a slot as an ISO 8601 duration; "" without slots.
    columns : tuple of ColumnDescription
    privacy : PrivacyStatement
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
    timeslot: str
    columns: tuple[ColumnDescription, ...]
    privacy: PrivacyStatement
    coverage: Coverage
    files: tuple[DataFile, ...]
    stated: dict[str, Any]

    @property
    def language(self) -> str:
        """Language of title and text."""
        return str(self.stated.get("language", "en"))

    @property
    def license_url(self) -> str | None:
        """URL of the licence; None where none is stated."""
        stated = self.stated.get("license")
        if stated is None or "://" in stated:
            return stated
        return f"https://spdx.org/licenses/{stated}"

    @property
    def contact_page(self) -> str:
        """URL of the contact page; "" where there is none."""
        contact = str(self.stated.get("contact", ""))
        return contact if "://" in contact else ""

    @property
    def email(self) -> str:
        """Address of the contact; "" where there is none."""
        return "" if self.contact_page else str(self.stated.get("contact", ""))


def stated_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that are known: a description leaves out the others."""
    return {name: fact for name, fact in facts.items() if fact}


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
    heading = format_heading(manifest["plan"]["statistics"], spoken_value(dataset))
    gaps = tuple(f"{entry['prefix']}_" for entry in manifest.get("columns", ()))
    sentence = {
        "heading": heading,
        # Numbers of units, and shares of records, have no unit of measure.
        "value_unit": common_unit(manifest["plan"]["statistics"], dataset["value_unit"]),
        "dataset": dataset["name"],
        "grid": grid,
        "cells": table.num_rows,
    }
    version = dataset["version"] or ""
    return ReleaseDescription(
        identifier=manifest["request"],
        name=f"{folder_name(dataset['name'])}-{manifest['request'][:_SHORT]}",
        title=stated.get("title")
        or manifest.get("title")
        or render_sentence(_TEMPLATE, "title", **sentence),
        text=stated.get("description")
        or render_sentence(
            _TEMPLATE,
            "description",
            promise=manifest["guarantee"]["promise"],
            subtitle=manifest.get("subtitle", ""),
            **sentence,
        ),
        version="" if version == NOT_DECLARED else version,
        rows=table.num_rows,
        timeslot=_duration(grid.get("timeslot")),
        columns=tuple(
            _column(
                field, gaps, pooled=grid.get("slot") == "pooled", model=manifest.get("model", "")
            )
            for field in table.schema
        ),
        privacy=_privacy(manifest["guarantee"]),
        coverage=find_coverage(table, manifest),
        files=listed_files(names),
        stated=stated,
    )


def _privacy(guarantee: dict[str, Any]) -> PrivacyStatement:
    kind = "(epsilon, delta)" if "delta" in guarantee else "pure epsilon"
    return PrivacyStatement(
        model=f"{kind}-differential privacy",
        epsilon=guarantee["epsilon_spent"],
        delta=guarantee.get("delta", ""),
        unit=guarantee["privacy_unit"],
        assumptions=tuple(guarantee["assumptions"]),
        **{name: guarantee[name] for name in ("promise", "neighbours", "not_protected")},
    )


def _column(
    field: pa.Field, gaps: tuple[str, ...], *, pooled: bool, model: str
) -> ColumnDescription:
    """Return the description of a column; one that begins as those in `gaps` may be empty."""
    metadata, kind = field.metadata or {}, _kind(field, pooled=pooled)
    return ColumnDescription(
        field.name,
        metadata.get(b"description", b"").decode(),
        metadata.get(b"unit", b"").decode(),
        kind,
        optional=field.name.startswith(gaps) or (model == "presence" and kind == "number"),
    )


def _kind(field: pa.Field, *, pooled: bool) -> str:
    """Return the kind of a column: by its name where Arrow has text, else by its type."""
    if field.name in ("slot", "slot_end"):
        return "time" if pooled else "datetime"
    if field.name == "starts_at_utc":
        return "instant"
    kinds = {"int64": "integer", "double": "number", "bool": "boolean"}
    return kinds.get(str(field.type), "string")


def _duration(timeslot: str | None) -> str:
    """Return a timeslot as an ISO 8601 duration.

    Examples
    --------
    >>> _duration("15min"), _duration("1h"), _duration("1d"), _duration(None)
    ('PT15M', 'PT1H', 'P1D', '')
    """
    if timeslot is None:
        return ""
    seconds = slot_seconds(timeslot)
    if seconds == DAY:
        return "P1D"
    return f"PT{seconds // 3600}H" if seconds % 3600 == 0 else f"PT{seconds // 60}M"


_DIGITS = 6
"""Of degrees: about ten centimetres."""


@dataclass(frozen=True)
class Coverage:
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


def find_coverage(table: pa.Table, manifest: dict[str, Any]) -> Coverage:
    """Return the coverage of a release: by its cells, its selection, or as the holder states it."""
    start, end, days = _period(table, manifest)
    return Coverage(_box(table), start, end, days)


def _box(table: pa.Table) -> Box | None:
    """Return the smallest box around all hexagons, across the 180th meridian if need be."""
    if "hexagon" not in table.column_names:
        return None
    names = sorted(set(table["hexagon"].to_pylist()))
    corners = np.array([corner for name in names for corner in hexagons.outline(int(name, 16))])
    around = np.unique(corners[:, 0] % 360.0)
    # The widest gap between meridians of corners lies outside of the area.
    gaps = np.diff(np.append(around, around[0] + 360.0))
    gap = int(np.argmax(gaps))
    west, east = around[(gap + 1) % around.size], around[gap]
    low, high = corners[:, 1].min(), corners[:, 1].max()
    return (_degrees(west), _rounded(low), _degrees(east), _rounded(high))


def _degrees(longitude: float) -> float:
    """Return a longitude from -180 to 180."""
    return _rounded((longitude + 180.0) % 360.0 - 180.0)


def _rounded(degrees: float) -> float:
    return round(float(degrees), _DIGITS)


def _period(
    table: pa.Table, manifest: dict[str, Any]
) -> tuple[datetime | None, datetime | None, tuple[str, str] | None]:
    clock = _clock(manifest)
    if "starts_at_utc" in table.column_names and clock is not None:
        starts = table["starts_at_utc"].to_pylist()
        ends = table["slot_end"].to_pylist()
        final = datetime.fromisoformat(max(ends)).replace(tzinfo=clock)
        return min(starts).astimezone(UTC), final.astimezone(UTC), days_of(table, manifest)
    stated = stated_days(manifest)
    if stated is None or clock is None:
        return None, None, stated
    first, last_day = map(date.fromisoformat, stated)
    return _midnight(first, clock), _midnight(last_day + timedelta(1), clock), stated


def _clock(manifest: dict[str, Any]) -> zoneinfo.ZoneInfo | None:
    """Return the local clock of slots, else that of selected days; None without any."""
    name = clock_name(manifest)
    return zone(name) if name else None


def _midnight(day: date, clock: zoneinfo.ZoneInfo) -> datetime:
    return datetime.combine(day, datetime.min.time(), clock).astimezone(UTC)
