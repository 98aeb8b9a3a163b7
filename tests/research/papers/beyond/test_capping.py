"""Dropping against re-weighting and midpoints: the figure, the claims, and what turns them."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil import theory
from hexveil_research.papers.beyond import capping, exact_accounting, reweighting_search
from hexveil_research.papers.beyond.capping import DROPPING, MIDPOINTS, REWEIGHTING
from hexveil_research.papers.comp.runs import Run

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


# ---- Exact accounting and the joint plan: the figure of one draw, and what turns its verdicts -


GOOD = Run(1.0, 12, 5, 400.0, 400.0, 0, 390.0, 395.0, 1.5, 1.45)
USELESS = replace(GOOD, bound=900.0)
COSTLY = replace(GOOD, plain_loss=5.5, kept_loss=5.4)


def found(runs=(GOOD, USELESS), joint=(0.2, 0.0), same_loss=(60.0, 80.0)):
    """Return what one draw gives."""
    rows = (tuple(runs),)
    return {3: exact_accounting.GammaResults(rows, np.array([joint]), np.array([same_loss]))}


def verdicts(**changed):
    """Return the verdicts of all four claims."""
    return [claim.holds for claim in exact_accounting.claims(found(**changed))]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"runs": (COSTLY, USELESS)}, [False, True, True, True]),
        ({"runs": (replace(GOOD, kept_loss=0.5), USELESS)}, [True, False, True, True]),
        ({"joint": (1.2, 0.0)}, [True, True, False, True]),
        ({"joint": (0.2, 0.1)}, [True, True, False, True]),
        ({"runs": (USELESS, USELESS), "joint": (0.0, 0.0)}, [True, True, False, True]),
        ({"same_loss": (400.0, 80.0)}, [True, True, True, False]),
    ],
)
def test_each_verdict_turns_on_its_own_number(changed, expected):
    """A costly release, suppression that saves, a costly plan, no release of use, no gain."""
    assert verdicts(**changed) == expected


# ---- The search on small cells: statistics by hand, and formulas that it finds wrong ----


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
