"""A sample of users with all of their pairs, from which searches over distributed pairs begin."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.model.occupancy import LocalOccupancy

if TYPE_CHECKING:
    from hexveil.base.arrays import Ints
    from hexveil.model.occupancy import Occupancy, Pairs


FETCHED_PAIRS = 2**22
"""Pairs that are fetched to begin with, about."""


def fetch_sample(occupancy: Occupancy) -> tuple[LocalOccupancy, Ints, float]:
    """Return some users' pairs, the numbers of their cells, and the part of users that they are.

    All users are fetched where pairs are few.
    """
    # Rounded up, so that no more pairs than the limit come to the driver.
    every = -(-occupancy.n_pairs // FETCHED_PAIRS)
    everybody = np.arange(occupancy.n_users)
    cell, user, n = occupancy.map_users(partial(_fetched, every=every), users=(everybody,))
    cells, number = np.unique(cell, return_inverse=True)
    users, who = np.unique(user, return_inverse=True)
    # Cells and users without fetched pairs are left out: empty cells have no shares.
    sample = LocalOccupancy.from_coo(number, who, n)
    return sample, cells, users.size / occupancy.n_users


def _fetched(pairs: Pairs, number: Ints, every: int) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of every so many users; these are numbered by their ids."""
    user = number[pairs.user]
    rows = np.flatnonzero(user % every == 0)
    return pairs.cell[rows], user[rows], pairs.n[rows]
