import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import theory
from strategies import occupancies


@given(occupancies(), st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_no_unclipped_weights_reach_below_the_floor(occupancy, epsilon, random):
    """Any weights and scales within ε have a mean noise of at least the floor."""
    rng = np.random.default_rng(random.randrange(2**32))
    weight = rng.exponential(size=occupancy.n_pairs)
    weight /= np.bincount(occupancy.cell, weights=weight)[occupancy.cell]
    scale = rng.exponential(size=occupancy.n_cells) + 1e-3
    loss = np.bincount(occupancy.user, weights=weight / scale[occupancy.cell])
    scale *= loss.max() / epsilon  # for a span of 1, the most exposed user loses ε now
    floor = theory.noise_floor(1.0, occupancy.n_cells, occupancy.n_users, epsilon)
    assert scale.mean() >= floor * (1 - 1e-9)


def test_floor_is_reached_by_equal_shares():
    """Cells that all users fill equally, with equal noise, are at the floor."""
    users, cells, epsilon = 4, 3, 2.0
    scale = cells * (1 / users) / epsilon  # each user loses (1/users)/scale in each cell
    assert theory.noise_floor(1.0, cells, users, epsilon) == pytest.approx(scale)
