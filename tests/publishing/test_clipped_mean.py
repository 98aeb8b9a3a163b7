"""The whole number of a cell: exact sensitivity, against every neighbour of tiny data sets."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.mechanisms.looks.clipped_mean import half_widths
from hexveil.mechanisms.single_cell import CellPlan, CellProblem
from hexveil.model.public_metadata import ValueLattice
from publishing.measuring import lattice, means, statistic
from publishing.setting import dataset_of, plan_of


@given(st.integers(1, 2**20), st.integers(1, 2**20), st.integers(0, 2**30), st.integers(1, 2**21))
def test_what_is_kept_is_whole_and_never_above_the_plan(m, steps, parts, t):
    """The width is the plan's kept samples in whole quanta: not above them, nor a quantum below."""
    scale = ValueLattice.of((0, steps), 1)
    dataset = dataset_of([[m]], scale=scale)
    plan = plan_of(dataset, [t], rows={"contribution_factor": np.array([parts / 2**30])})
    kept = plan.contributions("mean")
    width = int(half_widths(kept, np.array([m]), np.array([steps]))[0])
    exact = Fraction(parts, 2**30) * min(m, t) * steps
    assert exact - 1 < width <= exact * (1 + Fraction(1, 2**49))
    assert Fraction(width, steps) <= Fraction(float(kept[0])) * (1 + Fraction(1, 2**49))
    assert width <= m * steps


@given(
    st.lists(st.tuples(st.integers(1, 9), st.data()), min_size=1, max_size=8),
    st.sampled_from([1, 2, "0.3", 5]),
    st.sampled_from([(0, 60), (-40, 20), (-60, "-0.5"), ("0.25", 60)]),
    st.sampled_from([hv.mechanisms.OptimalClipping(), hv.mechanisms.Baseline()]),
)
def test_the_statistic_is_the_mechanisms_estimate(users, epsilon, bounds, mechanism):
    """Without noise the published mean is what the one-cell mechanism gives on user means."""
    scale = ValueLattice.of(bounds, "0.25")
    counts = np.array([n for n, _ in users])
    sums = np.array([data.draw(st.integers(0, n * scale.span_quanta)) for n, data in users])
    means_of_users = float(scale.lower) + 0.25 * sums / counts
    cell = CellProblem(counts, scale.lower, scale.quantum, scale.span_quanta)
    alone = CellPlan(mechanism.allocate_cell(cell, Fraction(epsilon)))
    cap = alone.allocation.contribution_cap
    dataset = dataset_of(counts[:, None], sums, scale=scale)
    plan = plan_of(dataset, [cap])
    where = lattice(plan, scale)
    y = statistic(dataset, plan, where) if cap else where.steps * counts.sum()
    (expected,) = alone.noiseless_estimates(cell.sums(means_of_users))
    assert means(y, plan, scale)[0] == pytest.approx(expected, abs=1e-9)


@given(st.integers(1, 10**6), st.floats(1e-9, 1e9))
def test_noise_scales_are_rounded_up_and_no_further(steps, noise):
    """R is the smallest double that is at least 2 S r."""
    scale = ValueLattice.of((0, steps), 1)
    plan = plan_of(dataset_of([[1]], scale=scale), [1], noise)
    r = lattice(plan, scale).noise[0]
    exact = 2 * steps * Fraction(noise)
    assert Fraction(r) >= exact > Fraction(np.nextafter(r, 0))


@pytest.mark.parametrize(
    ("counts", "steps", "noise", "said"),
    [
        ([[2**40]], 2**20, 1.0, "coarser quantum"),
        ([[1]], 60, 1e17, "larger epsilon"),
        ([[1]], 60, 1e300, "larger epsilon"),
        ([[1]], 60, 0.0, "without noise"),
        ([[1]], 60, -1.0, "without noise"),
        ([[1]], 60, float("nan"), "without noise"),
        ([[1]], 60, float("inf"), "without noise"),
    ],
)
def test_what_does_not_fit_is_refused_from_public_facts(counts, steps, noise, said):
    """Statistics or noise too large for 64 bits, and noise of zero, are refused beforehand."""
    scale = ValueLattice.of((0, steps), 1)
    dataset = dataset_of(counts, scale=scale)
    with pytest.raises(InputError, match=said):
        lattice(plan_of(dataset, [1], noise), scale)
