"""A fleet of equal buses on grids of any resolution."""

from dataclasses import replace
from functools import cache
from itertools import chain, islice

import h3
import numpy as np

import hexveil as hv
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice

GRID = hv.Cells(7, "1h", "Europe/Warsaw", "pooled")


@cache
def around_warsaw(resolution, n_cells):
    """Return the hexagons nearest to a place, in order."""
    centre = h3.latlng_to_cell(52.23, 21.01, resolution)
    rings = (h3.grid_ring(centre, k) for k in range(40))
    near = list(islice(chain.from_iterable(rings), n_cells))
    return np.sort(np.array([h3.str_to_int(name) for name in near], dtype=np.uint64))


def fleet(resolution, privacy_unit="user", *, recount=None, users=200):
    """Return a fleet of buses that crosses 4 ** (resolution - 4) cells, 1 below that."""
    n_cells = int(4 ** max(resolution - 4, 0))
    dense = np.ones((users, n_cells), dtype=int)
    table = CellTable(
        replace(GRID, resolution=resolution),
        hexagon=around_warsaw(resolution, n_cells),
        slot=np.zeros(n_cells, dtype=np.int64),
    )
    occupancy = hv.Occupancy.from_dense(dense)
    return PublicMetadata(
        occupancy, table, ValueLattice.of((0, 10), "0.001"), privacy_unit, recount=recount
    )


def recount(grids, unit):
    """Count the fleet on other grids; nothing is left below resolution 2."""
    return tuple(None if g.resolution < 2 else fleet(g.resolution, unit) for g in grids)
