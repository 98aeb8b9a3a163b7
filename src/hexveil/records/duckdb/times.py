"""Times of records as SQL: instants, local clocks, declared formats; a failed cast is null.

UTC offsets of a time zone are a public table of changes. One table serves every engine and agrees
with `cells.starts_at_utc`, which reads the same time zone data. Where a wall clock shows a time
twice, the first is meant; a time that the clock skips is read with the offset before the skip (as
Python's fold=0).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from hexveil.base.errors import InputError
from hexveil.model.cells import DAY, zone
from hexveil.records.duckdb.expressions import JsonColumn, is_text, literal, text, typed_column
from hexveil.records.sources.columns import ColumnRef
from hexveil.records.sources.record_format import EPOCH_UNITS, RecordFormat

_ISO = r"\s*\d{4}-\d{2}-\d{2}"
_TIME_OF_DAY = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
NAIVE_TEXT = rf"{_ISO}({_TIME_OF_DAY})?\s*"
OFFSET_TEXT = rf"{_ISO}{_TIME_OF_DAY}\s*(Z|z|UTC|[+-]\d{{2}}(:?\d{{2}})?)\s*"
CLOCK = r"\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*"
FROM_MILLISECONDS = 1e11
"""Numbers of at least this size are epoch milliseconds, smaller ones seconds."""


@dataclass(frozen=True)
class Instant:
    """A time as it is written, and two expressions of it, in whole microseconds.

    Attributes
    ----------
    written : str
        The expression of the column `written`, which the others look at.
    utc : str
        Since 1970 in UTC.
    wall : str
        Where `utc` is null: since 1970 on the wall clock of the time zone declared for times
        without an offset.
    """

    written: str
    utc: str = "CAST(NULL AS BIGINT)"
    wall: str = "CAST(NULL AS BIGINT)"


def instant(ref: ColumnRef, naive: str | None, document: JsonColumn | None) -> Instant:
    """Return the time in a field.

    Parameters
    ----------
    naive : str or None
        The time zone of times without an offset; None makes those unusable.
    """
    kind = ref.kind.name if document is None and ref.parsed == len(ref.path) else "text"
    if kind == "time":
        # TRY: a far year may not fit into microseconds.
        return Instant(typed_column(ref), "epoch_us(TRY_CAST(written AS TIMESTAMPTZ))")
    if kind in ("naive time", "date"):
        if naive is None:
            raise InputError(
                f"time: the column {ref.column!r} holds local times without an offset; declare "
                'their timezone, for example timezone="Europe/Warsaw".'
            )
        return Instant(typed_column(ref), wall="epoch_us(TRY_CAST(written AS TIMESTAMP))")
    if kind == "number":
        return Instant(f"CAST({typed_column(ref)} AS DOUBLE)", _from_epoch("written"))
    if kind not in ("text", "json"):
        raise InputError(f"time: the column {ref.column!r} holds {kind} values, not times.")
    return from_text(text(ref, document))


Steps = tuple[tuple[int, int], ...]
"""A step function: values, each from its start in seconds on; the first also before."""


def step_function(microseconds: str, steps: Steps) -> str:
    """Return a step function of a time in microseconds as nested CASEs, a binary search."""
    # Some time zones change 200 times: nested halves make eight comparisons of them.
    half = (len(steps) + 1) // 2
    if half == len(steps):
        return str(steps[0][1])
    below, above = (step_function(microseconds, some) for some in (steps[:half], steps[half:]))
    # Starts in microseconds: a division in every comparison would be most of what is planned.
    return f"CASE WHEN {microseconds} < {steps[half][0] * 10**6} THEN {below} ELSE {above} END"


def local_second(instant: str, timezone: str) -> str:
    """Return the local wall clock of an instant, in whole seconds since 1970 on that clock."""
    # Kept times are 1970 or later: division towards zero is rounding down.
    return f"(({instant} // 1000000) + {step_function(instant, clock(timezone).offsets)})"


def from_text(expression: str) -> Instant:
    """Return the time that a text states in the usual form."""
    # Only a time of day has a colon, and no number: a cast that fails costs more than one that not.
    utc = (
        f"CASE WHEN NOT contains(written, ':') THEN {_from_epoch('TRY_CAST(written AS DOUBLE)')} "
        f"WHEN regexp_full_match(written, {literal(OFFSET_TEXT)}) "
        # The engine knows Z and UTC in capitals alone.
        f"THEN epoch_us(TRY_CAST(upper(written) AS TIMESTAMPTZ)) END"
    )
    wall = (
        f"CASE WHEN regexp_full_match(written, {literal(NAIVE_TEXT)}) "
        f"THEN epoch_us(TRY_CAST(written AS TIMESTAMP)) END"
    )
    return Instant(expression, utc, wall)


def _from_epoch(value: str) -> str:
    scaled = f"CASE WHEN abs({value}) >= {FROM_MILLISECONDS:.0f} THEN {value} * 1e3 "
    return (
        f"CASE WHEN isfinite({value}) AND abs({value}) < 1e13 "
        f"THEN CAST(round({scaled}ELSE {value} * 1e6 END) AS BIGINT) END"
    )


def from_wall(wall: str, naive: str) -> str:
    """Return the instant of a wall-clock time, both in microseconds."""
    offset = step_function(wall, clock(naive).wall_offsets)
    # Far from 1970 the subtraction could overflow; those times are not usable anyway.
    usable = f"abs({wall} // 1000000) < {2 * END_OF_TIMES}"
    return f"CASE WHEN {usable} THEN {wall} - CAST(1000000 AS BIGINT) * ({offset}) END"


def declared_instant(
    ref: ColumnRef, naive: str | None, document: JsonColumn | None, record_format: RecordFormat
) -> Instant:
    """Return the time in a field.

    Parameters
    ----------
    ref, naive, document
        As for `instant`.
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
        return _since_epoch(f"CAST({typed_column(ref)} AS DOUBLE)", declared)
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
        return from_text(expression)
    if declared in EPOCH_UNITS:
        return _since_epoch(f"TRY_CAST({expression} AS DOUBLE)", declared)
    parsed = f"try_strptime(trim({expression}), {literal(declared)})"
    if record_format.has_offset:
        return Instant(parsed, "epoch_us(written)")
    if naive is None:
        raise InputError(
            "time: times of this time_format have no offset; declare their timezone, for example "
            'timezone="Europe/Warsaw", or an offset (%z).'
        )
    return Instant(parsed, wall="epoch_us(written)")


