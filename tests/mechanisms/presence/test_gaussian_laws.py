"""Exact (ε, δ) of maps with private presence under Gaussian noise, in tiny worlds.

Paths of outcomes are followed, for the data set without one more unit and for every set of records
that it may have. Of the squares of μ along the worst path the exact profile of normal noise is
taken: its lattice, of 2^-20 units, is looked at in tests/accounting. Broken twins are above δ, or
refused by the meter.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accounting.test_gaussian_loss import law
from examples import examples
from hexveil.accounting.noise_law import Gaussian, Laplace
from hexveil.accounting.promise import PARTS, Squares, promised
from hexveil.base.errors import HexveilError, InputError
from hexveil.mechanisms.contract import DONE, MemoryJournal, Meter, Outputs, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.presence import contribution
from hexveil.mechanisms.presence.any_unit import AnyUnit, PresenceSums
from hexveil.mechanisms.presence.contribution import L2, norm_of
from hexveil.mechanisms.presence.count_map import CountAllocation
from hexveil.mechanisms.presence.presence_allocation import OneShot, PresenceAllocation, ThreeStages
from hexveil.mechanisms.sensitivity_report import noise_of_law
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.private_pairs import PrivatePairs
from presence_laws import PresenceWorld

EPSILON, DELTA, SPAN = Fraction(2), Fraction(1, 1000), 2
LOPSIDED = ((0, 0, 1, 0), (0, 1, 2, 1), (0, 2, 1, 2), (1, 2, 1, 2))


def profile(square, epsilon):
    """Return P(loss > ε) - e^ε Q(loss > ε) of normal noise."""
    mu = math.sqrt(square)
    if not mu:
        return max(1.0 - math.exp(epsilon), 0.0)
    far = stats.norm.sf(epsilon / mu + mu / 2)
    return stats.norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * far


def largest_square(plan, sums, rows=None, squares=0.0):
    """Return the largest μ² of any unit over all stages, on paths of low and high outcomes."""
    rows = rows or {}
    earlier = Outputs({name: np.array([row]) for name, row in rows.items()})
    stage = plan.next_stage(earlier)
    if stage is DONE:
        return float(np.max(squares))
    (request,) = stage.noise(earlier)
    values = np.array([stage.measure(one, earlier)[0].integers[0] for one in sums])
    squares = squares + (((values - values[0]) / request.deviations) ** 2).sum(axis=1)
    far = np.rint(4 * request.deviations).astype(np.int64)
    mixed = np.where(np.arange(far.size) % 2, far, -far)
    found = []
    for outcome in (values[0] - far, values[0] + far, values[0] + mixed):
        row = stage.row(outcome[None], earlier)[0].tolist()
        found.append(largest_square(plan, sums, {**rows, stage.name: row}, squares))
    return max(found)


def largest_delta(plan, step=1):
    """Return the largest δ at the plan's ε between any unit's absence and presence."""
    world = PresenceWorld.of(LOPSIDED, 2, SPAN, max_n=2, step=step)
    return profile(largest_square(plan, list(map(PresenceSums, world.data_sets()))), float(EPSILON))


def a_map(form):
    """Return the plan of a map of two cells."""
    return PresenceAllocation(2, SPAN, EPSILON, form, 1.0, delta=DELTA)


FORMS = {"one shot": OneShot(), "three stages": ThreeStages()}


@pytest.mark.parametrize("form", FORMS)
def test_no_unit_exceeds_delta(form):
    """At ε the δ of all stages together is at most the promised one, and nearly as much."""
    worst = largest_delta(a_map(FORMS[form]), step=3)
    assert 0.9 * float(DELTA) <= worst <= float(DELTA)


def every_cell_full(pairs, prices, cap, norm):
    """Return weights of which each may be full."""
    return np.where(prices[pairs.cell] > 0, PARTS, 0)


def scale_of_laplace(promise, weights=1):
    """Return noise whose parameter is the scale of Laplace noise at this share of ε."""
    share = promise.amount / promised(EPSILON, DELTA).amount
    return Gaussian(float(PARTS / (EPSILON * share)))


TWINS = {
    "every cell a full weight": (contribution, "unit_weights", every_cell_full),
    "scale of the L1 norm": (Squares, "noise", scale_of_laplace),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_exceed_delta(twin, monkeypatch):
    """Weights without a limit over cells, and a scale for L1 used for L2, exceed δ."""
    monkeypatch.setattr(*TWINS[twin])
    assert largest_delta(a_map(OneShot()), step=5) > 1.05 * float(DELTA)


def run(plan, source=None):
    """Run a plan on two units, against its own meter."""
    pairs = PrivatePairs(*np.array(LOPSIDED).T)
    source = source or SimulatedNoise(np.random.default_rng(2), 1)
    return execute(
        plan,
        PresenceSums(pairs),
        source,
        MemoryJournal(),
        Meter(plan.losses(), squared=bool(plan.delta)),
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_meter_recomputes_squares(form, monkeypatch):
    """A sound plan passes; choices that are not counted, and other scales, are refused."""
    plan = a_map(FORMS[form])
    assert len(run(plan))
    sound = Squares.noise
    whole = lambda promise, weights=1: sound(promised(EPSILON, DELTA), weights)  # noqa: E731, ARG005
    for broken in (whole, scale_of_laplace):
        with monkeypatch.context() as patch:
            patch.setattr(Squares, "noise", broken)
            with pytest.raises(HexveilError, match="more than was booked"):
                run(plan)


def noise_on(law, entries):
    """Return the noise of so many numbers."""
    return noise_of_law(law, np.full(entries, law.scale))


def test_each_kind_of_meter_refuses_the_other_kind_of_noise():
    """A pure meter knows no loss of Gaussian noise, a meter of squares none of an L2 distance."""
    gaussian, laplace = Gaussian(1e12), Laplace(1e12)
    with pytest.raises(HexveilError, match="more than was booked"):
        Meter(np.array([9.0])).authorise((noise_on(gaussian, 2),), (AnyUnit.of(gaussian),))
    with pytest.raises(HexveilError, match="more than was booked"):
        Meter(np.array([9.0])).authorise((noise_on(gaussian, 2),), (AnyUnit.of(laplace),))
    meter = Meter(np.array([9.0]), squared=True)
    for request, report in ((gaussian, laplace), (laplace, gaussian)):
        with pytest.raises(HexveilError, match="more than was booked"):
            meter.authorise((noise_on(request, 2),), (AnyUnit.of(report),))


@examples(80)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=40), st.integers(0, 2**40))
def test_squares_of_weights_add_up_to_one_at_most(priced, cap):
    """In whole numbers, for any priced records; and nearly to one without a cap."""
    n = len(priced)
    pairs = PrivatePairs(np.arange(n), np.zeros(n), np.ones(n), np.zeros(n))
    size = int(L2.sizes(pairs, np.array(priced))[0])
    exact = math.isqrt(sum(one**2 for one in priced))
    assert exact <= size <= exact * (1 + 1e-5) + 2
    weights = L2.weights(pairs, np.array(priced), cap).tolist()
    assert sum(one**2 for one in weights) <= PARTS**2
    if cap <= exact and exact:
        assert sum((one + 2) ** 2 for one in weights) >= PARTS**2


@pytest.mark.parametrize("visited", [1, 3, 4, 17, 1000])
def test_counts_are_limited_in_squares(visited):
    """K cells of weight √(k/K): K w² is at most k P², and nearly as much."""
    plan = CountAllocation(1000, 4, Fraction(1), None, DELTA)
    weight = int(L2.count_weights(4, np.array([visited]))[0])
    assert visited * weight**2 <= 4 * PARTS**2
    assert weight == PARTS or visited * (weight + 1) ** 2 > 4 * PARTS**2
    (report,) = plan.next_stage(Outputs()).sensitivity(Outputs())
    assert report.by == 4 * PARTS**2
    assert len(run(plan))


@pytest.mark.parametrize("deviation", [3.0, 20.0])
def test_tails_bound_those_of_discrete_noise(deviation):
    """Thresholds and quantiles hold for the law summed term by term, and are not far off."""
    noise = Gaussian(deviation)
    k, mass = law(deviation)
    both = np.convolve(mass, mass)
    for cells, false in ((1, 0.025), (500, 1.0)):
        threshold = noise.opening_threshold(cells, false)
        at = 2 * k.max() + threshold
        assert cells * both[at:].sum() <= false
        assert cells * both[at - 4 :].sum() > false
    quantile = noise.quantile(0.025)
    assert mass[k >= quantile].sum() <= 0.025 < mass[k >= quantile - 3].sum()


@pytest.mark.slow
def test_maps_under_gaussian_noise_cover_and_beat_laplace_where_units_are_in_many_cells():
    """4,000 units in 16 of 40 cells: intervals cover at their rate, errors are below Laplace's."""
    rng = np.random.default_rng(4)
    unit = np.repeat(np.arange(4000), 16)
    cell = rng.permuted(np.tile(np.arange(40), (4000, 1)), axis=1)[:, :16].ravel()
    mean = np.clip(300 + 10 * cell + rng.normal(0, 60, unit.size), 0, 1000)
    sums = PresenceSums(PrivatePairs(cell, unit, np.ones(unit.size), np.rint(mean)))
    true = np.bincount(cell, np.rint(mean)) / np.bincount(cell) / 1000
    errors, covered, weighed = {}, [], []
    for delta in (Fraction(0), Fraction(1, 10**6)):
        plan = PresenceAllocation(40, 1000, Fraction(1), ThreeStages(), delta=delta)
        found = []
        for seed in range(12):
            source = SimulatedNoise(np.random.default_rng([7, seed]), 1)
            meter = Meter(plan.losses(), squared=bool(plan.delta))
            outputs = execute(plan, sums, source, MemoryJournal(), meter)
            decoded = plan.decode(outputs)
            assert decoded.is_open.all()
            found.append(np.abs(decoded["mean"] - true).mean())
            covered.append((decoded["mean_low"] <= true) & (true <= decoded["mean_high"]))
            exact, _ = plan.fine_window(outputs).decode(
                plan.fine_window(outputs).halves(sums.pairs, 1000, norm_of(plan.law))
            )
            weighed.append((decoded["weight_low"] <= exact) & (exact <= decoded["weight_high"]))
        errors[delta] = float(np.mean(found))
    assert errors[Fraction(1, 10**6)] < 0.8 * errors[Fraction(0)]
    assert np.mean(covered) >= 0.93
    # Four standard errors of 960 draws at 0.95 are 0.03.
    assert abs(np.mean(weighed) - 0.95) < 0.03


def test_vetted_noise_runs_a_plan():
    """The door draws what a plan asks for; too small an epsilon is refused before any draw."""
    plan = a_map(OneShot())
    assert len(run(plan, VettedNoise()))
    with pytest.raises(InputError, match="64-bit"):
        promised(Fraction(1, 10**4), Fraction(1, 10**6)).part(Fraction(1, 10**15)).noise()
