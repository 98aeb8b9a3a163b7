"""A fleet of equal buses on grids of any resolution."""

from dataclasses import replace
from functools import cache
from itertools import chain, islice

import h3
import numpy as np
import pyarrow as pa

import hexveil as hv

GRID = hv.Cells(7, "1h", "Europe/Warsaw", "pooled")


@cache
def counted(resolution, privacy_unit, users):
    """Return the public facts of sums of a fleet in the hexagons nearest to a place."""
    n_cells = int(4 ** max(resolution - 4, 0))
    centre = h3.latlng_to_cell(52.23, 21.01, resolution)
    rings = (h3.grid_ring(centre, k) for k in range(40))
    near = list(islice(chain.from_iterable(rings), n_cells))
    user = [f"bus {k}" for k in range(users)]
    table = {
        "hexagon": np.tile(near, users),
        "slot": ["00:00"] * n_cells * users,
        "user": np.repeat(user, n_cells),
        "n": np.ones(n_cells * users, dtype=np.int64),
        "sum": np.zeros(n_cells * users),
    }
    cells = replace(GRID, resolution=resolution)
    options = {"bounds": (0, 10), "min_users": 1, "accept_single_records": True}
    return hv.from_sums(pa.table(table), cells=cells, privacy_unit=privacy_unit, **options).public


def fleet(resolution, privacy_unit="user", *, recount=None, users=200):
    """Return a fleet of buses that crosses 4 ** (resolution - 4) cells, 1 below that."""
    return replace(counted(resolution, privacy_unit, users), recount=recount)


def recount(grids, unit):
    """Count the fleet on other grids; nothing is left below resolution 2."""
    return tuple(None if g.resolution < 2 else fleet(g.resolution, unit) for g in grids)
