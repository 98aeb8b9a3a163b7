"""Linear algebra in one thread while plans are made and maps smoothed, and as before afterwards."""

import threading

import numpy as np
import pytest

import hexveil as hv
from fleets import fleet
from hexveil.base import blas_threads
from hexveil.base.blas_threads import BlasLibrary, loaded_libraries, single_blas_thread
from hexveil.planning.feasibility import prediction
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


def test_a_library_that_is_loaded_inside_is_limited_by_the_next(monkeypatch):
    """Scipy may be loaded late: the next limit inside covers it, the outermost restores it."""
    early, late = Counter(4), Counter(8)
    loaded = [early.library]
    monkeypatch.setattr(blas_threads, "loaded_libraries", lambda: list(loaded))
    with single_blas_thread():
        loaded.append(late.library)
        with single_blas_thread():
            assert (early.threads, late.threads) == (1, 1)
        assert late.threads == 1
    assert (early.threads, late.threads) == (4, 8)


def test_threads_of_a_program_share_the_limit(library):
    """The number is restored once the last of two threads has left."""
    inside, leave = threading.Event(), threading.Event()

    def other():
        with single_blas_thread():
            inside.set()
            leave.wait(10)

    worker = threading.Thread(target=other)
    with single_blas_thread():
        worker.start()
        assert inside.wait(10)
    assert library.threads == 1
    leave.set()
    worker.join(10)
    assert library.threads == 4


def test_a_plan_and_a_prediction_are_made_in_one_thread(library, monkeypatch):
    """Whoever plans or predicts finds one thread, and the old number afterwards."""
    seen = []
    factors = np.exp

    def exp(*arguments, **options):
        seen.append(library.threads)
        return factors(*arguments, **options)

    monkeypatch.setattr(np, "exp", exp)
    plan = hv.plan(fleet(6), epsilon=1, clipping_range="auto", advise=False)
    prediction.ErrorPredictor(plan, fleet(5)).predict(plan.requested_epsilon)
    assert seen
    assert 1 in seen
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
