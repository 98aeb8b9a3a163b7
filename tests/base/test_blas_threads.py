"""Linear algebra in one thread while plans are made and maps smoothed, and as before afterwards."""

import contextlib

import numpy as np
import pyarrow as pa
import pytest
import scipy.linalg  # noqa: F401  loaded before its threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

import hexveil as hv


def threads():
    """Return the numbers of threads of all loaded libraries of linear algebra."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture
def smoothed(tmp_path):
    """Return a function that makes a smoothed map of twelve cells, in four threads if it can."""
    columns = {"ward": [f"{k % 12:02d}" for k in range(360)], "user": [f"b{k}" for k in range(360)]}
    table = pa.table(columns | {"n": [2] * 360, "sum": [float(k % 12) for k in range(360)]})
    read = hv.from_sums(table, bounds=(0, 20), cells=hv.Labels("ward"))
    plan = hv.plan(read, epsilon=1, clipping_range="bounds", advise=False)
    book = hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=9)
    options = {"ledger": book, "estimates": ("raw", "smoothed"), "accept_noise": True}
    with threadpool_limits(4, user_api="blas"):
        yield lambda: hv.release(read, plan, **options)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_a_map_is_smoothed_in_one_thread(monkeypatch, smoothed, error):
    """Each inverse finds one thread; the number is restored afterwards, whatever stops the work."""
    seen, before, inverse = [], threads(), np.linalg.inv

    def inv(matrix):
        seen.append(threads())
        if error:
            raise error
        return inverse(matrix)

    monkeypatch.setattr(np.linalg, "inv", inv)
    with pytest.raises(error) if error else contextlib.nullcontext():
        assert "mean_smoothed" in smoothed().columns
    assert seen
    assert all(numbers <= {1} for numbers in seen)
    assert threads() == before
