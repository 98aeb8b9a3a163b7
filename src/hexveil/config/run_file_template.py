"""Draft of a run file from names and types of columns, with placeholders to fill in.

`config/run_file.py` describes the fields; this module adds examples and advice. It reads no
records: bounds that follow the values would reveal them.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.config.column_guessing import propose
from hexveil.config.fields import FIELDS
from hexveil.config.placeholders import FILL_IN
from hexveil.config.run_file import SECTIONS
from hexveil.config.run_file_text import quote, to_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexveil.config.column_guessing import ProposedColumn
    from hexveil.config.run_file import Run
    from hexveil.records.sources.schema_preview import SourceSchema

Fields = dict[tuple[str, str], str]
"""Text by (section, field)."""

_WIDTH = 98
_HEAD = f"""\
# A run file for hexveil, drafted from the names and types of columns; no measured value was read.
# Fill in the lines that say "{FILL_IN}", and remove the # before the fields that you need. Then:
#   hexveil inspect run.toml     shows users, cells, and the grids that this fleet supports
#   hexveil plan run.toml        shows price and expected error, before anything is spent
#   hexveil release run.toml     books the price, draws the noise, writes the folder
# More fields: hexveil help fields
"""

_ABOUT = {
    "columns": "The meaning of the columns.",
    "values": "The range of values.",
    "cells": "The definition of a cell.",
    "select": "Records and cells to include, by public metadata.",
    "read": "The privacy unit.",
    "format": "How the records are written, where that differs from the usual form.",
    "plan": "The price of privacy.",
    "ledger": "The record of booked losses.",
    "release": "The release folder.",
}


@dataclass(frozen=True)
class Entry:
    """A field as it stands in the file.

    Attributes
    ----------
    example : str
        In TOML, for a field that is left out.
    note : str
        Text after the field's own description.
    """

    example: str
    note: str = ""


_LINES: Mapping[tuple[str, str], Entry] = {
    ("", "source"): Entry('"records.parquet"', "Paths are relative to this file's folder."),
    ("columns", "user"): Entry('"vehicle_id"'),
    ("columns", "value"): Entry(
        '"speed"', "Its values are protected; all other columns count as public."
    ),
    ("columns", "lat"): Entry('"lat"'),
    ("columns", "lon"): Entry('"lon"'),
    ("columns", "location"): Entry(
        '"location.coordinates"', "Without places, use labels in [cells]."
    ),
    ("columns", "time"): Entry('"time"', "ISO 8601 text, a timestamp, or seconds since 1970."),
    ("values", "bounds"): Entry(
        "[0, 65]",
        "From public knowledge, never from the records: [0, 65] for city buses in km/h. Values "
        "outside count as the nearest bound; wider bounds mean more noise.",
    ),
    ("values", "quantum"): Entry("0.001"),
    ("values", "value_unit"): Entry('"km/h"'),
    ("cells", "resolution"): Entry(
        "5",
        "5 is about 17 km across, 8 about 1 km; `hexveil inspect run.toml` shows which ones this "
        "fleet supports.",
    ),
    ("cells", "timeslot"): Entry('"1h"'),
    ("cells", "timezone"): Entry('"Asia/Kolkata"', "For timeslots, hours and dates."),
    ("cells", "slot"): Entry('"pooled"', "Pooled slots have more users, hence less noise."),
    ("cells", "labels"): Entry('["ward"]'),
    ("select", "min_users"): Entry("10"),
    ("select", "hours"): Entry('["6-9", "17"]'),
    ("select", "dates"): Entry('["2024-01-01", "2024-01-31"]'),
    ("select", "box"): Entry("[72.6, 21.0, 73.0, 21.4]"),
    ("select", "drop_values"): Entry("[-1]"),
    ("read", "privacy_unit"): Entry('"user"', "The shorter the period, the weaker the promise."),
    ("read", "max_repeats"): Entry("0.2", "Records of a user and time that are left out."),
    ("format", "decimal"): Entry('","', "Text in values, latitudes and longitudes."),
    ("format", "time_format"): Entry('"%d/%m/%Y %H:%M:%S"'),
    ("format", "unit_suffix"): Entry('"m/s"'),
    ("format", "record_path"): Entry('"results"'),
    ("format", "file_columns"): Entry('"common"'),
    ("format", "encoding"): Entry('"latin-1"'),
    ("plan", "epsilon"): Entry(
        "1",
        "The probability of any outcome differs by a factor of at most e^epsilon: 2.72 at 1, 149 "
        "at 5.",
    ),
    ("plan", "target_error"): Entry("2", "Instead of epsilon."),
    ("plan", "statistics"): Entry('["mean"]', "Several statistics share the price."),
    ("ledger", "url"): Entry('"ledger.sqlite"'),
    ("ledger", "dataset"): Entry(
        '"buses"', "Use the same name for all releases of the same records."
    ),
    ("ledger", "budget"): Entry("5", "In epsilon."),
    ("release", "out"): Entry('"map"'),
    ("release", "estimates"): Entry('["raw", "smoothed"]'),
}
"""The fields of the file, in its order."""

_DEFAULTS = {
    ("cells", "resolution"): "5",
    ("cells", "timeslot"): '"1h"',
    ("cells", "slot"): '"pooled"',
    ("select", "min_users"): "10",
    ("read", "privacy_unit"): '"user"',
    ("plan", "epsilon"): "1",
    ("release", "out"): '"map"',
    ("ledger", "url"): '"ledger.sqlite"',
    ("ledger", "budget"): "5",
}
"""Proposed values for any columns."""
_OF_HEXAGONS = ("resolution", "timeslot", "slot", "timezone", "location")
"""Fields that cells of labels do not have."""


def draft_run_file(run: Run, look: SourceSchema) -> str:
    """Return the text of a run file for the columns of a source; fields of the run are kept.

    Its gaps hold `FILL_IN`, which `load` refuses in one sentence.

    Parameters
    ----------
    run : Run
        With a source; other fields that it has take the place of what would be proposed.
    look : SourceSchema
    """
    run_fields = _fields_of(run)
    columns = propose(look, run.columns.explicit_fields())
    values, notes = _proposed(columns, run_fields, look)
    lines = [_HEAD, *_field(("", "source"), values, notes)]
    for section in SECTIONS:
        if section not in _ABOUT and not any(section == name for name, _ in values):
            continue
        lines.append(f"\n[{section}]  # {_ABOUT.get(section, '')}".rstrip(" #"))
        lines += [line for key in _keys(section, values) for line in _field(key, values, notes)]
    return "\n".join(lines) + "\n"


def _keys(section: str, values: Fields) -> list[tuple[str, str]]:
    """Return the fields of a section of the file, and those besides that have a value."""
    keys = [key for key in _LINES if key[0] == section]
    return keys + [key for key in values if key[0] == section and key not in _LINES]


def _fields_of(run: Run) -> Fields:
    """Return the fields that the caller named, in TOML."""
    if not run.source:
        raise InputError("source is needed: name the records for which to draft a run file.")
    source = run.source[0] if len(run.source) == 1 else run.source
    fields = {("", "source"): to_toml(("", "source"), source)}
    for section in SECTIONS:
        for name, value in getattr(run, section).explicit_fields().items():
            fields[section, name] = to_toml((section, name), value)
    return fields


def _proposed(
    columns: Mapping[str, ProposedColumn], run_fields: Fields, look: SourceSchema
) -> tuple[Fields, Fields]:
    """Return the values of the fields, in TOML, and additional notes."""
    values: Fields = dict(_DEFAULTS)
    notes: Fields = {}
    values["ledger", "dataset"] = quote(dataset_name(run_fields["", "source"]))
    for role, column in columns.items():
        key = ("cells" if role == "labels" else "columns", role)
        values[key] = f"[{quote(column.name)}]" if role == "labels" else quote(column.name)
        if column.day:
            values[key] = f"[{quote(column.day)}, {quote(column.name)}]"
        if column.others:
            notes[key] = f"Other candidates: {', '.join(map(quote, column.others))}."
    _add_format(columns, look, values, notes)
    if "value" in columns and columns["value"].unit:
        values["values", "value_unit"] = quote(columns["value"].unit)
        notes["values", "bounds"] = f"Here the values are in {columns['value'].unit}."
    # Fields of the caller override proposals.
    values |= run_fields
    if not {("plan", "target_error"), ("plan", "cell_epsilon")}.isdisjoint(run_fields):
        values.pop(("plan", "epsilon"), None)
    gaps, gap_notes = _gaps(
        {name for section, name in values if section in ("", "columns")},
        run_fields,
        look.constant_ids,
    )
    # Cells of labels have no hexagons and no slots.
    if ("cells", "labels") in values:
        gaps = {key: gap for key, gap in gaps.items() if key[1] not in _OF_HEXAGONS}
        for key in _DEFAULTS:
            if key[1] in _OF_HEXAGONS and key not in run_fields:
                del values[key]
        gap_notes = {key: note for key, note in gap_notes.items() if key in gaps}
    return values | {
        key: gap for key, gap in gaps.items() if key not in run_fields
    }, notes | gap_notes


def _add_format(
    columns: Mapping[str, ProposedColumn], look: SourceSchema, values: Fields, notes: Fields
) -> None:
    """Add the format of times, and where the records of documents are."""
    if look.record_path is not None:
        values["format", "record_path"] = quote(look.record_path)
    if look.value_units:
        values["read", "max_repeats"] = "1"
        notes["read", "max_repeats"] = "Snapshots repeat a position until the next one."
    formats = look.time_formats.get(columns["time"].name, ()) if "time" in columns else ()
    key = ("format", "time_format")
    if len(formats) == 1:
        values[key] = quote(formats[0])
        notes[key] = "So the first times are written."
    elif formats:
        values[key] = quote(FILL_IN)
        notes[key] = f"The first times fit {' and '.join(map(quote, formats))}: choose one."


def dataset_name(source: str) -> str:
    """Return a name of a data set from its source, as it is written or in TOML.

    Examples
    --------
    >>> dataset_name('"data/city buses.csv.gz"'), dataset_name("*.parquet")
    ('city-buses', 'records')
    """
    name = re.split(r"[/\\\\]", source.strip('"[]').split('", "')[0].rstrip("/\\"))[-1]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name.partition(".")[0]).strip("-")
    return stem or "records"


def _gaps(
    columns: set[str], run_fields: Fields, constant_ids: frozenset[str]
) -> tuple[Fields, Fields]:
    """Return placeholders for required fields without a proposal, and notes about them."""
    values, notes = {("values", "bounds"): quote(FILL_IN)}, {}
    needed = [role for role in ("user", "value") if role not in columns]
    if not columns & {"lat", "location"}:
        needed.append("location")
    for role in needed:
        values["columns", role] = quote(FILL_IN)
        notes["columns", role] = "No column name suggests it."
        if role == "user" and constant_ids:
            names = ", ".join(map(quote, sorted(constant_ids)))
            notes["columns", role] = f"All rows have the same id in {names}, so it is no user."
    if "time" not in columns and ("cells", "timeslot") not in run_fields:
        values["cells", "timeslot"] = '"none"'
        notes["cells", "timeslot"] = "No column name suggests a time."
    elif run_fields.get(("cells", "timeslot")) != '"none"':
        values["cells", "timezone"] = quote(FILL_IN)
    return values, notes


def _field(
    key: tuple[str, str],
    values: Fields,
    notes: Fields,
) -> Iterator[str]:
    """Yield the lines of a field: its description, and its value or a commented example."""
    line = _LINES.get(key, Entry(""))
    description = FIELDS[key].description.replace("as 0,65", "as [0, 65]")
    about = " ".join(filter(None, (description, line.note, notes.get(key))))
    yield from textwrap.wrap(
        about, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False
    )
    value = values.get(key)
    yield f"# {key[1]} = {line.example}" if value is None else f"{key[1]} = {value}"
