"""COMP's synthetic setting: who reported how often in twelve cells.

Source: COMP section VI-A.2. Counts only, all of them drawn and public; there are no values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hexveil import Occupancy

SPAN = 65.0
"""U, the width of the bounds, in km/h (COMP section VI-A.1)."""
CELLS = 12
"""G, the cells; the user in most of them is in all."""


def comp_setting(
    gamma: int,
    seed: int,
    q: float = 0.01,
    cells: int = CELLS,
    counts: NDArray[np.int64] | None = None,
) -> Occupancy:
    """Return a drawn occupancy of 2^G - 1 users in G cells.

    The users numbered 2^j to 2^(j+1) - 1 (from 1) are in G - j cells, taken at random. Counts are
    geometric; in each cell the first of the largest is multiplied by 1 + gamma.

    Parameters
    ----------
    gamma : int
        How much heavier the heavy hitter of each cell becomes.
    seed : int
    q : float
        Parameter of the geometric distribution; the mean count is 1/q.
    cells : int
        G.
    counts : ndarray of int64, optional
        Counts to draw from with replacement, in place of the geometric ones.

    Examples
    --------
    >>> comp_setting(3, seed=0).cells_per_user[:4].tolist()
    [12, 11, 11, 10]
    """
    draw = np.random.default_rng(seed)
    degree = np.repeat(cells - np.arange(cells), 2 ** np.arange(cells))
    # Ranks of random numbers: those below `degree` are a random set of that many cells.
    rank = draw.random((degree.size, cells)).argsort(axis=1).argsort(axis=1)
    n = draw.geometric(q, rank.shape) if counts is None else draw.choice(counts, rank.shape)
    table = np.where(rank < degree[:, None], n, 0)
    heavy = table.argmax(axis=0), np.arange(cells)
    table[heavy] = table[heavy] * (1 + gamma)
    return Occupancy.from_dense(table)
