"""RW's two figures: their lines, what is said of them, and that other curves turn it."""

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil_research.papers import itms
from hexveil_research.papers.iot import surrogate
from hexveil_research.papers.iot.iot_cells import Curve, X
from hexveil_research.papers.rw import rw_claims, rw_figures

PLOTTED = ["BASELINE", *rw_figures.CLIPPING]
OPTIMISED = list(rw_figures.OPTIMISED)


def curve(level, spread=0.001):
    return Curve(np.full((1, X.size), float(level)), np.full((1, X.size), spread))


def test_a_minimax_cap_that_is_typical_is_seen():
    """If OPT-ARRAY-AVERAGING erred less on all records, the remark would not hold."""
    plotted = {"ARRAY-AVERAGING": curve(1.0)}
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(2.0)}).holds
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(0.5)}).holds is False
    assert rw_figures.not_typical(plotted, {OPTIMISED[0]: curve(1.1, 9.0)}).verdict == "undecided"


def test_two_unlike_forms_of_levy_are_seen():
    """Similar is within the factor that is stated."""
    assert rw_figures.levy_claim(curve(1.0), curve(1.0)).holds
    assert rw_figures.levy_claim(curve(2.0), curve(1.0)).holds is False
    assert rw_figures.levy_claim(curve(1.0), curve(2.0)).holds is False
    assert rw_figures.levy_claim(curve(1.0, 9.0), curve(1.0)).verdict == "undecided"


def test_another_order_is_seen():
    """With LEVY worst of all, or BASELINE best, nothing is left of figure 2's claims."""
    level = {name: 1.0 + i for i, name in enumerate(["LEVY", *PLOTTED[:2], *PLOTTED[3:]])}
    plotted = {name: curve(value) for name, value in level.items()}
    ours = {"Foresight": curve(9.0)}
    assert rw_figures.sample_claims(plotted, {}, ours)[1].holds
    worse = {**plotted, "LEVY": curve(99.0)}
    assert not rw_figures.sample_claims(worse, {}, ours)[1].holds
    assert not any(claim.holds for claim in rw_figures.user_claims(plotted, {}, ours))


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


def test_caps_that_ignore_the_noise_are_seen():
    """Counting the mean where the standard deviation is meant gives other caps."""
    assert rw_claims.noise_claim().holds
    assert not rw_claims.noise_claim(lambda counts, e, _: theory.minimax_cap(counts, e)).holds


# ---- RW's forms of LEVY and OPT-ARRAY-AVERAGING beside IOT's, on the published cell ----


M = itms.counts()
RW_LEVY = hv.mechanisms.Levy(interval="unclamped", arrays="full")


def plan(mechanism, epsilon=1, counts=M):
    return mechanism.plan(counts, bounds=itms.BOUNDS, epsilon=epsilon)


def test_levy_takes_its_radius_from_the_full_arrays():
    """K = 160 where IOT has K̄ = 164: τ = U √(ln(2K/gamma) / (2 m_UB)), and U/τ bins of it."""
    free, iot = plan(RW_LEVY), plan(hv.mechanisms.Levy())
    cap = theory.sqrt_cap(M)
    assert (
        free.allocation.groups.n_arrays == iot.allocation.groups.n_arrays == itms.PUBLISHED.fitted
    )
    expected = itms.SPAN * np.sqrt(np.log(2 * itms.PUBLISHED.wrapped / 0.2) / (2 * cap))
    radius = free.allocation.relative_radius
    assert itms.SPAN * radius == pytest.approx(expected)
    assert radius < iot.allocation.relative_radius
    assert free.allocation.stages[0].candidates.size == np.ceil(1 / radius)


def test_levy_leaves_the_bounds():
    """Every interval is 3τ wide, also at the ends, and the noise is that of 3τ/K̄ or U/K̄."""
    free = plan(RW_LEVY)
    noise = SimulatedNoise(np.random.default_rng(1), 50)
    outputs = free.outputs(free.cell.sums(np.full(M.size, 1.0)), noise)
    a, b = free.allocation.range_sum.clipping.ends(outputs)
    radius = itms.SPAN * free.allocation.relative_radius
    assert (b - a) * float(free.cell.quantum) == pytest.approx(3 * radius, abs=1e-3)
    assert a.min() < 0
    three = 3 * radius / free.allocation.groups.n_arrays
    assert three <= free.sensitivity <= three * (1 + 1e-5)
    wide = plan(RW_LEVY, counts=[2] * 40)
    assert wide.sensitivity == pytest.approx(itms.SPAN / 40)


def test_the_cap_of_equation_4():
    """OPT-ARRAY-AVERAGING weighs the noise by √2: IOT's cap at ε/√2."""
    for epsilon in ("0.5", "2", "8"):
        cap = plan(hv.mechanisms.OptArrayAveraging("minimax_std"), epsilon).allocation.groups.cap
        assert cap == theory.minimax_cap(M, epsilon, noise="std")
        assert cap <= theory.minimax_cap(M, epsilon)


def test_the_cap_of_the_printed_rule():
    """The printed rule takes m* here, so that it is BASELINE in arrays."""
    chosen = plan(hv.mechanisms.OptArrayAveraging("surrogate_printed"))
    assert chosen.allocation.groups.cap == itms.PUBLISHED.largest
    same = plan(hv.mechanisms.ArrayAveraging(cap=itms.PUBLISHED.largest))
    assert chosen.noise_scale == same.noise_scale
