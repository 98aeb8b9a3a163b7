"""Numbers between Arrow and numpy, without pandas."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from hexveil.base.arrow_numbers import to_arrow, to_numpy, to_table


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


@pytest.mark.slow
def test_reading_loads_no_pandas(tmp_path):
    path = tmp_path / "records.csv"
    lines = [f"bus {i % 30},{21 + i % 5 / 100},72.8,2024-02-19T10:{i % 60:02}:00Z,{i % 50}\n"
             for i in range(600)]  # fmt: skip
    path.write_text("u,lat,lon,t,v\n" + "".join(lines), "utf-8")
    code = (
        "import sys; from hexveil import Cells, read; "
        "read(sys.argv[1], user='u', value='v', lat='lat', lon='lon', time='t', bounds=(0, 65), "
        "cells=Cells(6, '1h', 'Asia/Kolkata'), max_repeats=1); print('pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
