"""Variances under a private range: exact sensitivity, rounding, what is booked and stated."""

import math
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

import hexveil as hv
from examples import examples
from hexveil.mechanisms.looks import weighted_variance
from hexveil.mechanisms.stage_data import centre_and_radius
from hexveil.model.public_metadata import ValueLattice
from hexveil.records.feasible_sums import squares_range
from mechanisms import measuring
from mechanisms.setting import dataset_of

COUNTS = np.array([[2, 1], [1, 0], [1, 2], [0, 1]])
BOTH = ("mean", "variance")
GRAIN = 2**weighted_variance.BITS


def planned(dataset, epsilon=2, statistics=BOTH, **options):
    """Return a plan with a clipping range and a variance."""
    return hv.plan(
        dataset,
        epsilon=epsilon,
        statistics=statistics,
        clipping_range="private",
        advise=False,
        **options,
    )


def tiny(totals=0, squares=0, steps=3):
    """Return a data set of four users on a lattice of few steps."""
    n = hv.Occupancy.from_dense(COUNTS).n_pairs
    squares = np.array(np.broadcast_to(squares, n), dtype=np.int64)
    return dataset_of(COUNTS, totals, squares, scale=ValueLattice.of((0, steps), 1))


@given(st.integers(1, 2**30), st.integers(1, 2**25), st.integers(0, 2**26), st.data())
def test_a_contribution_is_the_projected_second_moment_times_the_weight(n, steps, weight, data):
    """W floor(2^20 min(q, m r²) / (m r²)) exactly, up to the largest sums that data sets accept."""
    n = min(n, (2**62 - 1) // steps**2)
    middle, radius = data.draw(st.integers(0, steps)), data.draw(st.integers(1, steps))
    total = np.array([data.draw(st.integers(0, n * steps))])
    low, high = (int(one[0]) for one in squares_range(np.array([n]), total, steps))
    square = data.draw(st.integers(low, high))
    whole = np.array([n]), total, np.array([square])
    (found,) = weighted_variance.contributions(whole, np.array([weight]), middle, radius).tolist()
    q = square - 2 * middle * int(total[0]) + middle**2 * n
    assert q >= 0
    assert found == weight * math.floor(GRAIN * Fraction(min(q, n * radius**2), n * radius**2))
    assert 0 <= found <= weight * GRAIN


def test_scales_are_rounded_up_and_no_further():
    """A pair's loss by its scale is at most its share over the noise, whatever the range."""
    plan = planned(tiny())
    totals = plan.allocation.clipping.weight.totals
    rows = zip(
        measuring.weighted_variance_of(plan).scales,
        totals,
        plan.allocation.variance_noise,
        strict=True,
    )
    for scale, total, noise in rows:
        exact = Fraction(float(noise)) * int(total) * GRAIN
        assert exact <= Fraction(float(scale)) <= exact * (1 + Fraction(1, 2**51))


def projected(dataset, plan, pair, shares):
    """Return Σ p min(q, r²) - (Σ p clip(mean) - middle)² of each cell in value units, by floats."""
    occupancy, scale = dataset.occupancy, dataset.public.lattice
    middle, _, radius = centre_and_radius(pair, scale.span_quanta, plan.allocation.clipping.radius)
    total, square = dataset.sums.total / occupancy.n, dataset.sums.total_sq / occupancy.n
    q = np.minimum(square - 2 * middle * total + middle**2, radius**2)
    x = np.clip(total, *pair) - middle
    second, first = (np.bincount(occupancy.cell, weights=shares * one) for one in (q, x))
    return float(scale.quantum) ** 2 * (second - first**2)


@st.composite
def cases(draw):
    """Return a small data set with any possible sums, ends, and a plan's radius."""
    steps = draw(st.integers(1, 12))
    users, cells = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    counts = np.array(
        draw(
            st.lists(
                st.lists(st.integers(1, 6), min_size=cells, max_size=cells),
                min_size=users, max_size=users,
            )
        )
    )  # fmt: skip
    n = hv.Occupancy.from_dense(counts).n
    total = np.array([draw(st.integers(0, int(m) * steps)) for m in n])
    least, most = squares_range(n, total, steps)
    square = np.array([draw(st.integers(int(a), int(b))) for a, b in zip(least, most, strict=True)])
    low = draw(st.integers(0, steps - 1))
    pair = low, draw(st.integers(low + 1, steps))
    return dataset_of(counts, total, square, scale=ValueLattice.of((0, steps), 1)), pair


@pytest.mark.slow
@examples(40)
@given(cases(), st.sampled_from(["0.5", 2, 20]))
def test_weights_and_rounding_are_within_the_stated_bias(case, epsilon):
    """Whatever the values: without noise it is within the bias of the average over all records.

    That average is not below 0, and where nothing is cut it is the variance of the records. The
    variance of one record is 0, and shown so.
    """
    dataset, pair = case
    assume((dataset.occupancy.records_per_cell > 1).any())
    plan = planned(dataset, epsilon=epsilon, statistics=("variance",))
    scale, occupancy = dataset.public.lattice, dataset.occupancy
    interval = plan.allocation.clipping.with_ends(pair, scale.span_quanta)
    found = plan.changed(allocation=replace(plan.allocation, clipping=interval))
    noisy = {
        "mean": measuring.weighted_statistic(dataset, plan, pair),
        "variance": measuring.second_moments(dataset, plan, pair),
    }
    part = found.error_models["variance"]
    added = 2 * (measuring.weighted_scales(found, pair[1] - pair[0]) / interval.weight.totals) ** 2
    p = occupancy.n / occupancy.records_per_cell[occupancy.cell]
    target = projected(dataset, found, pair, p)
    shown = measuring.weighted_variances(noisy, found)
    assert part.noised.tolist() == (occupancy.records_per_cell > 1).tolist()
    assert not shown[~part.noised].any()
    slack = 1e-9 * (1 + added + part.unit)
    off = np.abs(shown - added - target)
    assert (off <= part.bias + slack)[part.noised].all()
    assert (target >= -slack).all()
    middle, _, radius = centre_and_radius(pair, scale.span_quanta, interval.radius)
    mean = dataset.sums.total / occupancy.n
    q = dataset.sums.total_sq / occupancy.n - 2 * middle * mean + middle**2
    if (mean >= pair[0]).all() and (mean <= pair[1]).all() and (q <= radius**2).all():
        squares = dataset.sums.total_sq / occupancy.n
        square, first = (np.bincount(occupancy.cell, weights=p * one) for one in (squares, mean))
        assert target == pytest.approx(square - first**2, abs=1e-9)
