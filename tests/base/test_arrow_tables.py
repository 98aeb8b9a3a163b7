"""Tables: numbers without pandas, and HTML without markup of others."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.arrow_tables import to_arrow, to_numpy, to_table


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


def test_a_notebook_shows_the_first_rows_as_text():
    """No name becomes markup; names and numbers are short, and truth is a word."""
    wards = ["<b>x</b>", "a" * 90, *(f"ward {k}" for k in range(19))]
    columns = {"<i>": wards * 30, "user": [f"b{k // 21}" for k in range(630)]}
    table = pa.table(columns | {"n": [2] * 630, "sum": [3.0] * 630})
    dataset = hv.from_sums(table, bounds=(0, 9), cells=hv.Labels("<i>"))
    plan = hv.plan(dataset, epsilon=200, advise=False)
    page = plan._repr_html_()
    assert page.count("<tr>") == 1 + 20
    assert "<p>The first 20 of 21 rows.</p>" in page
    assert "<td>&lt;b&gt;x&lt;/b&gt;</td>" in page
    assert f"<td>{'a' * 80}...</td>" in page
    assert "<td>0.0137</td>" in page
    page = hv.capacity(dataset, epsilon=200)._repr_html_()
    assert page.startswith("<p>Proposed: &lt;i&gt;, unit user")
    assert "<td>yes</td>" in page
    assert "first" not in page
