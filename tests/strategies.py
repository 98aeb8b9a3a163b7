"""Small random occupancies for the planning tests."""

import numpy as np
from hypothesis import strategies as st

import hexveil as hv


@st.composite
def occupancies(draw, users=5, cells=4, most=6):
    """Draw an occupancy in which every cell and user has a record."""
    n_users, n_cells = draw(st.integers(1, users)), draw(st.integers(1, cells))
    counts = np.array(
        draw(
            st.lists(
                st.lists(st.integers(0, most), min_size=n_cells, max_size=n_cells),
                min_size=n_users,
                max_size=n_users,
            )
        )
    )
    counts[0, counts.sum(axis=0) == 0] = 1
    counts[counts.sum(axis=1) == 0, 0] = 1
    return hv.Occupancy.from_dense(counts)
