"""Linear algebra in one thread while plans are made and maps smoothed, and as before afterwards."""

import numpy as np
import pytest

from hexveil.base import blas_threads
from hexveil.base.blas_threads import BlasLibrary, loaded_libraries, single_blas_thread
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.shrinkage import smooth


class Counter:
    """A library that notes how many threads it was told to have."""

    def __init__(self, threads):
        self.threads = threads
        self.library = BlasLibrary(lambda: self.threads, self.write)

    def write(self, threads):
        """Take a number of threads."""
        self.threads = threads


@pytest.fixture
def library(monkeypatch):
    """Return a library of four threads that stands for all loaded ones."""
    counter = Counter(4)
    monkeypatch.setattr(blas_threads, "loaded_libraries", lambda: [counter.library])
    return counter


def test_limits_nest_and_the_outermost_restores(library):
    """Inside there is one thread, whatever the depth; after a failure the number is restored."""
    with single_blas_thread():
        with single_blas_thread():
            assert library.threads == 1
        assert library.threads == 1
    assert library.threads == 4
    with pytest.raises(ValueError, match="x"), single_blas_thread():
        raise ValueError("x")
    assert library.threads == 4


def test_a_map_is_smoothed_in_one_thread(library, monkeypatch):
    """Each inverse finds one thread, so that numbers do not depend on processors."""
    seen, inverse = [], np.linalg.inv

    def inv(matrix):
        seen.append(library.threads)
        return inverse(matrix)

    monkeypatch.setattr(np.linalg, "inv", inv)
    same_row = RandomEffect("row", np.repeat(np.arange(3), 4))
    smooth(np.arange(12.0), 1.0, (same_row,))
    assert set(seen) == {1}
    assert library.threads == 4


def test_the_library_of_numpy_takes_the_number():
    """What numpy's wheel brings along is limited and restored; elsewhere nothing is changed."""
    before = [library.read() for library in loaded_libraries()]
    with single_blas_thread():
        assert all(library.read() == 1 for library in loaded_libraries())
    assert [library.read() for library in loaded_libraries()][: len(before)] == before
