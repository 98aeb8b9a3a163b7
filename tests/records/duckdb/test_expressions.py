"""Expressions of SQL that are quicker than what they stand for say the same."""

import duckdb
import pytest

from hexveil.records.duckdb.expressions import literal
from hexveil.records.duckdb.times import NAIVE_TEXT, OFFSET_TEXT, instant
from hexveil.records.sources.columns import ColumnRef, ColumnType

USUAL = "2024-02-19T10:11:12Z"


@pytest.fixture
def engine():
    """Return a connection on the clock of UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        yield connection


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
