"""Weighted means in a private clipping range: exact sensitivity, rounding, and what is booked."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hexveil as hv
from hexveil.mechanisms import noise
from hexveil.mechanisms.looks import weighted_mean
from hexveil.model.public_metadata import ValueLattice
from mechanisms.measuring import shares_of, weighted_scales
from mechanisms.setting import dataset_of
from publishing.releases import statements_of

COUNTS = np.array([[2, 1], [1, 0], [1, 3], [0, 1]])


def planned(dataset, epsilon=2, **options):
    """Return a plan with a clipping range."""
    return hv.plan(dataset, epsilon=epsilon, clipping_range="private", advise=False, **options)


def tiny(totals=0, steps=3):
    """Return a data set of four users on a lattice of few steps."""
    return dataset_of(COUNTS, totals, scale=ValueLattice.of((0, steps), 1))


@given(
    st.integers(1, 2**31), st.integers(1, 10**6), st.integers(0, 2**26), st.integers(0, 10**6),
    st.integers(0, 2**40), st.data(),
)  # fmt: skip
def test_a_contribution_is_the_projected_mean_times_the_weight_rounded_down(
    n, width, weight, low, total, data
):
    """Whatever the numbers: floor(W clip(s, a n, b n) / n), without leaving 64 bits."""
    total = data.draw(st.integers(0, min(total, 2**62 // (low + width))))
    n = min(n, 2**62 // (low + width))
    whole = [np.array([one], dtype=np.int64) for one in (total, n, weight)]
    (found,) = weighted_mean.contributions(*whole, (low, low + width)).tolist()
    mean = min(max(Fraction(total, n), low), low + width)
    assert found == math.floor(weight * mean)
    assert weight * low <= found <= weight * (low + width)


def test_scales_are_rounded_up_and_no_further():
    """Whatever the range, a pair's loss by its scale is at most its share over the noise."""
    plan = planned(tiny())
    interval, noise = plan.allocation.clipping, plan.error_models["mean"].noise
    totals = interval.weight.totals
    for width in (1, 2, 3):
        for scale, total, r in zip(weighted_scales(plan, width), totals, noise, strict=True):
            exact = Fraction(float(r)) * int(total) * width
            assert exact <= Fraction(float(scale)) <= exact * (1 + Fraction(1, 2**51))


def fleet(users=600):
    """Return a data set of two cells whose users lie between 20 and 40 of 60."""
    rng = np.random.default_rng(6)
    counts = rng.integers(1, 4, (users, 2))
    sums = np.round(rng.uniform(20_000, 40_000, counts.shape) * counts).astype(np.int64)
    return dataset_of(counts, sums.T.ravel(), scale=ValueLattice.of((0, 60), "0.001"))


def test_without_noise_it_is_the_weighted_mean_of_projected_user_means(monkeypatch):
    """What is published is Σ w clip(user mean), to within one quantum of rounding."""
    dataset = fleet(50)
    plan = planned(dataset)
    monkeypatch.setattr(noise, "add_laplace", lambda values, _: values)
    book, occupancy = hv.Ledger("memory://", dataset="buses", budget=10), dataset.occupancy
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    ends = statements_of(made)["plan"]["privacy_steps"][0]
    means = np.clip(dataset.sums.total / occupancy.n / 1000, ends["lower"], ends["upper"])
    share = shares_of(plan.allocation.clipping.weight)
    expected = np.bincount(occupancy.cell, weights=share * means)
    assert made.table["mean_noisy"].to_numpy() == pytest.approx(expected, abs=0.001)
