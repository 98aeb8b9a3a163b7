"""SQL expressions over one record: text, numbers, instants, offsets. A failed cast is null.

User ids as SQL: one canonical text, whatever type their column has (see `records.units`).

A vehicle whose id is 7 in one file, 7.0 in a column that pandas made a float because one id was
missing, and 7.00 in a decimal, is one privacy unit: its losses add up under one id. Such columns
are written as text, too, so that text of a whole number with a point and zeros is that number; all
other text stays byte for byte. Units that are merged are charged as one: no promise is weaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexveil.base.errors import InputError
from hexveil.records.sources.columns import ColumnRef
from hexveil.records.sources.record_format import RecordFormat
from hexveil.records.units import WHOLE_WITH_ZEROS

Path = tuple[str | int, ...]


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
    """Return a finite double that SQL reads back exactly."""
    return f"CAST('{value!r}' AS DOUBLE)"


class JsonColumn:
    """Fields of a column of JSON documents.

    Parameters
    ----------
    document : str
        The column of documents.
    """

    def __init__(self, document: str) -> None:
        self.document = document
        self._names: dict[Path, str] = {}

    def __call__(self, path: Path) -> str:
        """Return the expression of the text at a path."""
        return f"json_extract_string({self.document}, {_json_path(path)})"

    def written_as_float(self, path: Path) -> str:
        """Return the expression of whether a number with a point or exponent is at a path."""
        # The type is asked for only where the text leaves it open: it parses the document. A number
        # (or NaN, or Infinity) begins as these do; a cast that fails costs more than one that not.
        return (
            f"CASE WHEN NOT contains('-0123456789NnIi', left({self(path)}, 1)) "
            f"OR TRY_CAST({self(path)} AS DOUBLE) IS NULL THEN false "
            f"WHEN regexp_full_match({self(path)}, '-?[0-9]+') THEN false "
            f"ELSE coalesce({self._kind(path)} = 'DOUBLE', false) END"
        )

    def written_as_boolean(self, path: Path) -> str:
        """Return the expression of whether true or false is at a path, not as text."""
        return (
            f"CASE WHEN {self(path)} IN ('true', 'false') "
            f"THEN coalesce({self._kind(path)} = 'BOOLEAN', false) ELSE false END"
        )

    def scalar(self, path: Path) -> str:
        """Return the expression of the text at a path; null where an object or list is."""
        # Text may begin like an object, too.
        value = self(path)
        return (
            f"CASE WHEN starts_with({value}, '{{') OR starts_with({value}, '[') THEN CASE WHEN "
            f"{self._kind(path)} NOT IN ('OBJECT', 'ARRAY') THEN {value} END ELSE {value} END"
        )

    def _kind(self, path: Path) -> str:
        return f"json_type({self.document}, {_json_path(path)})"


class JsonTexts(JsonColumn):
    """Fields of a column of JSON documents, as columns of the query `texts`: parsed once."""

    def __call__(self, path: Path) -> str:
        """Return the column of the text at a path."""
        return self._names.setdefault(path, f"text{len(self._names)}")

    def texts(self, documents: str) -> str:
        """Return the query of documents with the texts at all paths that were asked for."""
        paths = ", ".join(map(_json_path, self._names))
        texts = "".join(f", texts[{i}] AS {name}" for i, name in enumerate(self._names.values(), 1))
        return (
            f"SELECT {self.document}{texts} FROM (SELECT {self.document}, "
            f"json_extract_string({self.document}, [{paths}]) AS texts FROM ({documents}))"
        )


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


def is_text(ref: ColumnRef, document: JsonColumn | None) -> bool:
    """Return whether a field holds text, or JSON that may be text."""
    return json_of(ref, document) is not None or ref.kind.name in ("text", "json")


def declared_number(
    ref: ColumnRef, role: str, document: JsonColumn | None, record_format: RecordFormat
) -> str:
    """Return the number in a field as a double, or null; a decimal comma only where declared."""
    # A point of GeoJSON is JSON, in which a number has a decimal point.
    if record_format.decimal == "." or ref.point is not None or not is_text(ref, document):
        return number(ref, role, document)
    return f"TRY_CAST(trim({_with_point(text(ref, document), ref, document)}) AS DOUBLE)"


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
    if kind.name in ("time", "naive time", "time of day"):
        raise InputError(
            f"user: the column {ref.column!r} holds times, which are no ids; name the column that "
            "identifies the user of a record."
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
    number = _float_id(f"TRY_CAST({value} AS DOUBLE)", 53)
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
