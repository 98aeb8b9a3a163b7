"""Sums of few pairs are those of the sparse matrix."""

import numpy as np

from fleets import fleet
from hexveil.planning.optimizers import pair_sums
from hexveil.planning.optimizers.pair_sums import PairFigureSums


def test_sums_without_a_matrix_are_those_with_one(monkeypatch):
    """Both ways, and after the pairs' figures have changed in place."""
    occupancy, draw = fleet(6).occupancy, np.random.default_rng(2)
    figure = draw.normal(size=occupancy.n_pairs)
    few = PairFigureSums(occupancy, figure.copy())
    monkeypatch.setattr(pair_sums, "FEW_PAIRS", 0)
    many = PairFigureSums(occupancy, figure.copy())
    by_user, by_cell = draw.normal(size=occupancy.n_users), draw.normal(size=occupancy.n_cells)
    for changed in (figure, draw.normal(size=figure.size)):
        few.figure[:], many.figure[:] = changed, changed
        # Not bit by bit on processors that multiply and add in one step.
        np.testing.assert_allclose(few.per_cell(by_user), many.per_cell(by_user), atol=1e-13)
        np.testing.assert_allclose(few.per_user(by_cell), many.per_user(by_cell), atol=1e-13)
