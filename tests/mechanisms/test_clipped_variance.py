"""The whole number of a cell's variance: exact, and within what is booked for every neighbour."""

import dataclasses
import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil import Dataset, InputError
from hexveil.mechanisms.looks.clipped_mean import GRAIN
from hexveil.mechanisms.looks.clipped_variance import STEPS, centring
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.dataset import Sums
from mechanisms import measuring
from mechanisms.measuring import check, lattice, variances
from mechanisms.measuring import variance_statistic as statistic
from mechanisms.setting import dataset_of, plan_of
from model.stores import suppressed_where

POINTS = 4
"""Steps of the bounds: values stand on a lattice of five points."""
SCALE = ValueLattice.of((0, POINTS), 1)
BOTH = ("mean", "variance")
THIRD = (GRAIN // 3) / GRAIN


def dataset_with(samples, *, scale=SCALE, **facts):
    """Return a data set of one cell, of given samples per user in quanta."""
    counts = [[len(own)] for own in samples]
    total = [sum(own) for own in samples]
    squares = np.array([sum(k * k for k in own) for own in samples], dtype=np.int64)
    return dataset_of(counts, total, squares, scale=scale, **facts)


def plan_with(dataset, kept, *, noise=0.25, factor=1.0, dropped=None, statistics=BOTH):
    """Return a plan of one threshold for both statistics, with factors or dropped pairs."""
    occupancy = dataset.occupancy
    live = np.broadcast_to(np.array(kept), occupancy.n_cells)
    return plan_of(
        dataset,
        kept if "mean" in statistics else 0,
        rows={
            "variance_cap": live.astype(np.int64),
            "variance_noise": np.where(live > 0, noise, 0.0),
            "contribution_factor": np.broadcast_to(
                np.array(factor, dtype=float), occupancy.n_users
            ),
            "suppressed_pairs": suppressed_where(occupancy, dropped),
        },
        statistics=statistics,
    )


def share(samples, plan, steps):
    """Return V of one cell as a part of the squared span, in fractions from every sample."""
    weighed = []
    for user, own in enumerate(samples):
        m = len(own)
        kept = Fraction(float(plan.allocation.contribution_factor[user])) * min(
            m, int(plan.allocation.variance_cap[0])
        )
        gone = plan.allocation.suppressed_pairs
        if gone is not None and user in gone.user:
            kept = Fraction(0)
        weighed += [(kept / m, Fraction(k, steps)) for k in own]
        weighed.append((m - kept, Fraction(1, 2)))
    total = sum(w for w, _ in weighed)
    mean = sum(w * x for w, x in weighed) / total
    return sum(w * (x - mean) ** 2 for w, x in weighed) / total


users_samples = st.lists(
    st.lists(st.integers(0, 60), min_size=1, max_size=6), min_size=1, max_size=5
)


@given(users_samples, st.integers(1, 7), st.data())
def test_the_statistic_is_the_weighted_variance_rounded_down(samples, kept, data):
    """Y is the largest whole number not above 2^30 V / b, for any threshold and factors."""
    n = len(samples)
    parts = st.integers(0, GRAIN) | st.just(GRAIN)
    factor = [data.draw(parts) / GRAIN for _ in range(n)]
    dropped = data.draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n))
    noise = data.draw(st.floats(1e-4, 10.0))
    dataset = dataset_with(samples, scale=ValueLattice.of((-30, 30), 1))
    plan = plan_with(dataset, kept, noise=noise, factor=factor, dropped=dropped)
    where = lattice(plan, dataset.public.lattice)
    expected = share(samples, plan, 60) * STEPS / Fraction(noise)
    assert statistic(dataset, plan, where).tolist() == [math.floor(expected)]


@given(users_samples)
def test_where_nothing_is_cut_it_is_the_population_variance(samples):
    """With everything kept the published number is the variance of all samples."""
    dataset = dataset_with(samples, scale=ValueLattice.of((0, 60), 1))
    plan = plan_with(dataset, 6)
    y = statistic(dataset, plan, lattice(plan, dataset.public.lattice))
    expected = np.var([k for own in samples for k in own])
    assert variances(y, plan)[0] == pytest.approx(expected, abs=1e-5)


CASES = [  # counts, threshold, factors, dropped
    ([2, 1, 1], 9, 1.0, None), ([3, 2], 9, 1.0, None), ([4, 1], 9, 1.0, None), ([1], 9, 1.0, None),
    ([2, 2], 9, [0.5, 1.0], None), ([3, 1], 9, [THIRD, 0.75], None), ([4, 1], 2, 1.0, None),
    ([3, 2], 1, [1.0, THIRD], None), ([2, 1, 1], 9, 1.0, [True, False, False]),
    ([2, 1, 1], 9, [0.0, 1.0, 0.5], None),
]  # fmt: skip


def every_data_set(counts, *details):
    """Return the plan, and both whole numbers of each choice of values; an axis per user."""
    choices = [list(combinations_with_replacement(range(POINTS + 1), m)) for m in counts]
    first = dataset_with([c[0] for c in choices])
    kept, factor, dropped = details
    plan = plan_with(first, kept, factor=factor, dropped=dropped)
    where = lattice(plan, SCALE)
    rows = []
    for samples in product(*choices):
        dataset = Dataset(first.public, dataset_with(samples).sums)
        rows.append(
            [measuring.statistic(dataset, plan, where)[0], statistic(dataset, plan, where)[0]]
        )
    return plan, where, np.array(rows).reshape([*map(len, choices), 2])