def _since_epoch(value: str, unit: str) -> Instant:
    """Return the time of a number of units since 1970, as the engine's doubles have it."""
    scaled = f"written * {EPOCH_UNITS[unit]} / 1e3"
    usable = f"isfinite(written) AND abs({scaled}) < 1e18"
    return Instant(value, f"CASE WHEN {usable} THEN CAST(round({scaled}) AS BIGINT) END")


END_OF_TIMES = 4_102_444_800
"""2100-01-01T00:00Z in seconds: usable times run from 1970 to before it."""

STEP = 3 * DAY
"""Step of the search for changes, in seconds: shorter than any time between two of a zone."""


@dataclass(frozen=True)
class Clock:
    """Offsets of one time zone from 1970 to 2100, in seconds east of UTC, as step functions.

    Attributes
    ----------
    offsets : tuple of (int, int)
        By the UTC second.
    wall_offsets : tuple of (int, int)
        By the local wall-clock second.
    """

    offsets: Steps
    wall_offsets: Steps


@lru_cache(maxsize=32)
def clock(timezone: str) -> Clock:
    """Return the offsets of a time zone; raise InputError if there is none of that name."""
    place = zone(timezone)

    def offset(utc_second: int) -> int:
        shift = datetime.fromtimestamp(utc_second, place).utcoffset()
        return 0 if shift is None else int(shift.total_seconds())

    offsets = [(0, offset(0))]
    wall_offsets = [*offsets]
    # Past the end, for local clocks that are ahead of UTC.
    for end in range(STEP, END_OF_TIMES + STEP, STEP):
        old, new = offsets[-1][1], offset(end)
        if old != new:
            # Offsets change at whole seconds, fewer than once a step: halves find the change.
            before, change = end - STEP, end
            while change - before > 1:
                middle = (before + change) // 2
                before, change = (before, middle) if offset(middle) == new else (middle, change)
            offsets.append((change, new))
            # max: a repeated hour is read with the old offset to its end, a skipped one until it
            # is over.
            wall_offsets.append((change + max(old, new), new))
    return Clock(tuple(offsets), tuple(wall_offsets))
