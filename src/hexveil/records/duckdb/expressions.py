"""SQL expressions over one record: text, numbers, instants, offsets. A failed cast is null.

User ids as SQL: one canonical text, whatever type their column has (see `records.units`).

A vehicle whose id is 7 in one file, 7.0 in a column that pandas made a float because one id was
missing, and 7.00 in a decimal, is one privacy unit: its losses add up under one id. Such columns
are written as text, too, so that text of a whole number with a point and zeros is that number; all
other text stays byte for byte. Units that are merged are charged as one: no promise is weaker.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hexveil.base.errors import InputError
from hexveil.records.sources.columns import ColumnRef
from hexveil.records.units import WHOLE_WITH_ZEROS
from hexveil.records.utc_offsets import END_OF_TIMES, UtcOffsets, clock

Path = tuple[str | int, ...]

_ISO = r"\s*\d{4}-\d{2}-\d{2}"
_TIME_OF_DAY = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
NAIVE_TEXT = rf"{_ISO}({_TIME_OF_DAY})?\s*"
OFFSET_TEXT = rf"{_ISO}{_TIME_OF_DAY}\s*(Z|z|UTC|[+-]\d{{2}}(:?\d{{2}})?)\s*"
FROM_MILLISECONDS = 1e11
"""Numbers of at least this size are epoch milliseconds, smaller ones seconds."""


def identifier(name: str) -> str:
    """Return a column name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return text quoted for SQL."""
    return "'" + text.replace("'", "''") + "'"


def file_list(paths: Sequence[str]) -> str:
    """Return the list of files that the engine's readers take."""
    # A path is a pattern to DuckDB: its special letters are taken literally.
    escaped = ("".join(f"[{c}]" if c in "*?[" else c for c in path) for path in paths)
    return "[" + ", ".join(map(literal, escaped)) + "]"


def number_literal(value: float) -> str:
    """Return a double that SQL reads back exactly."""
    if not math.isfinite(value):
        raise ValueError("only finite numbers are written into queries")
    return f"CAST('{value!r}' AS DOUBLE)"


class JsonColumn:
    """Fields of a column of JSON documents, extracted one at a time.

    Parameters
    ----------
    document : str
        The column of documents.
    """

    def __init__(self, document: str) -> None:
        self.document = document

    def __call__(self, path: Path) -> str:
        """Return the expression of the text at a path."""
        return f"json_extract_string({self.document}, {_json_path(path)})"

    def written_as_float(self, path: Path) -> str:
        """Return the expression of whether a number with a point or exponent is at a path."""
        return self._derived("is_float", path)

    def written_as_boolean(self, path: Path) -> str:
        """Return the expression of whether true or false is at a path, not as text."""
        return self._derived("is_boolean", path)

    def scalar(self, path: Path) -> str:
        """Return the expression of the text at a path; null where an object or list is."""
        return self._derived("scalar", path)

    def _derived(self, question: str, path: Path) -> str:
        """Return the expression of the answer to a question about a path."""
        return self._answer(question, path, self(path))

    def _answer(self, question: str, path: Path, value: str) -> str:
        """Return the answer given the text at the path.

        The type is asked for only where the text leaves it open: it parses the document. Text may
        begin like an object, too.
        """
        kind = f"json_type({self.document}, {_json_path(path)})"
        if question == "is_float":
            return (
                f"CASE WHEN TRY_CAST({value} AS DOUBLE) IS NULL THEN false "
                f"WHEN regexp_full_match({value}, '-?[0-9]+') THEN false "
                f"ELSE coalesce({kind} = 'DOUBLE', false) END"
            )
        if question == "is_boolean":
            return (
                f"CASE WHEN {value} IN ('true', 'false') "
                f"THEN coalesce({kind} = 'BOOLEAN', false) ELSE false END"
            )
        return (
            f"CASE WHEN starts_with({value}, '{{') OR starts_with({value}, '[') "
            f"THEN CASE WHEN {kind} NOT IN ('OBJECT', 'ARRAY') THEN {value} END ELSE {value} END"
        )


