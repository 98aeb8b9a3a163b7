"""Reading uses a value only through "is there and finite": in every engine, for every scale.

Two sources whose values alone differ, all of them usable or all of them not in the same records,
give the same public facts; and no value makes one of the two fail. Which place counts of several
records of one user and time, no value decides (tests/records/test_repeats.py).
"""

import csv
import io
import math
from decimal import Decimal
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, example, given
from hypothesis import strategies as st

from examples import LONG, examples
from hexveil.base.errors import InputError
from hexveil.model.cells import Labels
from hexveil.model.public_metadata import MAX_QUANTUM_TERM, ValueLattice
from hexveil.records.duckdb.validation import quanta
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.records.sql import sums_query
from records import test_read, test_sql
from records.engines import outcome, public
from records.test_sql import postgres  # noqa: F401  a server of its own

MORE = 5 if LONG else 1
"""Times as many examples in the long form."""
EXTREME = [0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1e-200, 1e-17, 0.5, 64.9995, 2.0**53, 1e16, 1e155,
           -1e155, 1.7976931348623157e308, -1.7976931348623157e308]  # fmt: skip
UNUSABLE = [None, math.nan, math.inf, -math.inf]
finite = st.one_of(
    st.sampled_from(EXTREME), st.floats(allow_nan=False, allow_infinity=False, width=64)
)


def usable(value):
    """Return whether a value is there and finite."""
    return value is not None and math.isfinite(value)


def swapped(draw, values, kept=()):
    """Return other values, usable where these are; some stay, as they are public."""
    return [
        value if value in kept else draw(finite if usable(value) else st.sampled_from(UNUSABLE))
        for value in values
    ]


def without(values, kept):
    """Return the values, none of which becomes one of those that mean no reading."""
    return [0.125 if value in kept else value for value in values]


@st.composite
def neighbours(draw, records, place, kept=()):
    """Draw the rows of two sources whose values, at a place of each row, alone differ."""
    rows = draw(records)
    values = [row[place] for row in rows]
    others = swapped(draw, values, kept)
    others = [
        old if old in kept else new for old, new in zip(values, without(others, kept), strict=True)
    ]
    return rows, [
        (*row[:place], new, *row[place + 1 :]) for row, new in zip(rows, others, strict=True)
    ]


DROPPED = (0.0, 30.0, 90.0)
"""Values that `drop_values` of the shared rules may name: having one of them is public."""


@pytest.mark.slow
@examples(12 * MORE, suppress_health_check=list(HealthCheck))
@given(neighbours(test_read.records, 0, DROPPED), test_read.grids, test_read.rules)
def test_values_change_no_public_fact(rows, grid, rule):
    """Counts, cells, units, rules and refusals are those of any other usable values."""
    one, other = (
        outcome(test_read.read_table, test_read.arrow(side), grid=grid, rule=rule) for side in rows
    )
    assert public(one) == public(other)


def counted(table):
    """Return what a query's result says but for the sums, row by row."""
    names = [name for name in table.column_names if name not in ("sum", "sum_sq")]
    return sorted(map(repr, table.select(names).to_pylist()))


@pytest.mark.slow
@examples(12 * MORE, suppress_health_check=list(HealthCheck))
@given(
    neighbours(test_sql.records, 1, (999.0, 1.0005)),
    test_sql.grids,
    test_sql.options,
    test_sql.selections,
)
def test_values_change_no_count_of_the_query(rows, grid, options, selection):
    """The query for warehouses has the same rows and counts, whatever the values are."""
    arguments = test_sql.asked(grid, options, selection)
    query = sums_query(source="trips", dialect="duckdb", **arguments)
    one, other = (test_sql.in_duckdb(query, test_sql.table_of(side)) for side in rows)
    assert counted(one) == counted(other)


@pytest.fixture(scope="module")
def engine():
    """Return a connection that expressions are evaluated by."""
    with duckdb.connect() as connection:
        yield connection


@st.composite
def scales(draw):
    """Draw bounds and a quantum of any size, most of which can be used."""
    parts = st.one_of(
        st.integers(1, 10**6),
        st.builds(lambda base, power: base**power, st.integers(2, 11), st.integers(0, 90)),
        st.builds(lambda power, more: 10**power + more, st.integers(0, 99), st.integers(0, 9)),
        st.sampled_from(
            [MAX_QUANTUM_TERM, MAX_QUANTUM_TERM + 1, 10**295 + 1, 10**300 + 7, 2**1023]
        ),
    )
    quantum = Fraction(draw(parts), draw(parts))
    reach = st.integers(-(2**52), 2**52) | st.integers(-9, 9)
    low, high = sorted((draw(reach), draw(reach)))
    assume(low < high)
    return (low * quantum, high * quantum), quantum


def usable_scale(scale):
    """Return whether a reading with these bounds and quantum is not refused from the start."""
    try:
        ValueLattice.of(*scale)
    except InputError:
        return False
    return True


