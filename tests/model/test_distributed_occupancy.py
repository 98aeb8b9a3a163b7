"""An occupancy in blocks answers what the whole one does, wherever the blocks begin."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from distributed_blocks import blocks_of, distributed
from hexveil.base.errors import InputError
from hexveil.model.distributed_occupancy import DistributedOccupancy, partition_numbers
from hexveil.model.occupancy import Occupancy
from strategies import occupancies

FIGURES = (
    "users_per_cell",
    "records_per_cell",
    "largest_count",
    "cells_per_user",
    "records_per_user",
)


@given(occupancies(users=6, cells=6), st.integers(1, 12))
def test_every_figure_is_that_of_the_whole_occupancy(occupancy, room):
    """Counts per cell and per user, and every rank, are the same to the last record."""
    apart = distributed(occupancy, room)
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(apart, name), getattr(occupancy, name), name)
    for k in range(1, occupancy.n_users + 2):
        np.testing.assert_array_equal(apart.kth_largest(k), occupancy.kth_largest(k))
    assert (apart.n_cells, apart.n_users, apart.n_pairs, apart.n_records) == (
        occupancy.n_cells,
        occupancy.n_users,
        occupancy.n_pairs,
        occupancy.n_records,
    )


@given(occupancies(users=6, cells=6), st.integers(1, 12), st.integers(1, 12))
def test_its_fingerprint_says_who_reported_where_and_not_where_blocks_begin(occupancy, one, other):
    """Two cuts have one fingerprint; one record more has another."""
    assert distributed(occupancy, one).fingerprint == distributed(occupancy, other).fingerprint
    n = occupancy.n.copy()
    n[-1] += 1
    more = hv.Occupancy(occupancy.cell, occupancy.user, n, occupancy.n_cells, occupancy.n_users)
    assert distributed(more, one).fingerprint != distributed(occupancy, one).fingerprint


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 12))
def test_blocks_are_runs_of_about_the_room(size, room):
    """Block numbers rise by one; without its last member a block has less than the room."""
    block = partition_numbers(size, room)
    assert block[0] == 0
    assert set(np.diff(block).tolist()) <= {0, 1}
    for number in range(block[-1] + 1):
        held = [s for s, b in zip(size, block, strict=True) if b == number]
        assert len(held) == 1 or list(accumulate(held))[-2] < room + max(size)


def test_pairs_themselves_are_not_there():
    """What needs them is refused in a sentence that says what to do instead; nothing else is."""
    apart = distributed(hv.Occupancy.from_dense([[3, 1], [2, 2]]), 1)
    with pytest.raises(InputError, match=r"all 4 pairs .* raise spark.hexveil.pairsOnDriver"):
        apart.local()
    for mapped in (apart.map_cells, apart.map_users):
        with pytest.raises(InputError, match="all 4 pairs"):
            mapped(max, pairs=(np.ones(4),))
    assert not {"cell", "user", "n", "start"} & set(dir(apart))
    assert repr(apart) == "DistributedOccupancy(n_cells=2, n_users=2, n_pairs=4)"


@pytest.mark.parametrize("wherever", [lambda o: o, lambda o: distributed(o, 1)])
def test_both_implementations_have_the_protocol(wherever):
    """Local and distributed pairs answer all that the protocol names, alike."""
    crowd = hv.Occupancy.from_dense([[3, 1], [2, 2]])
    occupancy = wherever(crowd)
    names = {name for name in vars(Occupancy) if not name.startswith("_")}
    assert names <= set(dir(occupancy))
    for name in names - {"is_local", "local", "fingerprint", "map_cells", "map_users"}:
        figure, expected = (getattr(o, name) for o in (occupancy, crowd))
        arguments = (2,) if callable(figure) else ()
        if arguments:
            figure, expected = figure(*arguments), expected(*arguments)
        np.testing.assert_array_equal(figure, expected, err_msg=name)


def test_a_figure_of_cells_is_asked_once():
    """Counts are asked of the blocks once, however often they are looked at."""
    whole = hv.Occupancy.from_dense([[3, 1], [2, 2]])
    store = blocks_of(whole, 1)
    apart = DistributedOccupancy(store, 2, 2, 4)
    for _ in range(2):
        assert apart.users_per_cell.tolist() == [2, 2]
        assert apart.records_per_cell.tolist() == [5, 3]
    assert len(store.asked) == 1
