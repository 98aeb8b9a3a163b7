"""Exact (ε, δ) of maps with private presence under Gaussian noise, in tiny worlds.

Of averages, paths of outcomes are followed, for the data set without one more unit and for every
set of records that it may have; of the squares of μ along the worst path the exact profile of
normal noise is taken: its lattice, of 2^-20 units, is looked at in tests/accounting. Of
distributions the noise of the wide bins is integrated by Gauss and Hermite's rule, over what the
placed bins then let a unit move. Broken twins are above δ, or refused by the meter.
"""
# ruff: noqa: ARG005  a fault may have no use for the sound code

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from accounting.test_gaussian_composition import law
from examples import examples
from hexveil.accounting.noise_law import Gaussian, Laplace
from hexveil.accounting.promise import PARTS, Squares, promised
from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import DONE, MemoryJournal, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.presence import L2, AnyUnit, PresenceSums, contribution, shape_allocation
from hexveil.mechanisms.presence.count_map import CountAllocation, CountedAllocation
from hexveil.mechanisms.presence.presence_allocation import (
    ONE_SHOT,
    THREE_STAGES,
    PresenceAllocation,
)
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation, ShapeForm
from hexveil.mechanisms.sensitivity_report import Meter, noise_of_law
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.private_pairs import PrivatePairs
from mechanisms.presence.presence_laws import EDGES, BinnedWorld, PresenceWorld
from mechanisms.presence.test_presence_laws import BY_BIN

EPSILON, DELTA, SPAN = Fraction(2), Fraction(1, 1000), 2
LOPSIDED = ((0, 0, 1, 0), (0, 1, 2, 1), (0, 2, 1, 2), (1, 2, 1, 2))
FORMS = {
    "one shot": ONE_SHOT,
    "three stages": THREE_STAGES,
    "bins": ShapeForm(Fraction("0.3"), Fraction(0), n_wide=2, n_narrow=0, n_quantiles=2),
    "priced bins": ShapeForm(Fraction("0.1"), n_wide=4, n_narrow=4, n_quantiles=2),
}


def plan_of(form):
    """Return the plan of a map of two cells, of distributions with one threshold."""
    if "bins" in form:
        return ShapeAllocation(2, EDGES, (1,), EPSILON, FORMS[form], delta=DELTA)
    return PresenceAllocation(2, SPAN, EPSILON, FORMS[form], 1.0, delta=DELTA)


def profiles(squares, epsilons):
    """Return P(loss > ε) - e^ε Q(loss > ε) of normal noise, for each μ² and ε."""
    mu = np.sqrt(np.maximum(squares, 1e-18))
    near, far = ndtr(mu / 2 - epsilons / mu), ndtr(-mu / 2 - epsilons / mu)
    return near - np.exp(epsilons) * far


def moves(stage, data, earlier):
    """Return what a stage measures of data sets over the deviations of its noise, and these."""
    (request,) = stage.noise(earlier)
    measured = [stage.measure(PresenceSums(one), earlier)[0].integers[0] for one in data]
    return np.array(measured) / request.deviations, request.deviations


# ---- averages ----


def largest_square(plan, data, rows=None, squares=0.0):
    """Return the largest μ² of any unit over all stages, on paths of low and high outcomes."""
    rows = rows or {}
    earlier = Outputs({name: np.array([row]) for name, row in rows.items()})
    stage = plan.next_stage(earlier)
    if stage is DONE:
        return float(np.max(squares))
    values, deviations = moves(stage, data, earlier)
    squares = squares + ((values - values[0]) ** 2).sum(axis=1)
    mixed = np.where(np.arange(deviations.size) % 2, 4, -4)
    found = []
    for far in (-4, 4, mixed):
        outcome = np.rint((values[0] + far) * deviations).astype(np.int64)
        row = stage.row(outcome[None], earlier)[0].tolist()
        found.append(largest_square(plan, data, {**rows, stage.name: row}, squares))
    return max(found)