def moves(numbers, user):
    """Return how far each pair of neighbours in a user's values lies apart, in both numbers."""
    own = np.moveaxis(numbers, user, 0).reshape(numbers.shape[user], -1, 2)
    return np.abs(own[:, None] - own[None]).reshape(-1, 2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_neighbour_moves_more_than_is_booked(case):
    """Over all neighbours the variance stays within its booking, and the mean meets its own.

    Mean and variance together cost no neighbour more than the loss that the plan states.
    """
    plan, where, numbers = every_data_set(*case)
    variance_only = plan.changed(
        request=dataclasses.replace(plan.request, statistics=("variance",))
    )
    booked = [
        Fraction(float(x)) * (1 + Fraction(1, 2**48))
        for x in variance_only.allocation.pair_losses(variance_only.problem)
    ]
    for user in range(len(case[0])):
        moved = moves(numbers, user)
        most_mean, most_variance = moved.max(axis=0).tolist()
        assert most_mean == round(2 * POINTS * float(plan.contributions("mean")[user]))
        assert Fraction(most_variance, STEPS) <= booked[user]
        worst = max(
            Fraction(a) / Fraction(float(where.noise[0])) + Fraction(b, STEPS)
            for a, b in np.unique(moved, axis=0).tolist()
        )
        assert worst <= Fraction(float(plan.losses()[user]))
        assert worst <= plan.epsilon


@pytest.mark.parametrize("counts", [[2, 1, 1], [3, 2], [2, 2], [1, 1, 1]])
def test_the_booking_is_reached_where_nothing_is_put_at_the_middle(counts):
    """COMP Proposition III.1 is met: a user moves Y by what is booked, but for the lattice."""
    plan, _, numbers = every_data_set(counts, 9, 1.0, None)
    n = sum(counts)
    for user, m in enumerate(counts):
        exact = Fraction(m * (n - m), n * n) if 2 * m < n else Fraction(n * n - n % 2, 4 * n * n)
        most = int(moves(numbers, user).max(axis=0)[1])
        assert abs(most - exact * STEPS / Fraction(float(plan.allocation.variance_noise[0]))) <= 1


def shares_of_truth(away_parts):
    """Return true variance less V for values at 0, 1/2 and 1 of four users with parts put away."""
    n = len(away_parts)
    for values in product([0.0, 0.5, 1.0], repeat=n):
        x = np.array([*values, 0.5])
        w = np.array([*(1 - np.array(away_parts)), sum(away_parts)]) / n
        yield np.var(values) - (w @ x**2 - (w @ x) ** 2)


@pytest.mark.parametrize(
    "parts", [[0, 0, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0], [1, 1, 1, 0], [1, 1, 0.5, 0.5]]
)
def test_centring_leaves_the_planned_bias(parts):
    """With the constant added, no data err by more than the bias that the plan states."""
    from hexveil.accounting.error_model import variance_bias  # noqa: PLC0415  beside its one use

    away = np.array([sum(parts) / 4])
    off = np.array(list(shares_of_truth(parts))) - centring(away)
    assert np.abs(off).max() <= variance_bias(away)[0] + 1e-12


def test_sums_without_squares_are_refused_and_cost_nothing():
    """A variance of records without sums of squares is refused before anything is booked."""
    book = hv.Ledger("memory://", dataset="buses", budget=100)
    dataset = dataset_of([[2], [1]], [3, 1], scale=SCALE)
    plan = plan_with(dataset, 2)
    with pytest.raises(InputError, match=r"sums of squares.*sum_sq.*coarser quantum"):
        hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert book.entries() == ()
    assert hv.release(
        dataset, plan_with(dataset, 2, statistics=("mean",)), ledger=book, accept_noise=True
    )
    assert hv.release(dataset, plan_with(dataset, 0), ledger=book, accept_noise=True).epsilon == 0


@pytest.mark.parametrize(
    ("noise", "said"),
    [(1e-12, "smaller epsilon"), (float("nan"), "no number"), (-1.0, "no number")],
)
def test_noise_that_does_not_fit_is_refused_from_public_facts(noise, said):
    """Variances finer than 64 bits can say, and noise that is no number, are refused beforehand."""
    dataset = dataset_with([[1, 2], [3]])
    plan = plan_with(dataset, 2, noise=noise)
    with pytest.raises(InputError, match=said):
        check(dataset, plan, lattice(plan, SCALE))


def test_sums_of_one_user_may_be_any_that_are_possible():
    """The largest sums that a data set accepts fit the whole numbers on the way."""
    scale = ValueLattice.of((0, 2**20), 1)
    m = 2**21
    total = np.array([0, m * 2**20, m // 2 * 2**20])
    squares = total * 2**20
    for i in range(3):
        public = dataset_of([[m]], scale=scale).public
        dataset = Dataset(public, Sums(total[i : i + 1], squares[i : i + 1]))
        plan = plan_with(dataset, m)
        y = statistic(dataset, plan, lattice(plan, scale))
        assert y.tolist() == [STEPS if i == 2 else 0]


def test_the_step_of_the_lattice_is_charged():
    """A user moves a whole number by less than 2^30 D / b + 1: both terms are booked, no more."""
    plan = plan_with(dataset_with([(0, 1), (2,), (3,)]), 2, statistics=("variance",))
    shares = Fraction(1, 4), Fraction(3, 16), Fraction(3, 16)
    for lost, share in zip(plan.losses(), shares, strict=True):
        exact = share / Fraction(1, 4) + Fraction(1, STEPS)
        assert exact <= Fraction(lost) <= exact * (1 + Fraction(1, 10**12))
