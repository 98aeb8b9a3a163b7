import dataclasses
import hashlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import InputError, Occupancy
from strategies import occupancies


def dense_of(occupancy):
    """Return the table of counts, users down and cells across, by a plain loop."""
    dense = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=int)
    for cell, user, n in zip(occupancy.cell, occupancy.user, occupancy.n, strict=True):
        dense[user, cell] += n
    return dense


@given(occupancies())
def test_dense_table_round_trip(occupancy):
    """A table of counts becomes pairs and the pairs give the table back."""
    again = Occupancy.from_dense(dense_of(occupancy))
    assert again.fingerprint == occupancy.fingerprint
    assert dense_of(again).tolist() == dense_of(occupancy).tolist()


@given(occupancies(), st.randoms(use_true_random=False))
def test_order_of_pairs_does_not_matter(occupancy, random):
    """Pairs in any order make the same occupancy, sorted by cell, then user."""
    order = random.sample(range(occupancy.n_pairs), occupancy.n_pairs)
    again = Occupancy.from_coo(occupancy.cell[order], occupancy.user[order], occupancy.n[order])
    assert again.fingerprint == occupancy.fingerprint
    assert sorted(zip(again.cell, again.user, strict=True)) == list(
        zip(again.cell, again.user, strict=True)
    )


@given(occupancies(), occupancies())
def test_fingerprint_tells_occupancies_apart(one, two):
    """Equal fingerprints mean equal tables, and the other way round."""
    same = dense_of(one).tolist() == dense_of(two).tolist()
    assert (one.fingerprint == two.fingerprint) == same


def test_fingerprint_is_the_same_everywhere():
    """The fingerprint of a known table never changes: ledgers remember it."""
    numbers = (0, 0, 1, 0, 1, 1, 3, 1, 2)  # cells, users, counts; 8 bytes each, little-endian
    known = b"2,2;" + b"".join(i.to_bytes(8, "little") for i in numbers)
    occupancy = Occupancy.from_dense([[3, 0], [1, 2]])
    assert occupancy.fingerprint == hashlib.sha256(known).hexdigest()


def test_arrays_cannot_be_changed():
    """The caller's arrays are copied, and ours are read-only in a frozen value."""
    counts = np.array([[1, 2]])
    occupancy = Occupancy.from_dense(counts)
    counts[0, 0] = 9
    assert occupancy.n.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        occupancy.n[0] = 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        occupancy.n_cells = 3


def test_repr_shows_sizes_only():
    """The repr names sizes, no counts."""
    assert repr(Occupancy.from_dense([[7, 9]])) == "Occupancy(n_cells=2, n_users=1, n_pairs=2)"


TABLE, PAIRS = Occupancy.from_dense, Occupancy.from_coo


def sorted_pairs(cell, user):
    """Return pairs of one record each, of two cells and users."""
    return Occupancy(*map(np.array, (cell, user, [1, 1])), 2, 2)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (TABLE, ([1, 2],), "a table, users down and cells across"),
        (TABLE, ([[1, -2]],), "counts must be 0 or above, got -2"),
        (TABLE, ([[1.5]],), "counts must hold whole numbers, got float64"),
        (TABLE, ([["a"]],), "counts must hold whole numbers"),
        (TABLE, ([[1, 0], [2, 0]],), "cell 1 has no records; leave it out"),
        (TABLE, ([[1, 1], [0, 0]],), "user 1 has no records; leave it out"),
        (PAIRS, ([0, 0], [0], [1]), "equally long"),
        (PAIRS, ([0], [0], [0]), "counts must be 1 or above, got 0"),
        (PAIRS, ([0, 2], [0, 0], [1, 1]), "cell 1 has no records"),
        (PAIRS, ([-1], [0], [1]), "0 or above"),
        (PAIRS, ([0.5], [0], [1]), "cell must hold whole numbers"),
        (PAIRS, ([[0]], [[0]], [[1]]), "one-dimensional"),
        (sorted_pairs, ([1, 0], [0, 0]), "sorted by cell, then user"),
        (sorted_pairs, ([0, 0], [1, 0]), "sorted by cell, then user"),
        (sorted_pairs, ([0, 0], [0, 0]), "each must occur once"),
        (sorted_pairs, ([0, 2], [0, 1]), "cell number 2 is beyond the 2 declared"),
    ],
)
def test_what_is_no_occupancy_is_refused(make, arguments, message):
    """Empty cells and users, anything but counts, and pairs that are not sorted."""
    with pytest.raises(InputError, match=message):
        make(*arguments)


def _largest_and_last(pairs, bonus, factor, extra):
    first = pairs.start[:-1]
    weighed = pairs.n * factor[pairs.user] + extra[pairs.rows] + bonus[pairs.cell]
    return np.maximum.reduceat(weighed, first), pairs.user[pairs.start[1:] - 1]


@given(occupancies(), st.integers(1, 12))
def test_what_is_asked_of_cells_is_asked_run_by_run(occupancy, block):
    """Where pairs are many a function of cells gets runs of whole cells: the same answers."""
    draw = np.random.default_rng(block)
    sizes = occupancy.n_cells, occupancy.n_users, occupancy.n_pairs
    bonus, factor, extra = map(draw.random, sizes)
    work = partial(_largest_and_last, bonus=bonus, factor=factor, extra=extra)
    at_once = occupancy.map_cells(work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hexveil.model.occupancy.BLOCK_PAIRS", block)
        seen = []
        found = occupancy.map_cells(work)
        occupancy.map_cells(lambda some: seen.append(some.n_cells) or some.start[1:])
    assert sum(seen) == occupancy.n_cells
    assert min(seen) > 0
    assert len(seen) <= -(-occupancy.n_pairs // block)
    for one, other in zip(at_once, found, strict=True):
        assert (one == other).all()