class JsonFields(JsonColumn):
    """The same fields, extracted together into columns: each extraction parses the document."""

    def __init__(self, document: str) -> None:
        super().__init__(document)
        self._names: dict[Path, str] = {}
        self._questions: dict[str, tuple[str, Path]] = {}

    def __call__(self, path: Path) -> str:
        """Return the column that has the text at a path."""
        return self._names.setdefault(path, f"field{len(self._names)}")

    def _derived(self, question: str, path: Path) -> str:
        name = f"{self(path)}_{question}"
        self._questions[name] = (question, path)
        return name

    def query(self, documents: str) -> str:
        """Return the query of all requested columns, and of `malformed`: not a JSON object."""
        paths = ", ".join(_json_path(path) for path in self._names)
        # A document that is there is valid, so that its first letter tells an object, but for
        # white space before it.
        is_object = f"starts_with(CAST({self.document} AS VARCHAR), '{{')"
        document = f", {self.document}" if self._questions else ""
        extracted = (
            f"SELECT json_extract_string({self.document}, [{paths}]) AS fields, "
            f"CASE WHEN {is_object} THEN false "
            f"ELSE json_type({self.document}) IS DISTINCT FROM 'OBJECT' END "
            f"AS malformed{document} FROM ({documents})"
        )
        places = {path: f"fields[{i}]" for i, path in enumerate(self._names, 1)}
        columns = [f"{place} AS {self._names[path]}" for path, place in places.items()]
        columns += [
            f"{self._answer(question, path, places[path])} AS {name}"
            for name, (question, path) in self._questions.items()
        ]
        return f"SELECT malformed{''.join(f', {column}' for column in columns)} FROM ({extracted})"


def text(ref: ColumnRef, document: JsonColumn | None) -> str:
    """Return the text of a field, or null.

    Parameters
    ----------
    ref : ColumnRef
    document : function or None
        Where text is in the JSON documents that `ref` points into, if the records are such.
    """
    nested = json_of(ref, document)
    if nested is not None:
        return nested[0](nested[1])
    # Also of text: the engine's own JSON, UUID and enum types count as such.
    return f"CAST({typed_column(ref)} AS VARCHAR)"


def json_of(ref: ColumnRef, document: JsonColumn | None) -> tuple[JsonColumn, Path] | None:
    """Return the JSON document that a field is in, and its path there; None if it is in none."""
    if document is not None:
        return document, (ref.column, *ref.path)
    remaining = ref.path[ref.parsed :]
    return (
        (JsonColumn(f"TRY_CAST(CAST({typed_column(ref)} AS VARCHAR) AS JSON)"), remaining)
        if remaining
        else None
    )


def name_text(ref: ColumnRef, role: str, document: JsonColumn | None) -> str:
    """Return the text of a label; empty text counts as none."""
    if ref.kind.name in ("struct", "list", "map"):
        raise InputError(f"{role}: the column {ref.column!r} is nested; name a field inside it.")
    nested = json_of(ref, document)
    name = text(ref, document) if nested is None else nested[0].scalar(nested[1])
    return f"nullif({name}, '')"


def number(ref: ColumnRef, role: str, document: JsonColumn | None) -> str:
    """Return the number in a field as a double, or null."""
    if ref.point is not None:
        written = text(ref, document)
        point = f"TRY_CAST({written} AS JSON)"
        # A list, a point, and a GeoProperty with a point: records of one file may mix them.
        stems: tuple[Path, ...] = ((), ("coordinates",), ("value", "coordinates"))
        paths = [_json_path((*stem, ref.point)) for stem in stems]
        either = ", ".join(f"json_extract_string({point}, {path})" for path in paths)
        return f"TRY_CAST(coalesce({either}) AS DOUBLE)"
    if document is None and ref.parsed == len(ref.path):
        if ref.kind.name == "number":
            # Never fails: each number of a declared type has a nearest double.
            return f"CAST({typed_column(ref)} AS DOUBLE)"
        if ref.kind.name not in ("text", "json"):
            raise InputError(
                f"{role}: the column {ref.column!r} holds {ref.kind.name} values, not numbers."
            )
    # TRY_CAST everywhere: an error on some value would tell of it, and stop the reading.
    return f"TRY_CAST({text(ref, document)} AS DOUBLE)"


