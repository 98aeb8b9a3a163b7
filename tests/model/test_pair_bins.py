"""Counts by bin: those that do not belong to the pairs are refused."""

import numpy as np
import pytest

from hexveil.base.errors import HexveilError
from hexveil.model.pair_bins import PairBins


@pytest.mark.parametrize(("pair", "place"), [(0, 5), (0, -1), (2, 0), (-1, 0)])
def test_a_row_beyond_the_pairs_or_the_bins_is_refused(pair, place):
    """Below 0 and above the last: either alone is enough, whatever the counts add up to."""
    n = np.array([2, 1])
    PairBins(np.array([0, 1]), np.array([4, 0]), n).check(n, 5)
    rows = np.sort([pair, 1]), np.array([place, place]), n
    with pytest.raises(HexveilError, match="do not belong together"):
        PairBins(*rows).check(n, 5)
