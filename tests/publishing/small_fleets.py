"""Small fleets on a lattice of few steps, with sums that their counts can have."""

import hypothesis.strategies as st
import numpy as np

from hexveil.model.public_metadata import ValueLattice
from publishing.setting import dataset_of


def fleet(counts, totals, steps=12):
    """Return a data set on a lattice of few steps."""
    return dataset_of(counts, totals, scale=ValueLattice.of((0, steps), 1))


@st.composite
def counts_and_totals(draw):
    """Return counts of up to four users in three cells, and sums that they can have."""
    counts = np.array(
        draw(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=4))
    )
    counts[0] = np.maximum(counts[0], 1)
    counts[:, 0] = np.maximum(counts[:, 0], 1)
    pairs = [int(n) for g in range(3) for n in counts[:, g] if n]
    return counts, [draw(st.integers(0, 12 * n)) for n in pairs]
