"""Dropping against re-weighting and midpoints: the figure, the claims, and what turns them."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil_research.papers.beyond import capping
from hexveil_research.papers.beyond.capping import DROPPING, MIDPOINTS, REWEIGHTING

COUNTS = np.array([90, 10, 10, 5, 1])


def test_a_curve_is_what_the_formulas_say():
    """At a cap of 10 of a small cell: kept 36 of 116, worked out by hand."""
    dropped, weighed, middle = (
        capping.curve(way, "mean", COUNTS) for way in (DROPPING, REWEIGHTING, MIDPOINTS)
    )
    at = 9
    assert dropped.caps[at] == 10
    assert dropped.share[at] == pytest.approx(36 / 116)
    assert dropped.bias[at] == pytest.approx(65 * 80 / 116)
    assert weighed.bias[at] == pytest.approx(65 * (90 / 116 - 10 / 36))
    assert middle.bias[at] == pytest.approx(65 * 40 / 116)
    assert dropped.sensitivity[at] == weighed.sensitivity[at] == pytest.approx(65 * 10 / 36)
    assert middle.sensitivity[at] == pytest.approx(65 * 10 / 116)


def test_least_errors_are_over_all_caps():
    """No cap has less bias plus noise than what is stated, and one has as much."""
    one = capping.curve(DROPPING, "variance", COUNTS)
    errors = one.bias[:, None] + one.sensitivity[:, None] / capping.X
    assert np.allclose(one.least_errors(), errors.min(axis=0))


@pytest.mark.parametrize("statistic", ["mean", "variance"])
def test_claims_of_a_cell_can_fail(statistic):
    """Ways that change places: whoever is compared with itself or with a better one loses."""
    dropping, weighed, middle = capping.curves(statistic)
    assert capping.bias_claim(statistic, dropping, weighed, middle).holds
    assert not capping.bias_claim(statistic, dropping, dropping, middle).holds
    assert capping.midpoint_claim(statistic, dropping, weighed, middle).holds
    assert not capping.midpoint_claim(statistic, dropping, weighed, weighed).holds
    assert capping.error_claim(statistic, dropping, weighed, middle).holds
    assert not capping.error_claim(statistic, dropping, middle, weighed).holds
    assert not capping.error_claim(statistic, middle, weighed, dropping).holds


def test_where_no_cap_pays_nothing_is_proved():
    """Users all alike: capping only biases, so that midpoints are best is not shown."""
    alike = [capping.curve(way, "mean", np.full(50, 400)) for way in capping.METHODS]
    assert not capping.error_claim("mean", *alike).holds


@pytest.mark.parametrize("statistic", ["mean", "variance"])
def test_claims_of_drawn_cells_can_fail(statistic):
    """A way that biases twice as much is found out; an odd total is allowed its 1/(4N²) only."""
    cells = [capping._drawn(np.random.default_rng(seed)) for seed in range(20)]
    worse = replace(
        REWEIGHTING,
        bias={name: lambda *a, f=f: 3 * f(*a) for name, f in REWEIGHTING.bias.items()},
    )
    good = capping.drawn_claim(statistic, cells, *capping.METHODS)
    bad = capping.drawn_claim(statistic, cells, DROPPING, worse, worse)
    assert [claim.holds for claim in good] == [True, True]
    assert [claim.holds for claim in bad] == [False, False]