def fleet(values, kind=None):
    """Return a few records in two cells."""
    size = len(values)
    return pa.table(
        {
            "bus": ["a", "b", "a", "c"] * (size // 4) + ["d"] * (size % 4),
            "v": pa.array(values, kind or pa.float64(), from_pandas=False),
            "w": ["x", "y"] * (size // 2) + ["x"] * (size % 2),
        }
    )


def read_fleet(table, scale):
    """Read these records on a scale."""
    bounds, quantum = scale
    return read(
        table, user="bus", value="v", bounds=bounds, quantum=quantum, cells=Labels("w"),
        select=Select(min_users=1), max_bad_rows=1, max_repeats=1,
    )  # fmt: skip


HUGE = ((0, 2**50 * Fraction(10**295 + 1, 10**300 + 7)), Fraction(10**295 + 1, 10**300 + 7))


@pytest.mark.slow
@examples(12 * MORE, suppress_health_check=list(HealthCheck))
@given(scales(), st.lists(finite | st.sampled_from(UNUSABLE), min_size=1, max_size=12))
@example(HUGE, [1.0, 1e300, -1e300])
@example(((0, 10**9), Fraction(10**9, 10**300 + 7)), [1.0, 5e8])
def test_no_value_is_an_error_on_any_scale(scale, values):
    """A scale is refused beforehand or takes every value, and keeps each within its bounds."""
    plain = [0.0 if usable(value) else None for value in values]
    one, other = (outcome(read_fleet, fleet(side), scale=scale) for side in (plain, values))
    assert public(one) == public(other)
    if isinstance(other, tuple):
        assert other[0] is InputError
        return
    size = (scale[0][1] - scale[0][0]) / scale[1]
    assert all(0 <= q <= n * size for q, n in zip(other["totals"], other["pairs"][2], strict=True))
    texts = [None if value is None else repr(value) for value in values]
    assert outcome(read_fleet, fleet(texts, pa.string()), scale=scale) == other


@pytest.mark.slow
@examples(150 * MORE)
@given(scales(), st.lists(finite | st.sampled_from([math.nan, math.inf]), min_size=1, max_size=12))
def test_a_value_is_the_nearest_number_of_quanta(engine, scale, values):
    """On every scale the expression is the exact quotient, but for its last bits."""
    assume(usable_scale(scale))
    of = ValueLattice.of(*scale)
    found = engine.execute(
        f"SELECT {quanta('v', of)} FROM (SELECT unnest(?) AS v)", [values]
    ).fetchall()
    slack = 1 + 4 * max(abs(of.lower), abs(of.upper)) / of.quantum / 2**52
    for value, (k,) in zip(values, found, strict=True):
        if usable(value):
            exact = (min(max(Fraction(value), of.lower), of.upper) - of.lower) / of.quantum
            assert abs(k - exact) <= slack
        assert 0 <= k <= of.span_quanta


@pytest.mark.parametrize("text", ["1e400", "-1e999", "1e-400", "9" * 400, "0." + "0" * 400 + "1"])
def test_numbers_as_text_beyond_doubles_are_no_errors(text):
    """A number as text that no double holds is unusable or 0, not a failure."""
    found = outcome(read_fleet, fleet([text, "1"], pa.string()), scale=((0, 65), "0.001"))
    assert isinstance(found, dict)


QUERY = {"source": "trips", "user": "bus", "value": "v", "cells": Labels("w")}


SCALES = [((0, 65), "0.001"), ((0, 65), 5), ((-(2**51), 2**51), 1), ((0, "1e-80"), "1e-90"),
          ((0, 10**100), 10**99), ((0, Fraction(65, 3)), Fraction(1, 3))]  # fmt: skip
NUMERIC = [Decimal(t) for t in ("1e400", "-1e400", "1e-400", "1e-320", "NaN", "7", "1e308")]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("kind", ["double precision", "numeric", "real", "bigint"])
def test_no_value_is_an_error_in_postgres(postgres, scale, kind):  # noqa: F811  the fixture
    """PostgreSQL refuses products that overflow or come to nothing: the query makes none."""
    values = {
        "double precision": [*EXTREME, "NaN", "Infinity", "-Infinity"],
        "numeric": [*NUMERIC, "Infinity"],
        "real": [1e-45, 1.17e-38, 3.4e38, "NaN", "-Infinity"],
        "bigint": [0, 2**63 - 1, -(2**63)],
    }[kind]
    rows = ", ".join(f"('b{i}', '{value}', 'x')" for i, value in enumerate(values))
    bounds, quantum = scale
    text = postgres(
        f"DROP TABLE IF EXISTS trips; CREATE TABLE trips (bus text, v {kind}, w text); "
        f"INSERT INTO trips VALUES {rows};\n"
        + sums_query(**QUERY, bounds=bounds, quantum=quantum, dialect="postgres")
    )
    there = list(csv.DictReader(io.StringIO(text)))
    assert len(there) == sum(Decimal(str(value)).is_finite() for value in values)
    assert {row["n"] for row in there} == {"1"}
