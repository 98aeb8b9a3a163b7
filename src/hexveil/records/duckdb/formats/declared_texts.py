"""SQL expressions of numbers and times that are written in a declared format.

Texts in another format are null, so that the record counts as unusable; no cast can fail. Where
nothing is declared these are the expressions of `hexveil.records.duckdb.expressions`.
"""

from __future__ import annotations

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import (
    Instant,
    JsonColumn,
    from_text,
    instant,
    json_of,
    literal,
    number,
    text,
    typed_column,
)
from hexveil.records.sources.columns import ColumnRef
from hexveil.records.sources.record_format import EPOCH_UNITS, RecordFormat

CLOCK = r"\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*"


def declared_number(
    ref: ColumnRef,
    role: str,
    document: JsonColumn | None,
    record_format: RecordFormat,
    suffix: str | None = None,
) -> str:
    """Return the number in a field as a double, or null.

    Parameters
    ----------
    ref, role, document
        As for `hexveil.records.duckdb.expressions.number`.
    record_format : RecordFormat
    suffix : str, optional
        Unit of measure that follows each number.

    Raises
    ------
    InputError
        If a suffix is declared for a column that holds no text.
    """
    has_text = is_text(ref, document)
    if suffix is not None and not has_text:
        raise InputError(
            f"{role}: the column {ref.column!r} holds numbers, so that no unit can follow them; "
            "remove unit_suffix (from [format])."
        )
    # A point of GeoJSON is JSON, in which a number has a decimal point.
    if ref.point is not None or not has_text or (suffix is None and record_format.decimal == "."):
        return number(ref, role, document)
    expression = text(ref, document)
    if suffix is not None:
        ending = literal(suffix.strip())
        expression = (
            f"CASE WHEN ends_with(trim({expression}), {ending}) "
            f"THEN left(trim({expression}), -length({ending})) END"
        )
    if record_format.decimal == ",":
        expression = _with_point(expression, ref, document)
    return f"TRY_CAST(trim({expression}) AS DOUBLE)"


def _with_point(expression: str, ref: ColumnRef, document: JsonColumn | None) -> str:
    """Return a text with its decimal comma as a point; null where it has a point already."""
    # A point could separate thousands: 1.234 would be read as a thousandth of it.
    changed = f"CASE WHEN NOT contains({expression}, '.') THEN replace({expression}, ',', '.') END"
    nested = json_of(ref, document)
    if nested is None:
        return changed
    # A number of JSON, unlike its texts, always has a point.
    is_float = nested[0].written_as_float(nested[1])
    return f"CASE WHEN {is_float} THEN {expression} ELSE {changed} END"


def declared_instant(
    ref: ColumnRef, naive: str | None, document: JsonColumn | None, record_format: RecordFormat
) -> Instant:
    """Return the time in a field.

    Parameters
    ----------
    ref, naive, document
        As for `hexveil.records.duckdb.expressions.instant`.
    record_format : RecordFormat

    Raises
    ------
    InputError
        If a format is declared for a column that holds no text, or one without an offset although
        no time zone is declared.
    """
    declared = record_format.time_format
    if declared is None:
        return instant(ref, naive, document)
    has_text = is_text(ref, document)
    if declared in EPOCH_UNITS and not has_text and ref.kind.name == "number":
        return _since_epoch(number(ref, "time", document), declared)
    if not has_text:
        raise InputError(
            f"time: the column {ref.column!r} holds no text; remove time_format (from [format])."
        )
    return instant_of_text(text(ref, document), naive, record_format)


def day_and_time(day: ColumnRef, clock: ColumnRef, document: JsonColumn | None) -> str:
    """Return the text of a time that stands in two columns, a date and a time of day.

    Raises
    ------
    InputError
        If one of them holds neither text nor what its name says.
    """
    date = _text_of(day, document, ("date", "naive time", "time"), "dates")
    # Dates are often written with their midnight.
    midnight = literal(r"[T ]00:00(:00(\.0+)?)?$")
    return (
        f"(regexp_replace(trim({date}), {midnight}, '') || ' ' || "
        f"trim({_text_of(clock, document, ('time of day',), 'times of day')}))"
    )


def _text_of(ref: ColumnRef, document: JsonColumn | None, kinds: tuple[str, ...], what: str) -> str:
    if is_text(ref, document):
        return text(ref, document)
    if ref.kind.name not in kinds:
        raise InputError(
            f"time: the column {ref.column!r} holds {ref.kind.name} values; of two time columns "
            f"one holds dates and the other times of day, and this one should hold {what}."
        )
    # Of a time with a date, the day on the clock it is written by: that of UTC where it has one.
    of_day = "" if ref.kind.name == "time of day" else "::DATE"
    return f"CAST({typed_column(ref)}{of_day} AS VARCHAR)"


def instant_of_text(expression: str, naive: str | None, record_format: RecordFormat) -> Instant:
    """Return the time that a text states; arguments as for `declared_instant`."""
    declared = record_format.time_format
    if declared is None:
        return from_text(expression, naive)
    if declared in EPOCH_UNITS:
        return _since_epoch(f"TRY_CAST({expression} AS DOUBLE)", declared)
    parsed = f"try_strptime(trim({expression}), {literal(declared)})"
    if record_format.has_offset:
        return Instant(f"epoch_us({parsed})")
    if naive is None:
        raise InputError(
            "time: times of this time_format have no offset; declare their timezone, for example "
            'timezone="Europe/Warsaw", or an offset (%z).'
        )
    return Instant(wall=f"epoch_us({parsed})")


def _since_epoch(value: str, unit: str) -> Instant:
    """Return the time of a number of units since 1970, as the engine's doubles have it."""
    scaled = f"({value}) * {EPOCH_UNITS[unit]} / 1e3"
    usable = f"isfinite({value}) AND abs({scaled}) < 1e18"
    return Instant(f"CASE WHEN {usable} THEN CAST(round({scaled}) AS BIGINT) END")


def is_text(ref: ColumnRef, document: JsonColumn | None) -> bool:
    """Return whether a field holds text, or JSON that may be text."""
    return json_of(ref, document) is not None or ref.kind.name in ("text", "json")
