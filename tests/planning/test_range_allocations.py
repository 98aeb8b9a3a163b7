"""Rows under a private clipping range, and which request is planned with one."""

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from examples import some
from hexveil import InputError
from planning.sums import sums_of
from planning.warsaw import fleet

RNG = np.random.default_rng(12)
COUNTS = {
    "many": 1 + RNG.poisson(1.0, (500, 25)),
    "few": 1 + RNG.poisson(1.0, (60, 6)),
    "apart": np.array([[2, 0]] * 400 + [[0, 3]] * 400),
}
MANY, FEW, APART = map(hv.Occupancy.from_dense, COUNTS.values())


def planned(occupancy, clipping_range, epsilon=1, **options):
    """Return a plan of these clipping_range."""
    options = {"bounds": (0, 60), "advise": False} | options
    return hv.plan(occupancy, epsilon=epsilon, clipping_range=clipping_range, **options)


def auto(crowd, epsilon):
    """Return a plan that chooses its clipping_range, which needs the bounds of records."""
    facts = sums_of(COUNTS[crowd]).public
    return hv.plan(facts, epsilon=epsilon, clipping_range="auto", advise=False)


@pytest.mark.parametrize("clipping_range", ["private", "per-cell"])
@pytest.mark.parametrize("epsilon", ["0.02", "1", "50"])
def test_the_noise_uses_up_what_was_asked(clipping_range, epsilon):
    """The most exposed user loses what was asked for, no more and hardly less."""
    plan = planned(FEW, clipping_range, epsilon)
    assert Fraction(epsilon) * (1 - Fraction(1, 10**9)) < plan.epsilon <= Fraction(epsilon)
    assert plan.allocation.clipping.mode == clipping_range
    assert plan.mechanism == "weights"


@pytest.mark.parametrize("delta", some([None, "1e-6"], 1))
@pytest.mark.parametrize(
    ("epsilon", "kinds"),
    [
        ("0.049", ("bounds", "bounds")),
        ("0.051", ("private", "private")),
        ("1.24", ("private", "private")),
        ("1.26", ("per-cell", "private")),
        ("49", ("per-cell", "private")),
        ("51", ("bounds", "bounds")),
    ],
)
def test_auto_takes_ranges_by_users_times_epsilon(epsilon, kinds, delta):
    """Of a map from 25, of a cell from 25 to 1000; cells have ranges of their own for means."""
    facts = sums_of(COUNTS["many"]).public
    for statistics, kind in zip((("mean",), ("mean", "sd")), kinds, strict=True):
        options = {"epsilon": epsilon, "delta": delta, "statistics": statistics, "advise": False}
        chosen, named = (hv.plan(facts, clipping_range=name, **options) for name in ("auto", kind))
        assert chosen.allocation.clipping.mode == kind
        assert chosen.expected_error == named.expected_error


# What a constant misses


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (0, "baseline_error must be positive and finite, got 0"),
        (-2, "baseline_error must be positive and finite, got -2"),
        ("nan", "baseline_error must be a finite number"),
        (float("inf"), "baseline_error must be a finite number"),
        (True, "baseline_error must be a finite number"),
        (1000, "baseline_error must be at most .*half the width of the bounds"),
    ],
)
def test_a_prior_that_is_no_size_is_refused(prior, said):
    """By plan and by capacity, before anything is planned."""
    with pytest.raises(InputError, match=said):
        planned(FEW, "bounds", baseline_error=prior)
    with pytest.raises(InputError, match=said):
        hv.capacity(fleet(6), epsilon=1, baseline_error=prior)
