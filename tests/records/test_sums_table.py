"""Tables of sums as they are read; see test_from_sums for what becomes of them."""

import h3
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from examples import examples
from hexveil.model.cells import Labels
from hexveil.records.sources.source_files import resolve_source
from hexveil.records.sums_table import parse_hexagon, read_rows


@examples(300)
@given(
    st.integers(0, 15),
    st.integers(0, 127),
    st.lists(st.integers(0, 7), min_size=15, max_size=15),
    st.integers(0, 15),
)
@example(0, 4, [7] * 15, 0)
@example(2, 4, [0, 1] + [7] * 13, 2)
def test_hexagons_are_checked_as_h3_checks_them(resolution, base, digits, cut):
    """An index counts as a cell exactly if H3 says so."""
    digits = [d if i < cut else 7 for i, d in enumerate(digits)]
    index = 1 << 59 | resolution << 52 | base << 45
    for digit, place in zip(digits, range(14, -1, -1), strict=True):
        index |= digit << 3 * place
    text = h3.int_to_str(index)
    assert (parse_hexagon(text, resolution) is not None) == h3.is_valid_cell(text)


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
