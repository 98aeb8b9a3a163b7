"""Formats of public times, told by the first of them; the times stay in the engine."""

from __future__ import annotations

from itertools import product

from hexveil.base.errors import InputError
from hexveil.records.duckdb.expressions import (
    NAIVE_TEXT,
    OFFSET_TEXT,
    JsonColumn,
    literal,
    text,
)
from hexveil.records.duckdb.formats.declared_texts import CLOCK, day_and_time
from hexveil.records.duckdb.formats.json_documents import DOCUMENT
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.sources import vocabulary
from hexveil.records.sources.columns import all_names, find_column

_LOOKED_AT = 1000
_DAYS = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y"),
    "%Y-%m-%d",
)
_CLOCKS = (
    *(" %H:%M:%S", " %H:%M:%S.%f", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "T%H:%M:%S", "T%H%M%S"),
    *(" %H%M%S", "%H%M%S", ", %H:%M:%S", " %H:%M:%S %z", " %H.%M.%S", "", "T%H%M%S%z"),
)
FORMATS = tuple(f"{day}{clock}" for day, clock in product(_DAYS, _CLOCKS))


def guess(
    session: Session, relation: Relation
) -> tuple[tuple[str, str] | None, dict[str, tuple[str, ...]]]:
    """Return columns of dates and times of day, and the formats of columns named like times."""
    document = JsonColumn(DOCUMENT) if relation.documents else None
    refs_by_name = {name: find_column(name, relation.schema) for name in all_names(relation.schema)}
    refs = {
        name: ref for name, ref in refs_by_name.items() if ref and vocabulary.is_time_name(name)
    }
    if not refs:
        return None, {}
    columns = sorted({ref.column for ref in refs.values()})
    rows = relation.query if relation.text is None else relation.text.query(columns)
    for day, clock in vocabulary.day_and_time(refs):
        try:
            written = day_and_time(refs[day], refs[clock], document)
        except InputError:  # their types are others
            continue
        alone = f"coalesce({text(refs[clock], document)}, '')"
        tests = f"bool_and(regexp_full_match({alone}, {literal(CLOCK)}))"
        if _first(session, rows, tests):
            return (day, clock), _formats(session, rows, {clock: written})
    texts = {
        name: text(ref, document)
        for name, ref in refs.items()
        if ref.kind.name in ("text", "json", "number") and not ref.kind.fields
    }
    return None, _formats(session, rows, texts)


def _first(session: Session, records: str, expressions: str) -> tuple[object, ...]:
    """Return aggregates of the first rows, () where none is true."""
    rows = f"SELECT * FROM ({records}) LIMIT {_LOOKED_AT}"
    row = session.rows(f"SELECT {expressions} FROM ({rows})")[0]
    return row if any(row) else ()


def _formats(session: Session, records: str, texts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    formats = {}
    for name, written in texts.items():
        usual = f"regexp_full_match(x, {literal(f'({OFFSET_TEXT})|({NAIVE_TEXT})')})"
        parsed = ", ".join(
            f"count(*) FILTER (WHERE try_strptime(x, {literal(pattern)}) IS NULL) = 0"
            for pattern in FORMATS
        )
        rows = (
            f"SELECT trim({written}) AS x FROM ({records}) "
            f"WHERE {written} IS NOT NULL LIMIT {_LOOKED_AT}"
        )
        n, in_usual, largest, *fits = session.rows(
            f"SELECT count(*), coalesce(bool_and({usual}), true), "
            f"max(abs(TRY_CAST(x AS DOUBLE))), {parsed} FROM ({rows})"
        )[0]
        size = float(str(largest or 0))
        if not n or in_usual:
            continue
        by_unit = "ns" if size >= 1e16 else "us" if size >= 1e13 else ""
        patterns = [pattern for pattern, fit in zip(FORMATS, fits, strict=True) if fit]
        # Numbers that have as many digits as a date are dates.
        if patterns:
            formats[name] = tuple(patterns)
        elif by_unit:
            formats[name] = (by_unit,)
    return formats
