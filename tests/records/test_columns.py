"""Where configured columns are found: exact names first, then paths, then JSON."""

import json

import pyarrow as pa
import pytest

from hexveil import ColumnError, OneCell, Select, read


def total(source, value):
    """Return the sum of a column of values, in thousandths."""
    found = read(
        source, user="bus", value=value, bounds=(0, 9), cells=OneCell(), select=Select(min_users=1)
    )
    return found.sums.total.sum()


def test_an_exact_name_comes_before_a_path():
    """A column whose name holds dots wins over the nested field of the same spelling."""
    table = pa.table({"bus": ["x"], "a.b": ["1"], "a": [{"b": 2.0}]})
    assert total(table, "a.b") == 1000
    assert total(table.drop_columns("a.b"), "a.b") == 2000


def test_keys_of_documents_may_hold_dots_inside(tmp_path):
    """Where the keys are known the longest that fits is taken, and a wrong one is refused."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps([{"bus": "x", "a": {"b.c": 1, "b": {"c": 3, "d": 2}}}]))
    assert total(path, "a.b.c") == 1000
    assert total(path, "a.b.d") == 2000
    with pytest.raises(ColumnError, match=r"no column 'a\.b\.x'"):
        total(path, "a.b.x")
