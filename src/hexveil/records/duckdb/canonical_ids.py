"""User ids as SQL: one canonical text, whatever type their column has (see `records.units`).

A vehicle whose id is 7 in one file, 7.0 in a column that pandas made a float because one id was
missing, and 7.00 in a decimal, is one privacy unit: its losses add up under one id. Such columns
are written as text, too, so that text of a whole number with a point and zeros is that number; all
other text stays byte for byte. Units that are merged are charged as one: no promise is weaker.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import JsonColumn, json_of, text, typed_column
from hexveil.records.sources.columns import ColumnRef
from hexveil.records.units import WHOLE_WITH_ZEROS

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
