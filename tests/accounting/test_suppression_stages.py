"""Lines find the cheapest cells, the same pairs in the same order as when all are evaluated."""

import numpy as np
import pytest

from hexveil import Occupancy, theory
from hexveil.accounting import suppression_stages


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
def test_lines_hide_no_cheaper_cell(epsilon, options, monkeypatch):
    """With the cells whose line is low enough evaluated, or all of them: one result."""
    occupancy = heavy_tail(seed=5)
    runs = []
    for near in (suppression_stages.NEAR, 1e12):
        monkeypatch.setattr(suppression_stages, "NEAR", near)
        runs.append(theory.clip_user(occupancy, 65, epsilon, unfinished_stage="keep", **options))
    assert runs[0].stages == runs[1].stages
    assert (runs[0].contributions == runs[1].contributions).all()
    assert len(runs[0].stages) > 1
