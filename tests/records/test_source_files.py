"""Sources in memory: columns of mixed types, and of types that engines do not know, become text."""

from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hexveil import InputError
from hexveil.records.sources.memory_tables import spell
from hexveil.records.sources.source_files import resolve_source


@pytest.mark.parametrize(
    ("value", "text"),
    [
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
        (Decimal("NaN"), "NaN"),
        (True, "true"),
        (np.False_, "false"),
        ("7.0", "7.0"),
    ],
)
def test_a_number_among_other_types_has_one_text(value, text):
    """As an id it is the unit that a column of numbers gives; text is left as it is."""
    assert spell(value) == text


def test_long_decimals_are_text_without_zeros_at_their_end():
    """Their text is that of the number, in every part of a table, and what is missing stays so."""
    numbers = [Decimal("7.000"), None, Decimal("0.000"), Decimal("1.250")]
    long = pa.chunked_array([numbers[:2], numbers[2:]], pa.decimal256(50, 3))
    found = resolve_source(pa.table({"bus": long})).data
    assert found["bus"].to_pylist() == ["7", None, "0", "1.25"]
    assert resolve_source(pa.table({"bus": long.slice(0, 0)})).data["bus"].type == pa.string()


ROWS = {"bus": ["a", "b"], "speed": [10.0, 20.0]}


def test_a_lazy_frame_is_run_once():
    """A polars LazyFrame is the table that it makes of its own source."""
    pl = pytest.importorskip("polars")
    runs = []

    def counted(frame):
        runs.append(frame.height)
        return frame

    query = pl.LazyFrame(ROWS).map_batches(counted).filter(pl.col("speed") > 15)
    found = resolve_source(query).data
    assert found.to_pydict() == {"bus": ["b"], "speed": [20.0]}
    assert runs == [2]


def test_a_relation_is_a_table():
    """A query of DuckDB is the table that it makes, on the connection that it belongs to."""
    with duckdb.connect() as base:
        base.from_arrow(pa.table(ROWS)).create("trips")
        found = resolve_source(base.sql("SELECT bus, speed FROM trips WHERE speed > 15")).data
    assert found.to_pydict() == {"bus": ["b"], "speed": [20.0]}


def test_a_query_that_fails_is_one_sentence():
    """Neither the error of the library nor the value that it quotes is shown or kept."""
    with duckdb.connect() as base, pytest.raises(InputError, match=r"\(\w+\); run it or") as caught:
        resolve_source(base.sql("SELECT CAST('bus ' || 17 AS DOUBLE) AS speed"))
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


def test_an_interrupted_query_stays_an_interruption():
    """Ctrl-C during a query of another library is no bad input."""

    class Interrupted:
        def __arrow_c_stream__(self, schema=None):
            raise RuntimeError("query interrupted") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        resolve_source(Interrupted())
