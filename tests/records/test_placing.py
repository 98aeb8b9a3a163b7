"""Sums on a declared grid: cells by name, records elsewhere dropped."""

import pyarrow as pa
import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.model.cells import Labels
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.records.placing import place_on_grid

ROUTES = Labels("route")


def dataset(cells=ROUTES):
    """Return records of three buses on three routes."""
    table = pa.table(
        {
            "bus": ["a", "a", "b", "c", "c"],
            "route": ["7", "7", "4", "9", "4"],
            "speed": [10.0, 20.0, 5.0, 1.0, 2.0],
        }
    )
    return hv.read(
        table,
        user="bus",
        value="speed",
        bounds=(0, 50),
        quantum=1,
        cells=cells,
        repeats="keep",
        select=hv.Select(min_users=1),
    )


def test_pairs_have_the_numbers_of_declared_cells():
    """A pair's cell is its number in the grid, also beside cells that nobody was in."""
    grid = DeclaredGrid.of_labels(ROUTES, [["12", "7", "4"]])
    pairs = place_on_grid(dataset(), grid)
    assert sorted(zip(pairs.cell, pairs.records, pairs.mean, strict=True)) == [
        (1, 2, 15.0),
        (2, 1, 2.0),
        (2, 1, 5.0),
    ]
    assert pairs.begin.size == 3


def test_a_grid_of_another_kind_is_refused():
    """Records that were read on other cells have no place in the grid."""
    grid = DeclaredGrid.of_labels(Labels("line"), [["7"]])
    with pytest.raises(InputError, match="cells of the grid"):
        place_on_grid(dataset(), grid)
