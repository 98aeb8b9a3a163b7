"""A small invented fleet for the pictures of privacy: who reported how often in which cell.

Counts only, since everything that is drawn of it follows from counts.
"""

from __future__ import annotations

import functools

import numpy as np

from hexveil import Occupancy
from hexveil.planning.api import plan
from hexveil.planning.plan import Plan

BUSES, CELLS = 120, 12
SPAN = 65.0
"""Width of the bounds, in km/h."""
ONE_CELL = (30, 14, 13, 6, 5, 4, 3, 2, 2, 1)
"""Records per bus in one cell."""


@functools.cache
def fleet() -> Occupancy:
    """Return the records of each bus in each cell: some buses are in all cells, many in a few."""
    rng = np.random.default_rng(9)
    busy = rng.lognormal(1.0, 0.9, BUSES)
    present = rng.random((CELLS, BUSES)) < np.minimum(0.9, busy / 6)
    # Every bus is in one cell at least.
    present[rng.integers(0, CELLS, BUSES), np.arange(BUSES)] = True
    return Occupancy.from_dense(np.where(present, rng.poisson(3 * busy, present.shape) + 1, 0).T)


@functools.cache
def planned() -> Plan:
    """Return the joint plan of the fleet at ε = 1."""
    return plan(fleet(), epsilon=1, bounds=(0, SPAN), advise=False)
