"""Tables: numbers without pandas, CSV without formulas, HTML without markup of others."""

import csv
import html
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.base import arrow_tables
from hexveil.base.arrow_tables import (
    MAX_LETTERS,
    MAX_ROWS,
    html_table,
    paragraph,
    to_arrow,
    to_numpy,
    to_table,
)

TABLE = pa.table(
    {
        "=ward": ["=1+1", "\t-2", "'@x", "''", None],
        "large": pa.array(["+", "", "a=1", "'tis", "-"], pa.large_string()),
        "n": [-1.5, 2.0, None, 4.0, 5.0],
    }
)


def test_numbers_and_gaps_stay_and_texts_are_guarded():
    """Only texts and names change, each by one apostrophe at its beginning."""
    found = arrow_tables.escape_formulas(TABLE)
    assert found.column_names == ["'=ward", "large", "n"]
    assert found["'=ward"].to_pylist() == ["'=1+1", "'\t-2", "''@x", "''", None]
    assert found["large"].to_pylist() == ["'+", "", "a=1", "'tis", "'-"]
    assert found["n"].equals(TABLE["n"])
    assert found.schema.types == TABLE.schema.types


def test_a_table_without_rows_is_a_line_of_names():
    """Nothing is lost of an empty table."""
    sink = io.BytesIO()
    arrow_tables.write_csv(TABLE.slice(0, 0), sink)
    assert [*csv.reader(io.StringIO(sink.getvalue().decode()))] == [["'=ward", "large", "n"]]


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", "int64", "float32", "float64"])
def test_numbers_survive_both_ways(dtype):
    numbers = np.arange(7, dtype=dtype)
    arrow = to_arrow(numbers)
    arrow.validate(full=True)
    assert arrow.equals(pa.array(numbers))
    for column in (arrow[2:5], pa.chunked_array([arrow[2:3], arrow[3:5]])):
        found = to_numpy(column)
        assert found.dtype == numbers.dtype
        assert found.tolist() == [2, 3, 4]
    assert to_arrow(numbers[::2]).to_pylist() == numbers[::2].tolist()
    for empty in (arrow[:0], pa.chunked_array([], arrow.type)):
        assert to_numpy(empty).dtype == numbers.dtype
        assert to_numpy(empty).size == 0


def test_other_columns_are_converted_by_pyarrow():
    assert np.isnan(to_numpy(pa.array([1.0, None]))[1])
    assert to_numpy(pa.array([True, False])).tolist() == [True, False]
    assert to_numpy(pa.chunked_array([["a"], ["b"]])).tolist() == ["a", "b"]
    assert to_arrow(np.array([True, False])).to_pylist() == [True, False]
    table = to_table({"n": np.array([1, 2]), "name": pa.array(["a", "b"])})
    assert table.to_pydict() == {"n": [1, 2], "name": ["a", "b"]}


def test_numbers_are_short_and_missing_values_empty():
    """Floats have four digits, truth is a word, and a missing value is nothing."""
    table = pa.table({"n": [12], "x": [1 / 3], "yes": [True], "no": [False], "none": [None]})
    page = html_table(table, {"x": "third"})
    assert "<th>n</th><th>third</th>" in page
    assert "<td>12</td><td>0.3333</td><td>yes</td><td></td><td></td>" in page


def test_only_the_first_rows_are_shown():
    """A longer table says how long it is."""
    page = html_table(pa.table({"n": range(MAX_ROWS + 1)}))
    assert page.count("<td>") == MAX_ROWS
    assert f"The first {MAX_ROWS} of {MAX_ROWS + 1} rows." in page
    assert "first" not in html_table(pa.table({"n": range(MAX_ROWS)}))


@given(st.text(min_size=1))
def test_no_text_becomes_markup(text):
    """Whatever a label or its column is named, it is read back as text, and tags stay ours."""
    page = html_table(pa.table({text: [text]}))
    assert page.count("<") == page.count(">") == 14
    shortened = text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}..."
    assert page.partition("<td>")[2].partition("</td>")[0] == html.escape(shortened)
    assert paragraph(text).count("<") == 2
