"""Losses are recomputed from a folder's scales, biases, bounds and counts."""

import pyarrow.parquet as pq
import pytest

from hexveil.publishing.kinds import recomputed_losses
from hexveil.publishing.kinds.recomputed_losses import ReleaseStatements
from publishing.releases import released, said

EXACT = ("means", "per-cell", "clip-user", "equal-split", "interval", "cell-ranges")


@pytest.mark.parametrize("plan", EXACT)
def test_the_sum_of_losses_is_known_exactly(plan, tmp_path):
    """Where values are cut to bounds, or to one range, counts cancel and the sum is known."""
    place = released(tmp_path / "map", plan)
    own, table = said(place), pq.read_table(place / "cells.parquet")
    total, _ = recomputed_losses.recompute_losses(ReleaseStatements.from_release(own, table))
    assert total[0] == pytest.approx(total[1], rel=1e-12)
    assert total[0] == pytest.approx(own["losses"]["mean"] * own["losses"]["units"], rel=1e-11)
