"""Law of a fleet's values from a noisy histogram, and ranges of cells by it."""

import numpy as np
import pytest

from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, Laplace
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms import pooled_law
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.presence.contribution import CellWindow, value_votes
from hexveil.model.private_pairs import PrivatePairs

EDGES = np.linspace(0.0, 1.0, 9)
VOTES = np.array([30.0, 40.0, 20.0, 5.0, 1.0, 0.0, 2.0, 2.0])


def test_without_noise_the_excess_is_that_of_the_histogram():
    """Mean and second moment beyond an end are integrals of the even law; the error vanishes."""
    law = pooled_law.PooledLaw.of(EDGES, VOTES, Laplace(1e-9))
    x = (np.arange(80_000) + 0.5) / 80_000
    share = np.repeat(VOTES / 100, 10_000) / 10_000
    for end in (0.0, 0.3, 0.9, 1.0):
        above, below = law.above(np.array([end])), law.below(np.array([end]))
        for found, side in ((above, x - end), (below, end - x)):
            beyond = np.maximum(side, 0.0)
            assert found.mean[0] == pytest.approx(beyond @ share, abs=1e-8)
            assert found.square[0] == pytest.approx(beyond**2 @ share, abs=1e-8)
            assert found.error[0] < 1e-8
    assert law.mean == pytest.approx(x @ share)
    assert law.deviation == pytest.approx(np.sqrt((x - x @ share) ** 2 @ share))
    assert law.quantile(0.5) == pytest.approx(0.1875)


@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("total", [None, 100.0])
def test_the_error_is_that_of_the_noise(law, total):
    """Over repeats, the excess is off by about its stated error, and little biased."""
    rng = np.random.default_rng(3)
    draw = rng.normal if law == GAUSSIAN else rng.laplace
    found = [
        pooled_law.PooledLaw.of(EDGES, VOTES + draw(0, 3.0, 8), type(law)(3.0), total).above(
            np.array([0.5])
        )
        for _ in range(200)
    ]
    truth = pooled_law.PooledLaw.of(EDGES, VOTES, type(law)(1e-9)).above(np.array([0.5])).mean[0]
    means, stated = (
        np.array([getattr(one, name)[0] for one in found]) for name in ("mean", "error")
    )
    assert 0.6 < np.sqrt(np.mean(stated**2)) / np.sqrt(np.mean((means - truth) ** 2)) < 1.6
    assert abs(means.mean() - truth) < 0.5 * means.std()


QUIET = Laplace(1.0)


def law_of(votes, edges=pooled_law.VALUE_EDGES):
    """Return the law of votes, without noise to speak of."""
    return pooled_law.PooledLaw.of(edges / PARTS, PARTS * np.array(votes), QUIET)


def ranges(law, noise, centre=PARTS // 4, weight=50.0):
    """Return the range of one cell, in parts of the span of 64."""
    ends = pooled_law.best_ranges(
        law, np.array([centre]), np.array([noise]), np.array([weight]), around=False
    )
    return [float(end[0]) * 64 / PARTS for end in ends]


def test_a_range_widens_where_values_lie_far_from_the_rest():
    """Of 5 % express buses: a quiet map reaches them, a noisy one leaves them out."""
    express = law_of([50, 45, 0, 0, 0, 0, 0, 5])
    assert ranges(express, 0.01)[1] > 60.0
    low, high = ranges(express, 2.0)
    assert (low, high) < (16.0, 40.0)
    assert ranges(law_of([50, 50, 0, 0, 0, 0, 0, 0]), 0.5)[1] < 32.0


def test_nothing_lies_beyond_the_bounds():
    """An end at a bound cuts nothing off; other ends what the law has beyond them."""
    law = law_of([25, 25, 0, 0, 0, 0, 25, 25])
    window = CellWindow(np.ones(2), np.array([0, PARTS // 4]), np.array([PARTS // 2, PARTS]))
    cut = pooled_law.BeyondRange.of(law, np.zeros(2, dtype=np.int64), window.low, window.high)
    assert cut.below.mean[0] == cut.above.mean[1] == 0.0
    assert cut.above.mean[0] == pytest.approx(0.5 * 0.375, rel=0.01)
    assert cut.below.mean[1] == pytest.approx(0.5 * 0.125, rel=0.01)


@pytest.mark.parametrize("centres", [[0, 0], [PARTS, PARTS], [0, PARTS], [300_000, 700_000]])
def test_bins_of_distances_hold_every_value_within_reach(centres):
    """Values at both bounds are votes of bins that have a width, whatever the centres are."""
    centres, prices = np.array(centres), np.ones(2, dtype=np.int64)
    pairs = PrivatePairs([0, 0, 1, 1], [0, 1, 2, 3], [1] * 4, [0, 8, 0, 8])
    stage = value_votes("h", 8, pooled_law.RESIDUAL_EDGES[1:-1], QUIET, (centres, prices))
    votes = stage.total(PresenceSums(pairs))
    law = pooled_law.PooledLaw.of(pooled_law.within_reach(centres, prices) / PARTS, votes, QUIET)
    assert votes[np.diff(pooled_law.within_reach(centres, prices)) > 0].sum() == 4 * PARTS
    assert law.share.sum() == pytest.approx(1.0)
