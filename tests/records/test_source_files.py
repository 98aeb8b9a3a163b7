"""Sources in memory: columns of mixed types, and of types that engines do not know, become text."""

from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hexveil import InputError, Labels, Select, read
from records.engines import pairs_of

TEXTS = [
    (7, "7"), (7.0, "7"), (-0.0, "0"), (7.5, "7.5"), (2.0**53, "9007199254740992.0"),
    (float("inf"), "inf"), (np.float32(7), "7"), (np.int8(7), "7"), (Decimal("7.00"), "7"),
    (Decimal("-0.00"), "0"), (Decimal("-0.50"), "-0.5"), (Decimal("7E+2"), "700"), (True, "true"),
    (np.False_, "false"), ("7.0", "7.0"),
]  # fmt: skip
"""Values of a column of mixed types, and their texts."""


def pairs(source):
    """Return what is read of each line and bus."""
    columns = {"user": "bus", "value": "speed", "bounds": (0, 99), "cells": Labels("line")}
    return pairs_of(read(source, **columns, select=Select(min_users=1)))


def test_a_number_among_other_types_has_one_text():
    """As an id it is the unit that a column of numbers gives; text is left as it is."""
    pd = pytest.importorskip("pandas")
    values, texts = zip(*TEXTS, strict=True)
    # As a label, too: there 7.0 stays 7.0.
    frame = pd.DataFrame({"bus": pd.Series(values, dtype=object), "speed": 1.0})
    frame["line"] = [f"{i:02d}" for i in frame.index]
    expected = [text.removesuffix(".0") for text in texts]
    assert [bus for _, bus in sorted(pairs(frame))] == expected
    frame = frame.assign(line=frame["bus"], bus="a")
    assert {line for line, _ in pairs(frame)} == set(texts)


ROWS = {"bus": ["a", "b"], "line": ["x", "x"], "speed": [10.0, 20.0]}
FAST = {("x", "b"): (1, 20_000, 20_000**2)}
"""Of these the records above 15."""


def test_a_lazy_frame_is_run_once():
    """A polars LazyFrame is the table that it makes of its own source."""
    pl = pytest.importorskip("polars")
    runs = []

    def counted(frame):
        runs.append(frame.height)
        return frame

    query = pl.LazyFrame(ROWS).map_batches(counted).filter(pl.col("speed") > 15)
    assert pairs(query) == FAST
    assert runs == [2]


def test_a_relation_is_a_table():
    """A query of DuckDB is the table that it makes, on the connection that it belongs to."""
    with duckdb.connect() as base:
        base.from_arrow(pa.table(ROWS)).create("trips")
        assert pairs(base.sql("SELECT * FROM trips WHERE speed > 15")) == FAST


def test_a_query_that_fails_is_one_sentence():
    """Neither the error of the library nor the value that it quotes is shown or kept."""
    with duckdb.connect() as base, pytest.raises(InputError, match=r"\(\w+\); run it or") as caught:
        pairs(base.sql("SELECT CAST('bus ' || 17 AS DOUBLE) AS speed"))
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


def test_an_interrupted_query_stays_an_interruption():
    """Ctrl-C during a query of another library is no bad input."""

    class Interrupted:
        def __arrow_c_stream__(self, schema=None):
            raise RuntimeError("query interrupted") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        pairs(Interrupted())
