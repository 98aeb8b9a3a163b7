"""Data sets: private sums that belong to their counts, or none at all."""

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from hexveil import Dataset, HexveilError, from_sums


def dataset_of(counts, totals, squares, steps):
    """Return a data set of one cell, with sums in place of those that were read."""
    size = len(counts)
    users = [str(i) for i in range(size)]
    table = pa.table({"cell": ["x"] * size, "user": users, "n": counts, "sum": [0.0] * size})
    known = from_sums(table, bounds=(0, steps), quantum=1, min_users=1)
    sums = [None if s is None else np.array(s, dtype=np.int64) for s in (totals, squares)]
    return Dataset(known.public, replace(known.sums, total=sums[0], total_sq=sums[1]))


@pytest.mark.parametrize(
    ("n", "total", "squares"),
    [
        (3, 9, 26),  # total^2 <= n * squares
        (3, 9, 46),  # squares <= steps * total, and of whole values at most 25 + 16 = 41
        (3, 9, 42),
        (2, 3, 4),  # whole values: 1 and 2 at least
        (2, 0, 1),
        (2, 10, 49),
        (1, 2, -1),
        (1, 2, 5),
    ],
)
def test_squares_no_values_have_are_refused_without_being_shown(n, total, squares):
    """Squares outside what counts and sums allow are an error that shows no number."""
    good = (1, 5, 25)
    columns = zip(good, (n, total, squares), strict=True)
    with pytest.raises(HexveilError) as error:
        dataset_of(*map(list, columns), 5)
    assert str(error.value) == "sums of squares are outside the bounds of their counts and sums."


def test_the_largest_squares_are_checked_without_overflow():
    """Just below 2^62 the right sum of squares is taken and its neighbours are refused."""
    n, steps = 3 * 2**20, 2**20
    assert dataset_of([n], [n * steps], [n * steps**2], steps).has_squares
    for wrong in (n * steps**2 + 1, n * steps**2 - 1, 2**63 - 1, -(2**63)):
        with pytest.raises(HexveilError, match="outside the bounds of their counts and sums"):
            dataset_of([n], [n * steps], [wrong], steps)
    with pytest.raises(HexveilError, match="could overflow"):
        dataset_of([2**22], [0], [0], steps)


@pytest.mark.parametrize("total", [[-1], [6], [1, 1]])
def test_sums_outside_their_counts_are_refused(total):
    """Sums without squares are checked too."""
    with pytest.raises(HexveilError, match=r"outside the bounds|do not belong together"):
        dataset_of([1], total, None, 5)


def test_nothing_private_shows_or_travels():
    """Neither a repr nor a pickle holds a sum."""
    dataset = dataset_of([10], [41], [173], 5)
    assert repr(dataset.sums) == "Sums(n_pairs=1, with squares, private)"
    assert repr(dataset) == "Dataset('value', privacy_unit='user', n_cells=1, n_users=1, n_pairs=1)"
    assert not dataset_of([10], [41], None, 5).has_squares
    with pytest.raises(HexveilError, match="not pickled"):
        pickle.dumps(dataset.sums)
