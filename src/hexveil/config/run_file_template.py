"""Draft of a run file from names and types of columns, with placeholders to fill in.

Descriptions, examples and advice are those of fields.toml. No records are read: bounds that follow
the values would reveal them.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.config.column_guessing import ProposedColumn, propose
from hexveil.config.fields import ABOUT, FIELDS, SECTIONS
from hexveil.config.run_file import FILL_IN, Run, quote, source_toml, to_toml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexveil.records.sources.schema_preview import SourceSchema

Fields = dict[tuple[str, str], str]
"""Text by (section, field)."""

_WIDTH = 98
_HEAD = f"""\
# A run file for hexveil, drafted from the names and types of columns; no measured value was read.
# Fill in the lines that say "{FILL_IN}", and remove the # before the fields that you need. Then:
#   hexveil inspect run.toml     shows vehicles, cells, and the grids that this fleet supports
#   hexveil plan run.toml        shows privacy cost and expected error, before anything is spent
#   hexveil release run.toml     books the privacy cost, draws the noise, writes the folder
# More fields: hexveil help fields
"""

_DRAFTS = {key: field.draft for key, field in FIELDS.items() if field.draft}
"""Proposed values for any columns."""
_OF_HEXAGONS = ("resolution", "timeslot", "slot", "timezone", "location", "area")
"""Fields that cells of labels do not have."""
_DECLARED = (("cells", "area"), ("privacy", "fleet"))
"""Fields that private presence needs besides."""


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
    _add_format(run.columns.time or columns.get("time"), look, values, notes)
    lines = [_HEAD, *_field(("", "source"), values, notes)]
    for section, names in SECTIONS.items():
        # Fields that most runs need, and those besides that have a value.
        keys = [key for name in names if FIELDS[key := (section, name)].example or key in values]
        lines += [f"\n[{section}]  # {ABOUT[section]}"] if keys else []
        lines += [line for key in keys for line in _field(key, values, notes)]
    return "\n".join(lines) + "\n"


def _fields_of(run: Run) -> Fields:
    """Return the fields that the caller named, in TOML."""
    if not run.source:
        raise InputError("source is needed: name the records for which to draft a run file.")
    fields = {key: to_toml(key, value) for key, value in run.fields().items()}
    return fields | {("", "source"): source_toml(run.source)}


def _proposed(
    columns: Mapping[str, ProposedColumn], run_fields: Fields, look: SourceSchema
) -> tuple[Fields, Fields]:
    """Return the values of the fields, in TOML, and additional notes."""
    is_private = run_fields.get(("privacy", "protect")) == quote("presence")
    values: Fields = dict(_DRAFTS)
    if is_private:
        # Which units are there is private: no cell may depend on their number.
        del values["select", "min_users"]
    notes: Fields = {}
    values["ledger", "dataset"] = quote(dataset_name(run_fields["", "source"]))
    for role, column in columns.items():
        key = ("cells" if role == "labels" else "columns", role)
        values[key] = f"[{quote(column.name)}]" if role == "labels" else quote(column.name)
        if column.day:
            values[key] = f"[{quote(column.day)}, {quote(column.name)}]"
        if column.others:
            notes[key] = f"Other candidates: {', '.join(map(quote, column.others))}."
    if "value" in columns and columns["value"].unit:
        values["values", "value_unit"] = quote(columns["value"].unit)
        notes["values", "bounds"] = f"Here the values are in {columns['value'].unit}."
    # Fields of the caller override proposals.
    values |= run_fields
    if ("plan", "target_error") in run_fields:
        values.pop(("plan", "epsilon"), None)
    gaps, gap_notes = _gaps(
        {name for section, name in values if section in ("", "columns")},
        run_fields,
        look.constant_ids,
    )
    # Cells of labels have no hexagons and no slots.
    if ("cells", "labels") in values:
        gaps = {key: gap for key, gap in gaps.items() if key[1] not in _OF_HEXAGONS}
        for key in _DRAFTS:
            if key[1] in _OF_HEXAGONS and key not in run_fields:
                del values[key]
        gap_notes = {key: note for key, note in gap_notes.items() if key in gaps}
    return values | {
        key: gap for key, gap in gaps.items() if key not in run_fields
    }, notes | gap_notes


def _add_format(time: object, look: SourceSchema, values: Fields, notes: Fields) -> None:
    """Add the format of numbers and times, and where the records of documents are."""
    if look.decimal != "." and ("format", "decimal") not in values:
        values["format", "decimal"] = quote(look.decimal)
        notes["format", "decimal"] = "So the first places are written."
    if look.record_path is not None:
        values.setdefault(("format", "record_path"), quote(look.record_path))
    formats = look.time_formats.get(str(getattr(time, "name", time)), ())
    key = ("format", "time_format")
    if key in values:
        return
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
    if run_fields.get(("privacy", "protect")) == quote("presence"):
        values |= dict.fromkeys(_DECLARED, quote(FILL_IN))
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


def _field(key: tuple[str, str], values: Fields, notes: Fields) -> Iterator[str]:
    """Yield the lines of a field: its description, and its value or a commented example."""
    field = FIELDS[key]
    description = field.description.replace("as 0,65", "as [0, 65]")
    about = " ".join(filter(None, (description, field.note, notes.get(key))))
    yield from textwrap.wrap(
        about, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False
    )
    value = values.get(key)
    yield f"# {key[1]} = {field.example}" if value is None else f"{key[1]} = {value}"
