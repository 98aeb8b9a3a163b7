"""Exact (ε, δ) of distributions under Gaussian noise on tiny worlds, where occupancy is public.

The profile of a stage is summed outcome by outcome of the discrete noise; over stages:
test_distribution_laws.py. Broken twins spend more than they book.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import fftconvolve

from accounting.test_gaussian_composition import law
from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.accounting.noise_law import Gaussian
from hexveil.accounting.promise import PARTS, Squares
from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.distribution import CombinedStages, binned_stage
from hexveil.mechanisms.distribution.binned_stage import cell_bins
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs
from mechanisms.distribution.test_distribution_laws import (
    DELTA,
    combined,
    data_set,
    stage_of,
    weights_of,
    world,
)


def gaussian_stage(weight):
    """Return one stage of two cells and three bins."""
    place = np.array([0, 1, 1, 2])
    return cell_bins("bins", 3, weights_of(weight), place, Gaussian(1000.0))


def exact_delta(moved, deviation, epsilon):
    """Return δ between two data sets whose entries differ by so much, under discrete noise.

    Entries move by 0 or by one whole number to either side, so that the log-ratio follows from the
    sum of as many numbers of noise.
    """
    (step,) = np.unique(np.abs(moved[moved != 0]))
    n = int((moved != 0).sum())
    k, mass = law(deviation)
    together = mass
    for _ in range(n - 1):
        together = fftconvolve(together, mass)
    total = np.arange(together.size) + n * k.min()
    ratio = (2 * step * total + n * step**2) / (2 * deviation**2)
    told = ratio > epsilon
    return float((together[told] * -np.expm1(epsilon - ratio[told])).sum())


@pytest.mark.parametrize(("weight", "least"), [(600, 0.9), (40, -1e-9)])
def test_the_exact_law_of_a_stage_is_within_delta(weight, least):
    """All records of both cells move to another bin: exact δ at the ε of what is booked."""
    stage = gaussian_stage(weight)
    ends = [data_set([n, 0, 0, 0][::a], [0, 1, 0, 0], [m, 0, 0, 0][::a], [0, 1, 0, 0])
            for n, m, a in ((2, 3, 1), (2, 3, -1))]  # fmt: skip
    measured = [stage.measure(one, Outputs())[0].integers[0] for one in ends]
    square = weights_of(weight).losses(stage.law)[0]
    epsilon = square_epsilon(Fraction(float(square)), DELTA)
    found = exact_delta(measured[0] - measured[1], 1000.0, epsilon)
    assert least * float(DELTA) <= found <= float(DELTA)
    # The meter charges what is booked, few parts by the lattice.
    (request,), (report,) = stage.noise(Outputs()), stage.sensitivity(Outputs())
    assert report.squares_lower_bound(request, 2)[0] == pytest.approx(square, rel=1e-12)
    assert square == pytest.approx(4 * max(weight**2, 512 * weight) / 1000.0**2)


def scale_of_laplace(promise, weights):
    """Return noise of the scale of Laplace noise at the ε of the same square."""
    return Gaussian(float(weights * PARTS / promise.epsilon))


def largest_alone(pairs, prices, *, power):
    """Return the largest size of a pair for every unit."""
    return np.full(pairs.n_users, (pairs.n * prices[pairs.cell]).max())


def first_component_alone(cls, components, n_units):
    """Book one component in place of all."""
    return cls(tuple(components), components[0].losses(n_units))


TWINS = {
    "a scale of the L1 norm": (Squares, "noise", scale_of_laplace),
    "a stage left out": (CombinedStages, "of", classmethod(first_component_alone)),
    "weights that add up in L1": (
        binned_stage, "_sizes", largest_alone,
    ),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_refused(twin, monkeypatch):
    """More than the square that was divided is booked, or the meter finds what was not."""
    monkeypatch.setattr(*TWINS[twin])
    plan, sums = combined(DELTA), world()[5]
    divided = sum(float(calibrated_square(Fraction(e), DELTA)) for e in ("0.5", "0.5", "0.7"))
    source = SimulatedNoise(np.random.default_rng(0), 1)
    # What is booked exceeds what was divided; or else the meter finds that more is spent.
    if plan.losses()[0] <= divided * (1 + 1e-6):
        with pytest.raises(HexveilError, match="would cost a unit more"):
            execute(plan, sums, source, MemoryJournal(), Meter(plan.losses(), squared=True))


def test_a_charge_for_coming_or_going_is_found():
    """M in place of √2 M, and a sum of squares of bins rounded apart, miss what the law says."""
    stage = gaussian_stage(600)
    (request,), (report,) = stage.noise(Outputs()), stage.sensitivity(Outputs())
    divisor = np.ceil(math.sqrt(2) * report.weights.divisor).astype(np.int64)
    half = replace(report, weights=replace(report.weights, divisor=divisor))
    measured = np.array([stage.measure(one, Outputs())[0].integers[0] for one in world()])
    true = (((measured[:, None] - measured[None]) / 1000.0) ** 2).sum(axis=2).max()
    assert true == pytest.approx(report.squares_lower_bound(request, 2)[0], rel=1e-9)
    assert true > 1.1 * half.squares_lower_bound(request, 2)[0]
    # Pure stages state no square, and Gaussian ones no pure loss: each meter refuses the other.
    (other,) = stage_of().sensitivity(Outputs())
    assert math.isinf(other.loss_lower_bound(request, 2)[0])
    assert math.isinf(report.loss_lower_bound(request, 2)[0])