@dataclass(frozen=True)
class Instant:
    """Two expressions of a time, in whole microseconds; at most one is not null.

    Attributes
    ----------
    utc : str
        Since 1970 in UTC.
    wall : str
        Since 1970 on the wall clock of the time zone declared for times without an offset.
    """

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
        return Instant(f"epoch_us(TRY_CAST({typed_column(ref)} AS TIMESTAMPTZ))")
    if kind in ("naive time", "date"):
        if naive is None:
            raise InputError(
                f"time: the column {ref.column!r} holds local times without an offset; declare "
                'their timezone, for example timezone="Europe/Warsaw".'
            )
        return Instant(wall=f"epoch_us(TRY_CAST({typed_column(ref)} AS TIMESTAMP))")
    if kind == "number":
        return Instant(_from_epoch(f"CAST({typed_column(ref)} AS DOUBLE)"))
    if kind not in ("text", "json"):
        raise InputError(f"time: the column {ref.column!r} holds {kind} values, not times.")
    return from_text(text(ref, document), naive)


def step_function(microseconds: str, steps: UtcOffsets) -> str:
    """Return a step function of a time in microseconds as nested CASEs, a binary search."""
    if not steps.steps:
        return str(steps.initial)
    # Some time zones change 200 times: nested halves make eight comparisons of them.
    half = len(steps.steps) // 2
    start, value = steps.steps[half]
    below = step_function(microseconds, UtcOffsets(steps.initial, steps.steps[:half]))
    above = step_function(microseconds, UtcOffsets(value, steps.steps[half + 1 :]))
    # Starts in microseconds: a division in every comparison would be most of what is planned.
    return f"CASE WHEN {microseconds} < {start * 10**6} THEN {below} ELSE {above} END"


def local_second(instant: str, timezone: str) -> str:
    """Return the local wall clock of an instant, in whole seconds since 1970 on that clock."""
    # Kept times are 1970 or later: division towards zero is rounding down.
    return f"(({instant} // 1000000) + {step_function(instant, clock(timezone).offsets())})"


def from_text(expression: str, naive: str | None) -> Instant:
    """Return the time that a text states in the usual form; see `instant`."""
    utc = (
        f"CASE WHEN {is_common_time(expression)} "
        f"THEN epoch_us(TRY_CAST({expression} AS TIMESTAMPTZ)) "
        f"WHEN regexp_full_match({expression}, {literal(OFFSET_TEXT)}) "
        # The engine knows Z and UTC in capitals alone.
        f"THEN epoch_us(TRY_CAST(upper({expression}) AS TIMESTAMPTZ)) "
        f"ELSE {_from_epoch(f'TRY_CAST({expression} AS DOUBLE)')} END"
    )
    if naive is None:
        return Instant(utc)
    # Most times have an offset, which needs no pattern to be seen.
    wall = (
        f"CASE WHEN ends_with({expression}, 'Z') OR contains({expression}, '+') THEN NULL "
        f"WHEN regexp_full_match({expression}, {literal(NAIVE_TEXT)}) "
        f"THEN epoch_us(TRY_CAST({expression} AS TIMESTAMP)) END"
    )
    return Instant(utc, wall)


def is_common_time(expression: str) -> str:
    """Return the test for times like 2024-02-19T10:11:12Z of this century.

    What of it the engine reads as a time is `OFFSET_TEXT`, and sooner known than by that. The
    engine alone would take white space before the hour, and seconds that end in a point.
    """
    return (
        f"({expression} LIKE '____-__-__T__:__:__Z' AND {expression} BETWEEN '2000' AND '2099' AND "
        f"({expression})[12] BETWEEN '0' AND '2' AND NOT contains({expression}, '.'))"
    )


def _from_epoch(value: str) -> str:
    scaled = f"CASE WHEN abs({value}) >= {FROM_MILLISECONDS:.0f} THEN {value} * 1e3 "
    return (
        f"CASE WHEN isfinite({value}) AND abs({value}) < 1e13 "
        f"THEN CAST(round({scaled}ELSE {value} * 1e6 END) AS BIGINT) END"
    )


def from_wall(wall: str, naive: str) -> str:
    """Return the instant of a wall-clock time, both in microseconds."""
    offset = step_function(wall, clock(naive).wall_offsets())
    # Far from 1970 the subtraction could overflow; those times are not usable anyway.
    usable = f"abs({wall} // 1000000) < {2 * END_OF_TIMES}"
    return f"CASE WHEN {usable} THEN {wall} - CAST(1000000 AS BIGINT) * ({offset}) END"


def typed_column(ref: ColumnRef) -> str:
    """Return the expression of a column and of the steps that its declared type covers."""
    expression = identifier(ref.column)
    for step in ref.path[: ref.parsed]:
        expression += f"[{step + 1}]" if isinstance(step, int) else f"[{literal(step)}]"
    return expression


