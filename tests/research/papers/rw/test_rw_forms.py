"""RW's forms of LEVY and OPT-ARRAY-AVERAGING beside IOT's, on the published cell."""

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil_research.papers import itms

M = itms.counts()
RW_LEVY = hv.Levy(interval="unclamped", arrays="full")


def plan(mechanism, epsilon=1, counts=M):
    return mechanism.plan(counts, bounds=itms.BOUNDS, epsilon=epsilon)


def test_levy_takes_its_radius_from_the_full_arrays():
    """K = 160 where IOT has K̄ = 164: τ = U √(ln(2K/gamma) / (2 m_UB)), and U/τ bins of it."""
    free, iot = plan(RW_LEVY), plan(hv.Levy())
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
        cap = plan(hv.OptArrayAveraging("minimax_std"), epsilon).allocation.groups.cap
        assert cap == theory.minimax_cap(M, epsilon, noise="std")
        assert cap <= theory.minimax_cap(M, epsilon)


def test_the_cap_of_the_printed_rule():
    """The printed rule takes m* here, so that it is BASELINE in arrays."""
    chosen = plan(hv.OptArrayAveraging("surrogate_printed"))
    assert chosen.allocation.groups.cap == itms.PUBLISHED.largest
    same = plan(hv.ArrayAveraging(cap=itms.PUBLISHED.largest))
    assert chosen.noise_scale == same.noise_scale
