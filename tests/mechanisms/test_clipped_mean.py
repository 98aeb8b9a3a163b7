"""The whole number of a cell: exact sensitivity, against every neighbour of tiny data sets."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil import Dataset, InputError
from hexveil.mechanisms.looks.clipped_mean import half_widths
from hexveil.mechanisms.single_cell import CellPlan, CellProblem
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.dataset import Sums
from mechanisms.measuring import check, lattice, live_cells, means, statistic
from mechanisms.setting import dataset_of, plan_of
from model.stores import suppressed_where

TINY = [  # counts (users down, cells across), steps of the records, kept, bounds in quanta
    ([[2], [1], [1]], 3, [1], None),
    ([[2], [1], [1]], 3, [2], None),
    ([[3], [1]], 2, [1], None),
    ([[3], [1]], 2, [3], (1, 2)),
    ([[3], [2]], 4, [2], (1, 4)),
    ([[2, 1], [1, 1]], 2, [1, 1], None),
    ([[2, 1], [1, 1]], 3, [2, 1], (1, 3)),
    ([[1, 2], [2, 0], [0, 1]], 2, [1, 2], None),
    ([[2, 1], [1, 2]], 2, [1, 0], None),
    ([[2, 2], [1, 0]], 2, [5, 1], (1, 2)),
    ([[2, 1], [1, 1]], 4, [9, 9], None, [0.5, 1.0]),
    ([[3], [2]], 4, [3], None, [0.75, 2.0**-30]),
    ([[2, 1], [1, 2]], 3, [1, 2], None, [357913941 / 2**30, 0.875]),
    ([[3, 1], [1, 2]], 3, [2, 2], (1, 3), [0.6875, 0.0]),
    ([[2, 1], [1, 2]], 4, [2, 2], None, [1.0, 0.5], [False, True, True, False]),
]


def numbers_of_every_data_set(counts, steps, kept, bounds, factor=1.0, dropped=None):
    """Return plan, lattice and y of all data sets: an axis per pair, then the live cells."""
    scale = ValueLattice.of((0, steps), 1)
    lower, upper = bounds or (0, steps)
    first = dataset_of(counts, scale=scale)
    rows = {
        "contribution_factor": np.broadcast_to(np.array(factor), first.occupancy.n_users),
        "suppressed_pairs": suppressed_where(first.occupancy, dropped),
    }
    plan = plan_of(first, kept, lower=lower, upper=upper, rows=rows)
    where = lattice(plan, scale)
    reach = [range(n * steps + 1) for n in first.occupancy.n.tolist()]
    rows = [
        statistic(Dataset(first.public, Sums(np.array(sums, dtype=np.int64))), plan, where)
        for sums in product(*reach)
    ]
    return plan, where, np.array(rows).reshape([*map(len, reach), live_cells(plan).size])


@pytest.mark.parametrize("case", TINY, ids=str)
def test_sensitivity_is_exact_and_loss_is_booked(case):
    """Over all neighbours a user moves a cell by exactly 2 S kept, and loses what is booked.

    The loss of each pair of neighbours is computed in fractions from the noise that is drawn.
    """
    plan, where, y = numbers_of_every_data_set(*case)
    occupancy, live = plan.occupancy, live_cells(plan)
    for user in range(occupancy.n_users):
        own = np.flatnonzero(occupancy.user == user)
        others = [axis for axis in range(occupancy.n_pairs) if axis not in own]
        table = y.transpose(*others, *own, -1).reshape(
            -1, int(np.prod([y.shape[axis] for axis in own])), live.size
        )
        moved = np.abs(table[:, :, None, :] - table[:, None, :, :]).reshape(-1, live.size)
        most = np.zeros(occupancy.n_cells, dtype=np.int64)
        cell = occupancy.cell[own]
        kept = plan.contributions("mean")[own] * where.steps
        assert kept == pytest.approx(np.rint(kept), abs=1e-9)
        most[cell] = 2 * np.rint(kept)
        assert moved.max(axis=0).tolist() == most[live].tolist()
        worst = max(
            sum(Fraction(int(d)) / Fraction(r) for d, r in zip(row, where.noise[live], strict=True))
            for row in np.unique(moved, axis=0)
        )
        assert worst <= Fraction(plan.losses()[user])
        assert worst <= plan.epsilon
        assert float(worst) == pytest.approx(plan.losses()[user], rel=1e-9)


def test_a_smaller_noise_would_lose_more_than_is_booked():
    """The comparison of losses has teeth: noise smaller by a billionth exceeds the booking."""
    plan, where, _ = numbers_of_every_data_set([[2], [1], [1]], 3, [2], None)
    loss = Fraction(2 * 3 * 2) / Fraction(where.noise[0] * (1 - 1e-9))
    assert loss > Fraction(plan.losses()[0])


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
        check(dataset, plan_of(dataset, [1], noise))