# ---- distributions ----

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
DRAWN = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)
CHANCES = np.outer(WEIGHTS, WEIGHTS).ravel() / (2 * math.pi)
FULL = [((1, 0, 0), (1, 0, 0)), ((0, 0, 2), (0, 0, 0))]
"""Records of one bin, in both cells and in one: such a unit moves most."""


def delta_between(plan, pair, places):
    """Return δ at ε between two data sets: over wide bins, then over bins of cells.

    Numbers of units beside them decide no later stage: their square of μ is added.
    """
    beside = 0.0
    if isinstance(plan, CountedAllocation):
        (p, q), _ = moves(plan.next_stage(Outputs()), pair, Outputs())
        beside, plan = float(((p - q) ** 2).sum()), plan.statistics
    wide = plan.next_stage(Outputs())
    (ours, others), deviations = moves(wide, pair, Outputs())
    away, moved, found = ours - others, {}, []
    for drawn in DRAWN:
        noisy = np.rint((ours + drawn) * deviations).astype(np.int64)
        if (key := noisy.tobytes()) not in places:
            places[key] = wide.row(noisy[None], Outputs())
        row = places[key]
        if (place := row[0, 2:].tobytes()) not in moved:
            earlier = Outputs({wide.name: row})
            (p, q), _ = moves(plan.next_stage(earlier), pair, earlier)
            moved[place] = float(((p - q) ** 2).sum()) + beside
        found.append(moved[place])
    told = DRAWN @ away + away @ away / 2
    return float(CHANCES @ profiles(np.array(found), float(EPSILON) - told))


def largest_delta(plan, step=5, options=None):
    """Return the largest δ at ε between any unit's absence and presence."""
    if isinstance(plan, PresenceAllocation):
        data = PresenceWorld.of(LOPSIDED, 2, SPAN, max_n=2, step=step).data_sets()
        return float(profiles(largest_square(plan, data), float(EPSILON)))
    world = BinnedWorld(BY_BIN, 2, 60)
    world.options[1:] = options or world.options[1:]
    base, *others = world.data_sets()
    places = {}
    pairs = [pair for other in others for pair in ((base, other), (other, base))]
    return max(delta_between(plan, pair, places) for pair in pairs)


@pytest.mark.parametrize(
    "form", ["one shot", "three stages", pytest.param("bins", marks=pytest.mark.slow)]
)
def test_no_unit_exceeds_delta(form):
    """At ε the δ of all stages together is at most the promised one, and nearly as much."""
    assert 0.9 * float(DELTA) <= largest_delta(plan_of(form), step=3) <= float(DELTA)


def every_cell_full(pairs, prices, norm):
    """Return weights of which each may be full."""
    return np.where(prices[pairs.cell] > 0, PARTS, 0)


def scale_of_laplace(promise, weights=1):
    """Return noise whose parameter is the scale of Laplace noise at this share of ε."""
    share = promise.amount / promised(EPSILON, DELTA).amount
    return Gaussian(float(PARTS / (EPSILON * share)))


WHOLE, SCALE, FREE = (
    (Squares, "part", lambda promise, share: promise),
    (Squares, "noise", scale_of_laplace),
    (ShapeForm, "map_share", property(lambda form: Fraction(1))),
)
TWINS = {
    "every cell a full weight": ("one shot", contribution, "unit_weights", every_cell_full),
    "scale of the L1 norm": ("one shot", *SCALE),
    "scale of the L1 norm, of bins": ("bins", *SCALE),
    "squares that are not shared": ("bins", *WHOLE),
    "the shape for nothing": ("bins", *FREE),
    "a pooled shape of weights in L2": ("bins", shape_allocation, "L1", L2),
    "a full weight in each cell": ("bins", shape_allocation, "unit_weights", every_cell_full),
}


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(twin, marks=[pytest.mark.slow] * (form == "bins"))
        for twin, (form, *_) in TWINS.items()
    ],
)
def test_broken_twins_exceed_delta(twin, monkeypatch):
    """A scale for L1 used for L2, a stage left out, cells or squares not added: δ is exceeded."""
    form, *change = TWINS[twin]
    monkeypatch.setattr(*change)
    assert largest_delta(plan_of(form), options=FULL) > 1.05 * float(DELTA)


