"""The search on small cells: statistics by hand, and formulas that it finds wrong."""

import numpy as np
import pytest

from hexveil import theory
from hexveil_research.papers.beyond import reweighting_search
from hexveil_research.papers.comp.tiny_cells import data_sets


def row(*values):
    """Return the number of a data set."""
    return int(np.flatnonzero((data_sets(len(values)) == values).all(axis=1))[0])


def test_statistics_of_one_data_set():
    """Counts (2, 1), one sample kept of each: means and variances worked out by hand."""
    counts, kept, at = (2, 1), (1, 1), row(1.0, 0.0, 0.5)
    assert reweighting_search.per_sample(kept, counts).tolist() == [0.25, 0.25, 0.5]
    assert reweighting_search.reweighted_means(kept, counts)[at] == 0.5
    assert reweighting_search.reweighted_variances(kept, counts)[at] == pytest.approx(0.125)
    assert reweighting_search.means_at(kept, counts)[at] == pytest.approx(2 / 3)
    assert reweighting_search.variances_at(kept, counts)[at] == pytest.approx(np.var([1, 0.5, 0.5]))


def test_every_claim_holds():
    """Six, each on at least one case that is met."""
    claims = reweighting_search.claims()
    assert [claim.holds for claim in claims] == [True] * 6
    assert all("finds" in claim.measured for claim in claims if "at most" in claim.says)


def test_wrong_formulas_are_found():
    """Half of a bias is neither exact nor a bound; twice of it is a bound, but not exact."""

    def search(kept, counts):
        return theory.reweighted_mean_bias(kept, counts, 1.0)

    def times(factor):
        return lambda kept, counts, span: factor * theory.reweighted_mean_bias(kept, counts, span)

    assert not reweighting_search.exact("", "", times(0.5), search).holds
    assert not reweighting_search.bounded("", "", times(0.5), search).holds
    assert not reweighting_search.exact("", "", times(2), search).holds
    assert reweighting_search.bounded("", "", times(2), search).holds
