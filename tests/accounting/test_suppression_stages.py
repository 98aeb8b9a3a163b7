"""Both ways of finding the cheapest cell choose the same pairs, in the same order."""

import numpy as np
import pytest

from hexveil import Occupancy, theory
from hexveil.accounting.suppression import suppression_stages


def heavy_tail(seed, users=600, cells=80):
    """Draw few users of very many cells and many of few; some counts are far above the others."""
    draw = np.random.default_rng(seed)
    degree = np.minimum((draw.pareto(0.9, users) * 3).astype(np.int64) + 1, cells)
    user = np.concatenate((np.repeat(np.arange(users), degree), draw.integers(0, users, cells)))
    cell = np.concatenate((draw.integers(0, cells, degree.sum()), np.arange(cells)))
    counts = draw.geometric(0.05, cell.size) * draw.choice([1, 1, 1, 1, 9], cell.size)
    return Occupancy.from_coo(cell, user, counts)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1"])
@pytest.mark.parametrize("options", [{}, {"error": "separate"}], ids=["sum", "separate"])
def test_numpy_and_plain_python_choose_alike(epsilon, options, monkeypatch):
    """With lines for all users, for those of many cells, or for none: one result."""
    occupancy = heavy_tail(seed=5)
    runs = []
    for wide in (1, 10, occupancy.n_cells):
        monkeypatch.setattr(suppression_stages, "WIDE", wide)
        runs.append(theory.clip_user(occupancy, 65, epsilon, unfinished_stage="keep", **options))
    assert occupancy.cells_per_user.max() > 40
    assert runs[0].stages == runs[1].stages == runs[2].stages
    assert (runs[0].contributions == runs[1].contributions).all()
    assert (runs[0].contributions == runs[2].contributions).all()
    assert len(runs[0].stages) > 1


def test_every_stage_starts_one_cell_lower_with_more_users():
    """Users who began with fewer cells join when the others have come down to them."""
    done = theory.clip_user(heavy_tail(seed=6), 65, "0.01")
    degrees = [stage.degree for stage in done.stages]
    assert degrees == list(range(degrees[0], degrees[0] - len(degrees), -1))
    users = [stage.users for stage in done.stages]
    assert users == sorted(users)
    assert users[-1] > users[0]
