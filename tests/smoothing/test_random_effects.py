import numpy as np
import pytest

import hexveil as hv
from hexveil.smoothing import RandomEffect, correlate_across_edges, correlate_along_axis
from hexveil.smoothing import cell_groupings as module
from hexveil.smoothing.cell_groupings import drop_uninformative


def test_groupings_that_say_nothing_are_left_out():
    """One label for all, a label per cell, and a split seen before say nothing."""
    cell = np.arange(6)
    good = RandomEffect("good", cell // 2)
    again = RandomEffect("again", 5 - cell // 2)
    found = drop_uninformative(
        [RandomEffect("one", 0 * cell), RandomEffect("each", cell), good, again]
    )
    assert found == (good,)


def test_axis():
    """Correlation falls by e over the reach, around a circle the shorter way."""
    line = correlate_along_axis("hour", [23, 0, 1, 23], 2.0)
    assert line.label.tolist() == [2, 0, 1, 2]
    assert line.correlation[0, 1] == pytest.approx(np.exp(-0.5))
    assert line.correlation[0, 2] == pytest.approx(np.exp(-11.5))
    circle = correlate_along_axis("hour", [23, 0, 1, 23], 2.0, 24.0)
    assert circle.correlation[0, 2] == pytest.approx(np.exp(-0.5))
    assert (
        np.linalg.eigvalsh(correlate_along_axis("day", np.arange(24), 5.0, 24.0).correlation).min()
        > 0
    )


def test_edges():
    """Neighbours are alike, farther cells less, cells without edges not at all."""
    label = np.array([10, 20, 30, 40, 10])
    done = correlate_across_edges("near", label, [(10, 20), (30, 20), (20, 10), (10, 10), (10, 99)])
    near = done.correlation
    assert done.label.tolist() == [0, 1, 2, 3, 0]
    assert np.diag(near) == pytest.approx(np.ones(4))
    assert near[0, 1] == near[1, 0] > near[0, 2] > 0
    assert np.all(near[3, :3] == 0)


def test_what_would_be_too_large(monkeypatch):
    """Smooth groupings of too many labels, or without an edge, are not made."""
    assert correlate_across_edges("near", [1, 2], np.empty((0, 2), int)) is None
    monkeypatch.setattr(module, "MAX_CORRELATED_LABELS", 3)
    assert correlate_along_axis("axis", [1, 2, 3, 4], 1.0) is None
    assert correlate_across_edges("near", [1, 2, 3, 4], [(1, 2)]) is None


@pytest.mark.parametrize(
    ("label", "correlation", "said"),
    [
        (np.array([0.5, 1.0]), None, "one integer label per cell"),
        (np.zeros((2, 2), int), None, "one integer label per cell"),
        (np.array([0, 1]), np.eye(3), "has 2 labels, so its correlation must be 2 by 2"),
    ],
)
def test_bad_groupings_are_refused(label, correlation, said):
    """A grouping needs an integer per cell, and a matrix of its own size."""
    with pytest.raises(hv.InputError, match=said):
        RandomEffect("g", label, correlation)