def counted_plan(cell_cap=2, share=Fraction(2, 3)):
    """Return a plan with numbers of units, which take the rest of the square of μ."""
    epsilons = promised(EPSILON, DELTA).epsilons([share, Fraction(1, 3)])
    shapes = ShapeAllocation(2, EDGES, (1,), epsilons[0], FORMS["bins"], delta=DELTA)
    return CountedAllocation(CountAllocation(2, cell_cap, epsilons[1], None, DELTA), shapes)


@pytest.mark.slow
def test_numbers_of_units_beside_a_map_keep_the_promise_together(monkeypatch):
    """The exact δ of both is near the promised one; shares above one, or L1 caps, exceed it."""
    assert 0.9 * float(DELTA) <= largest_delta(counted_plan(), options=FULL) <= float(DELTA)
    too_much = counted_plan(share=Fraction(1))
    assert largest_delta(too_much, options=FULL) > 1.05 * float(DELTA)
    assert len(run(counted_plan(), VettedNoise())) == 3
    with monkeypatch.context() as patch:
        # A unit counts fully in each of its cells, whatever its cap.
        patch.setattr(type(L2), "count_weights", lambda norm, cap, k: np.full_like(k, PARTS))
        assert largest_delta(counted_plan(1), options=FULL) > 1.05 * float(DELTA)
    monkeypatch.setattr(CountedAllocation, "losses", lambda own: own.statistics.losses())
    with pytest.raises(HexveilError, match="more than was booked"):
        run(counted_plan())


# ---- meters ----


def run(plan, source=None):
    """Run a plan on its world's units, against its own meter."""
    pairs = PrivatePairs(*np.array(LOPSIDED).T)
    if not isinstance(plan, (PresenceAllocation, CountAllocation)):
        (pairs,) = BinnedWorld(BY_BIN, 0).data_sets()
    source = source or SimulatedNoise(np.random.default_rng(2), 1)
    meter = Meter(plan.losses(), squared=bool(plan.delta))
    return execute(plan, PresenceSums(pairs), source, MemoryJournal(), meter)


@pytest.mark.parametrize(
    ("form", "stages"), [("one shot", 3), ("three stages", 5), ("priced bins", 4)]
)
def test_the_meter_recomputes_squares(form, stages, monkeypatch):
    """All stages pass at what is booked, from the vetted source too; broken ones are refused."""
    plan = plan_of(form)
    assert len(run(plan, VettedNoise())) == len(run(plan)) == stages
    for broken in (WHOLE, SCALE, *[FREE] * ("bins" in form)):
        with monkeypatch.context() as patch:
            patch.setattr(*broken)
            with pytest.raises(HexveilError, match="more than was booked"):
                run(plan)


def noise_on(law, entries):
    """Return the noise of so many numbers."""
    return noise_of_law(law, np.full(entries, law.scale))


def test_each_kind_of_meter_refuses_the_other_kind_of_noise():
    """A pure meter knows no loss of Gaussian noise, a meter of squares none of an L2 distance."""
    gaussian, laplace = Gaussian(1e12), Laplace(1e12)
    for request, report, squared in (
        (gaussian, gaussian, False), (gaussian, laplace, False),
        (gaussian, laplace, True), (laplace, gaussian, True),
    ):  # fmt: skip
        meter = Meter(np.array([9.0]), squared=squared)
        with pytest.raises(HexveilError, match="more than was booked"):
            meter.authorise((noise_on(request, 2),), (AnyUnit.of(report),))


# ---- weights and laws ----


@examples(80)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=40))
def test_squares_of_weights_add_up_to_one_at_most(priced):
    """In whole numbers, for any priced records; and nearly to one."""
    n = len(priced)
    pairs = PrivatePairs(np.arange(n), np.zeros(n), np.ones(n), np.zeros(n))
    weights = L2.weights(pairs, np.array(priced)).tolist()
    assert sum(one**2 for one in weights) <= PARTS**2
    assert not any(priced) or sum((one + 2) ** 2 for one in weights) >= PARTS**2


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
