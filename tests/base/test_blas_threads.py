"""Linear algebra in one thread while plans are made and maps smoothed, and as before afterwards."""

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  loaded before its threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

from hexveil.base.blas_threads import single_blas_thread
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.shrinkage import smooth


def threads():
    """Return the numbers of threads of all loaded libraries of linear algebra."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _four_threads():
    with threadpool_limits(4, user_api="blas"):
        yield


def test_limits_nest_and_the_outermost_restores():
    """Inside there is one thread, whatever the depth; after a failure the number is restored."""
    before = threads()
    with single_blas_thread():
        with single_blas_thread():
            assert threads() <= {1}
        assert threads() <= {1}
    assert threads() == before
    with pytest.raises(ValueError, match="x"), single_blas_thread():
        raise ValueError("x")
    assert threads() == before


def test_a_map_is_smoothed_in_one_thread(monkeypatch):
    """Each inverse finds one thread, so that numbers do not depend on processors."""
    seen, before, inverse = [], threads(), np.linalg.inv

    def inv(matrix):
        seen.append(threads())
        return inverse(matrix)

    monkeypatch.setattr(np.linalg, "inv", inv)
    same_row = RandomEffect("row", np.repeat(np.arange(3), 4))
    smooth(np.arange(12.0), 1.0, (same_row,))
    assert seen
    assert all(numbers <= {1} for numbers in seen)
    assert threads() == before
