"""The search that COMP's formulas are held against, against cases that are known by hand."""

import numpy as np
import pytest

from hexveil_research.papers.comp import tiny_cells


def test_cells_are_all_splits_of_the_samples():
    """There are 1, 2, 3, 5, 7 and 11 of them; two users at least leave out one each."""
    assert len(tiny_cells.cells()) == 1 + 2 + 3 + 5 + 7 + 11
    assert len(tiny_cells.cells(users=2)) == len(tiny_cells.cells()) - 6
    assert all(sum(counts) <= 4 for counts in tiny_cells.cells(4))


def test_statistics_are_those_of_the_kept_samples():
    """Means and variances of every data set, with and without the dropped samples."""
    x = tiny_cells.data_sets(3)
    assert tiny_cells.means((2, 1)) == pytest.approx(x.mean(axis=1))
    assert tiny_cells.variances((2, 1)) == pytest.approx(x.var(axis=1))
    assert tiny_cells.variances((2, 1), (2, 0)) == pytest.approx(x[:, :2].var(axis=1))


def test_neighbours_differ_in_one_users_values():
    """A row of neighbours has one value of everybody else."""
    others = tiny_cells.data_sets(3)[:, 2]
    rows = tiny_cells.neighbours(others, (2, 1), user=0)
    assert rows.shape == (5, 25)
    assert (np.ptp(rows, axis=1) == 0).all()
    assert tiny_cells.largest_move(others, (2, 1)) == 1.0
