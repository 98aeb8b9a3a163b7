"""COMP's synthetic setting (section VI-A.2): who reported how often in twelve cells."""

import numpy as np

from hexveil import Occupancy

SPAN = 65.0
CELLS = 12


def comp_setting(gamma, seed, q=0.01, cells=CELLS):
    """Draw 2^G - 1 users: those numbered 2^j to 2^(j+1) - 1 are in G - j cells.

    Counts are geometric; in each cell the first of the largest is multiplied by 1 + gamma.
    """
    draw = np.random.default_rng(seed)
    degree = np.repeat(cells - np.arange(cells), 2 ** np.arange(cells))
    rank = draw.random((degree.size, cells)).argsort(axis=1).argsort(axis=1)
    counts = np.where(rank < degree[:, None], draw.geometric(q, rank.shape), 0)
    heavy = counts.argmax(axis=0), np.arange(cells)
    counts[heavy] = counts[heavy] * (1 + gamma)
    return Occupancy.from_dense(counts)
