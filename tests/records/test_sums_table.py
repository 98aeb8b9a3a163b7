"""Tables of sums as they are read; see test_from_sums for what becomes of them."""

import pyarrow as pa

from hexveil.model.cells import Labels
from hexveil.records.sources.source_files import resolve_source
from hexveil.records.sums_table import read_rows


def test_rows_show_nothing_of_themselves():
    """The repr of rows that were read tells their number alone."""
    table = pa.table({"cell": ["c"], "user": ["u"], "n": [1], "sum": [12345.0]})
    assert (
        repr(read_rows(resolve_source(table), Labels("cell"), None)) == "SumRows(n_rows=1, private)"
    )


def test_malformed_lines_are_counted(tmp_path):
    """A line of a CSV file with too many fields is left out and counted, never quoted."""
    path = tmp_path / "sums.csv"
    path.write_text("cell,user,n,sum\nx,a,1,2.5\nx,b,1,2.5,9,9\nx,c,1,\n")
    rows = read_rows(resolve_source(path), Labels("cell"), None)
    assert rows.value_sum.tolist() == [2.5]
    assert rows.rules == {
        "rows read": 3,
        "unparsable": 1,
        "without a usable sum": 1,
        "without a user": 0,
        "without a usable place": 0,
    }
