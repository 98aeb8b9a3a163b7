"""RW's two figures: their lines, what is said of them, and that other curves turn it."""

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil_research.papers import itms
from hexveil_research.papers.iot import surrogate
from hexveil_research.papers.iot.iot_cells import Curve, X
from hexveil_research.papers.rw import rw_claims, rw_figures

OPTIMISED = list(rw_figures.OPTIMISED)


def curve(level, spread=0.001):
    return Curve(np.full((1, X.size), float(level)), np.full((1, X.size), spread))


def test_a_minimax_cap_that_is_typical_is_seen():
    """If OPT-ARRAY-AVERAGING erred less on all records, the remark would not hold."""
    plotted = {"ARRAY-AVERAGING": curve(1.0)}
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(2.0)}).holds
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(0.5)}).holds is False
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(1.1, 9.0)}).verdict == "undecided"


# ---- RW's claims: IOT's verdicts under RW's numbers, and what RW alone states ----


CELLS = surrogate.instances(4, 25)


@pytest.mark.slow
def test_a_better_cap_is_seen():
    """The best cap in place of eq. (4) would hold; the smallest one is worse than the median."""

    def best(counts, epsilon, noise):
        return theory.exact_cap(counts, epsilon, noise)

    printed, right = rw_claims.better_claims(CELLS, best)
    assert printed.holds
    assert right.holds
    assert not rw_claims.better_claims(CELLS, lambda counts, *_: min(counts))[0].holds


# ---- RW's forms of LEVY and OPT-ARRAY-AVERAGING beside IOT's, on the published cell ----


RW_LEVY = hv.mechanisms.Levy(interval="unclamped", arrays="full")


def plan(mechanism):
    return mechanism.plan(itms.counts(), bounds=itms.BOUNDS, epsilon=1)


def test_levy_takes_its_radius_from_the_full_arrays():
    """K = 160 where IOT has K̄ = 164: τ = U √(ln(2K/gamma) / (2 m_UB)), and U/τ bins of it."""
    free, iot = plan(RW_LEVY), plan(hv.mechanisms.Levy())
    cap = theory.sqrt_cap(itms.counts())
    assert (
        free.allocation.groups.n_arrays == iot.allocation.groups.n_arrays == itms.PUBLISHED.fitted
    )
    expected = itms.SPAN * np.sqrt(np.log(2 * itms.PUBLISHED.wrapped / 0.2) / (2 * cap))
    radius = free.allocation.relative_radius
    assert itms.SPAN * radius == pytest.approx(expected)
    assert radius < iot.allocation.relative_radius
    assert free.allocation.stages[0].candidates.size == np.ceil(1 / radius)
