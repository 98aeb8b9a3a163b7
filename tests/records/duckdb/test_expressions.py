"""Expressions of SQL that are quicker than what they stand for say the same."""

import duckdb
import pytest

from hexveil.records.duckdb.expressions import (
    NAIVE_TEXT,
    OFFSET_TEXT,
    JsonColumn,
    JsonFields,
    instant,
    is_common_time,
    literal,
)
from hexveil.records.sources.columns import ColumnRef, ColumnType

USUAL = "2024-02-19T10:11:12Z"
LETTERS = "019 \t\n.:-+/TZz,é"


@pytest.fixture
def engine():
    """Return a connection on the clock of UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        yield connection


def test_usual_times_are_those_that_the_pattern_takes(engine):
    """Of a time in which any two letters are others, none passes that the pattern refuses."""
    letters = ", ".join(literal(letter) for letter in LETTERS)
    engine.execute(f"CREATE TABLE l AS SELECT unnest([{letters}]) AS x")
    pairs = ((i, j) for i in range(len(USUAL)) for j in range(i))
    spelled = [
        f"SELECT {literal(USUAL[:j])} || a.x || {literal(USUAL[j + 1 : i])} || b.x || "
        f"{literal(USUAL[i + 1 :])} AS s FROM l a, l b"
        for i, j in pairs
    ]
    engine.execute(f"CREATE TABLE times AS {' UNION ALL '.join(spelled)}")
    slow = f"regexp_full_match(s, {literal(OFFSET_TEXT)})"
    passed, wrong = engine.execute(
        f"SELECT count(*), count(*) FILTER (NOT {slow}) FROM times "
        f"WHERE {is_common_time('s')} AND TRY_CAST(s AS TIMESTAMPTZ) IS NOT NULL"
    ).fetchone()
    assert passed > 500
    assert wrong == 0
    assert engine.execute(
        f"SELECT {is_common_time('s')} FROM (SELECT {literal(USUAL)} AS s)"
    ).fetchone()[0]


@pytest.mark.parametrize(
    "text",
    [
        USUAL,
        "1969-12-31T23:59:59Z",
        "2024-02-30T10:11:12Z",
        "2024-02-19T24:00:00Z",
        "2024-02-19T10:11:12z",
        "2024-02-19T10:11:12",
        " 2024-02-19",
        "2024-02-19 10:11+05:30",
        "2024-02-19 10:11-05",
        "2024-02-19T10:11:12.5Z",
        "1708337472",
        "1708337472000",
        "1e400",
        "NaN",
        "",
        "Z",
        None,
    ],
)
def test_times_as_text_are_as_their_patterns_say(engine, text):
    """The instant, or else the time on the wall, is what the two patterns alone give."""
    found = instant(ColumnRef("s", (), ColumnType("text")), "Europe/Warsaw", None)
    epoch = "TRY_CAST(s AS DOUBLE)"
    slow = (
        f"CASE WHEN regexp_full_match(s, {literal(OFFSET_TEXT)}) THEN "
        "epoch_us(TRY_CAST(upper(s) AS TIMESTAMPTZ)) WHEN isfinite("
        f"{epoch}) AND abs({epoch}) < 1e13 THEN CAST(round({epoch} * CASE WHEN abs({epoch}) "
        ">= 1e11 THEN 1e3 ELSE 1e6 END) AS BIGINT) END, "
        f"CASE WHEN regexp_full_match(s, {literal(NAIVE_TEXT)}) THEN "
        "epoch_us(TRY_CAST(s AS TIMESTAMP)) END"
    )
    row = "FROM (SELECT CAST(? AS VARCHAR) AS s)"
    quick = engine.execute(f"SELECT {found.utc}, {found.wall} {row}", [text]).fetchone()
    assert quick == engine.execute(f"SELECT {slow} {row}", [text]).fetchone()


DOCUMENTS = [
    '{"a": 1, "b": {"c": [1, {"d": "x"}]}, "": "e", "q\\"t": 2}',
    ' \t\n{"a": null, "b": [], "a.b": true}',
    '{"a": {"b": 1}, "a": 2, "b": {"c": "text"}}',
    '{"a": 1e400, "b": {"c": {"0": 1}}}',
    "{}",
    "[1, 2]",
    '"{"',
    "null",
    "7",
    None,
]
PATHS = [("a",), ("b",), ("b", "c"), ("b", "c", 1), ("b", "c", 1, "d"), ('q"t',), ("a.b",)]


def test_fields_extracted_together_are_those_extracted_alone(engine):
    """Nested, absent, odd and null fields, other documents and none are as one by one."""
    engine.execute("CREATE TABLE documents (document JSON)")
    engine.executemany("INSERT INTO documents VALUES (?)", [[one] for one in DOCUMENTS])
    fields, one = JsonFields("document"), JsonColumn("document")
    columns = [fields(path) for path in PATHS]
    assert columns == [fields(path) for path in PATHS]
    together = (
        f"SELECT malformed, {', '.join(columns)} FROM ({fields.query('SELECT * FROM documents')})"
    )
    alone = ", ".join(one(path) for path in PATHS)
    expected = f"SELECT json_type(document) IS DISTINCT FROM 'OBJECT', {alone} FROM documents"
    found = engine.execute(together).fetchall()
    assert found == engine.execute(expected).fetchall()
    assert [row[0] for row in found] == [False] * 5 + [True] * 5
