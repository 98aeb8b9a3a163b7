"""Sources in memory: columns of mixed types, and of types that engines do not know, become text."""

from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hexveil import InputError, Labels, Select, read

TEXTS = [
    (7, "7"),
    (7.0, "7"),
    (-0.0, "0"),
    (7.5, "7.5"),
    (2.0**53, "9007199254740992.0"),
    (float("inf"), "inf"),
    (np.float32(7), "7"),
    (np.int8(7), "7"),
    (Decimal("7.00"), "7"),
    (Decimal("-0.00"), "0"),
    (Decimal("-0.50"), "-0.5"),
    (Decimal("7E+2"), "700"),
    (True, "true"),
    (np.False_, "false"),
    ("7.0", "7.0"),
]
"""Values of a column of mixed types, and their texts."""


def pairs_of(source):
    """Return the sum of each line and bus."""
    found = read(
        source, user="bus", value="speed", bounds=(0, 99), cells=Labels("line"),
        select=Select(min_users=1),
    )  # fmt: skip
    lines, buses = found.public.cells.labels["line"], found.units.users.to_pylist()
    pairs, sums = found.occupancy, found.sums.total.tolist()
    return {(lines[c], buses[u]): k for c, u, k in zip(pairs.cell, pairs.user, sums, strict=True)}


def table(ids):
    """Return a record on a line of its own for each id."""
    lines = [f"{i:02d}" for i in range(len(ids))]
    return {"bus": ids, "line": lines, "speed": [1.0] * len(ids)}


def test_a_number_among_other_types_has_one_text():
    """As an id it is the unit that a column of numbers gives; text is left as it is."""
    pd = pytest.importorskip("pandas")
    values, texts = zip(*TEXTS, strict=True)
    # As a label, too: there 7.0 stays 7.0.
    frame = pd.DataFrame(table(pd.Series(values, dtype=object)))
    expected = ["7" if text == "7.0" else text for text in texts]
    expected = [text.removesuffix(".0") for text in expected]
    assert [bus for _, bus in sorted(pairs_of(frame))] == expected
    frame = frame.assign(line=frame["bus"], bus="a")
    assert {line for line, _ in pairs_of(frame)} == set(texts)


def test_long_decimals_are_text_without_zeros_at_their_end():
    """Their text is that of the number, in every part of a table, and what is missing stays so."""
    numbers = [Decimal("7.000"), None, Decimal("0.000"), Decimal("1.250")]
    long = pa.chunked_array([numbers[:2], numbers[2:]], pa.decimal256(50, 3))
    rows = pa.table({"bus": ["a"] * 4, "line": long, "speed": [1.0] * 4})
    assert pairs_of(rows.take([0, 2, 3])) == {(n, "a"): 1000 for n in ("0", "1.25", "7")}
    with pytest.raises(InputError, match="1 of 4 records cannot be used"):
        pairs_of(rows)
    with pytest.raises(InputError, match="no record"):
        pairs_of(rows.slice(0, 0))


ROWS = {"bus": ["a", "b"], "line": ["x", "x"], "speed": [10.0, 20.0]}
FAST = {("x", "b"): 20_000}
"""Of these the records above 15."""


def test_a_lazy_frame_is_run_once():
    """A polars LazyFrame is the table that it makes of its own source."""
    pl = pytest.importorskip("polars")
    runs = []

    def counted(frame):
        runs.append(frame.height)
        return frame

    query = pl.LazyFrame(ROWS).map_batches(counted).filter(pl.col("speed") > 15)
    assert pairs_of(query) == FAST
    assert runs == [2]


def test_a_relation_is_a_table():
    """A query of DuckDB is the table that it makes, on the connection that it belongs to."""
    with duckdb.connect() as base:
        base.from_arrow(pa.table(ROWS)).create("trips")
        assert pairs_of(base.sql("SELECT * FROM trips WHERE speed > 15")) == FAST


def test_a_query_that_fails_is_one_sentence():
    """Neither the error of the library nor the value that it quotes is shown or kept."""
    with duckdb.connect() as base, pytest.raises(InputError, match=r"\(\w+\); run it or") as caught:
        pairs_of(base.sql("SELECT CAST('bus ' || 17 AS DOUBLE) AS speed"))
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


def test_an_interrupted_query_stays_an_interruption():
    """Ctrl-C during a query of another library is no bad input."""

    class Interrupted:
        def __arrow_c_stream__(self, schema=None):
            raise RuntimeError("query interrupted") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        pairs_of(Interrupted())
