"""CSV for spreadsheets: texts that begin a formula are guarded, and everything comes back."""

import csv
import io

import pyarrow as pa

from hexveil.base import csv_safety

TABLE = pa.table(
    {
        "=ward": ["=1+1", "\t-2", "'@x", "''", None],
        "large": pa.array(["+", "", "a=1", "'tis", "-"], pa.large_string()),
        "n": [-1.5, 2.0, None, 4.0, 5.0],
    }
)


def test_numbers_and_gaps_stay_and_texts_are_guarded():
    """Only texts and names change, each by one apostrophe at its beginning."""
    found = csv_safety.escape_formulas(TABLE)
    assert found.column_names == ["'=ward", "large", "n"]
    assert found["'=ward"].to_pylist() == ["'=1+1", "'\t-2", "''@x", "''", None]
    assert found["large"].to_pylist() == ["'+", "", "a=1", "'tis", "'-"]
    assert found["n"].equals(TABLE["n"])
    assert found.schema.types == TABLE.schema.types


def test_a_table_without_rows_is_a_line_of_names():
    """Nothing is lost of an empty table."""
    sink = io.BytesIO()
    csv_safety.write(TABLE.slice(0, 0), sink)
    assert [*csv.reader(io.StringIO(sink.getvalue().decode()))] == [["'=ward", "large", "n"]]