def _json_path(path: Path) -> str:
    steps = (
        f"[{s}]" if isinstance(s, int) else '."' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for s in path
    )
    return literal("$" + "".join(steps))


def select_without(excluded: Collection[str]) -> str:
    """Return the beginning of a query of all columns but some."""
    names = ", ".join(map(identifier, sorted(excluded)))
    return f"SELECT * EXCLUDE ({names})" if names else "SELECT *"


JSON_FLOAT_BITS = 53
"""Bits of the significand of a JSON number that is written with a point or an exponent."""

_NO_IDS = {
    "time": "times",
    "naive time": "times",
    "time of day": "times",
}


@dataclass(frozen=True)
class CanonicalId:
    """Two expressions of a user id.

    Attributes
    ----------
    text : str
        The canonical text; null where there is no id, or none that is exact.
    inexact : str or None
        Whether a float is there that names no vehicle exactly: not whole, infinite, or so large
        that neighbouring whole numbers share it. None where the type has no such numbers.
    """

    text: str
    inexact: str | None = None


def canonical_id(ref: ColumnRef, document: JsonColumn | None) -> CanonicalId:
    """Return the expressions of the canonical id in a field.

    Raises
    ------
    InputError
        If the field is nested, or holds times or booleans, which are no ids.
    """
    nested = json_of(ref, document)
    if nested is not None:
        return _json_id(*nested)
    kind = ref.kind
    if kind.name in ("struct", "list", "map"):
        raise InputError(f"user: the column {ref.column!r} is nested; name a field inside it.")
    if kind.name in _NO_IDS:
        raise InputError(
            f"user: the column {ref.column!r} holds {_NO_IDS[kind.name]}, which are no ids; name "
            "the column that identifies the user of a record."
        )
    if kind.name == "boolean":
        raise InputError(
            f"user: the column {ref.column!r} holds true and false, which tell no users apart; "
            "name the column that identifies the user of a record."
        )
    if kind.float_bits:
        return _float_id(typed_column(ref), kind.float_bits)
    if kind.name == "number" and not kind.is_integer:
        return CanonicalId(_strip_zeros(f"CAST({typed_column(ref)} AS VARCHAR)"))
    written = f"nullif({text(ref, document)}, '')"
    return CanonicalId(written if kind.is_integer else without_zeros(written))


def without_zeros(written: str) -> str:
    """Return text without the point and zeros that end a whole number; other text as it is."""
    # Few ids have a point: the pattern is tried on those alone.
    is_whole = f"contains({written}, '.') AND regexp_full_match({written}, '{WHOLE_WITH_ZEROS}')"
    return f"CASE WHEN {is_whole} THEN {_strip_zeros(written)} ELSE {written} END"


def _float_id(number: str, bits: int) -> CanonicalId:
    exact = f"{number} = trunc({number}) AND abs({number}) < {2**bits}"
    # As a whole number, minus zero is zero, and no exponent is written. The engine may evaluate a
    # branch that is not taken, so that no cast in it may fail.
    return CanonicalId(
        f"CASE WHEN {exact} THEN CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR) END",
        f"coalesce(NOT isnan({number}) AND NOT ({exact}), false)",
    )


def _json_id(document: JsonColumn, path: tuple[str | int, ...]) -> CanonicalId:
    """Return the id at a path in JSON, in which each number has its own type."""
    # An object is no id: the metadata in it, such as a time, would make each record a user. Nor is
    # a boolean.
    value, is_float = document.scalar(path), document.written_as_float(path)
    number = _float_id(f"TRY_CAST({value} AS DOUBLE)", JSON_FLOAT_BITS)
    written = without_zeros(f"nullif({value}, '')")
    other_text = f"CASE WHEN {document.written_as_boolean(path)} THEN NULL ELSE {written} END"
    return CanonicalId(
        f"CASE WHEN {is_float} THEN {number.text} ELSE {other_text} END",
        f"CASE WHEN {is_float} THEN {number.inexact} ELSE false END",
    )


def _strip_zeros(decimal: str) -> str:
    """Return a decimal's text without trailing zeros of its fraction; minus zero is zero."""
    stripped = f"rtrim(rtrim({decimal}, '0'), '.')"
    return (
        f"CASE WHEN contains({decimal}, '.') THEN CASE {stripped} WHEN '-0' THEN '0' "
        f"ELSE {stripped} END ELSE {decimal} END"
    )
