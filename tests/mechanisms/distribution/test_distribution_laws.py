"""Exact losses of distributions on tiny worlds: every change of one unit's values, every stage.

Discrete Laplace noise of scale b attains exp(|change| / b) at outcomes beyond both numbers, so the
worst log-ratio of a stage is Σ |change| / b over its entries, given the outputs before. It is added
along paths of outputs, for all data sets of a world; with a δ squares of the largest moves are.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import fftconvolve

from accounting.test_gaussian_composition import law
from hexveil.accounting.gaussian_composition import calibrated_square, square_epsilon
from hexveil.accounting.noise_law import Gaussian, Laplace
from hexveil.accounting.promise import PARTS, Squares
from hexveil.base.errors import HexveilError, InputError
from hexveil.mechanisms.contract import DONE, MemoryJournal, execute
from hexveil.mechanisms.distribution import CombinedStages, Component, binned_stage
from hexveil.mechanisms.distribution.binned_stage import (
    BinnedSums,
    PricedColumn,
    PricedWeights,
    ScoredSums,
    apportion,
    cell_bins,
    check_room,
)
from hexveil.mechanisms.distribution.pooled_shape import BinnedMap, PooledShape
from hexveil.mechanisms.distribution.shape_statistics import GRAIN
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.sensitivity_report import GaussianNoise, Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.occupancy import LocalOccupancy
from hexveil.model.pair_bins import PairBins

PURE, DELTA = Fraction(0), Fraction(1, 1000)
# Unit 0 has 2 and 3 records in two cells, unit 1 one in each.
OCCUPANCY = LocalOccupancy([0, 0, 1, 1], [0, 1, 0, 1], [2, 1, 3, 1], 2, 2)
EDGES = np.array([2, 5, 9, 12])


def spread(n, n_bins):
    """Return every way in which n records lie in bins."""
    return [c for c in itertools.product(range(n + 1), repeat=n_bins) if sum(c) == n]


def data_set(*counts):
    """Return the sums of pairs with these counts by bin."""
    rows = [(p, b, c) for p, of_pair in enumerate(counts) for b, c in enumerate(of_pair) if c]
    pair, place, count = np.array(rows).T
    return BinnedSums(np.zeros(len(counts), dtype=np.int64), None, PairBins(pair, place, count))


def world(n_bins=4):
    """Return all data sets that differ in the values of unit 0."""
    other = [0] * n_bins
    other[1] = 1
    return [
        data_set(first, other, second, other[::-1])
        for first in spread(2, n_bins)
        for second in spread(3, n_bins)
    ]


def worst_loss(plan, worlds, seed=0):
    """Return the largest loss of any two data sets, or square of μ, along a path of outputs."""
    source = SimulatedNoise(np.random.default_rng(seed), 1)
    earlier, total = Outputs(), 0.0
    while (stage := plan.next_stage(earlier)) is not DONE:
        (request,) = stage.noise(earlier)
        is_gaussian = isinstance(request, GaussianNoise)
        scales, draw = (
            (request.deviations, source.gaussian)
            if is_gaussian
            else (request.scales, source.laplace)
        )
        measured = np.array([stage.measure(one, earlier)[0].integers[0] for one in worlds])
        changes = np.abs(measured[:, None] - measured[None]) / scales
        total += (changes ** (1 + is_gaussian)).sum(axis=2).max()
        earlier = earlier.extended(stage.name, stage.entries, draw(measured[:1], scales[None]))
    return total


def shape(epsilon="0.3", delta=PURE):
    """Return the plan of a shape."""
    return PooledShape(OCCUPANCY, EDGES, Fraction(epsilon), delta)


def binned(delta=PURE):
    """Return the plan of a shape and of bins of cells."""
    prices, epsilon = np.array([3, 1]), Fraction("0.7")
    return BinnedMap(shape("0.5", delta), prices, 2, np.array([5]), epsilon)


PLANS = {
    "wide": shape(), "refined": shape("400"), "bins": binned(), "wide, delta": shape("0.5", DELTA),
    "refined, delta": shape("2000", DELTA), "bins, delta": binned(DELTA),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", PLANS)
def test_the_worst_loss_is_the_booked_one(name, seed):
    """No change of a unit's values costs more than was booked, and one costs just that."""
    plan = PLANS[name]
    worst, booked = worst_loss(plan, world(), seed), plan.losses()[0]
    assert worst <= booked
    if isinstance(plan, PooledShape):
        assert worst >= 0.99 * booked
        amount = calibrated_square(plan.epsilon, DELTA) if plan.delta else plan.epsilon
        assert booked == pytest.approx(float(amount))


OTHER = [0, 1, 0, 0]
ENDS = [data_set([2, 0, 0, 0][::a], OTHER, [3, 0, 0, 0][::a], OTHER) for a in (1, -1)]
"""All of a unit's values in the lowest bin, or in the highest."""


@pytest.mark.parametrize("delta", [PURE, DELTA])
def test_bins_of_cells_use_what_they_are_charged(delta):
    """With all of a unit's values moved from the lowest bin to the highest, it is attained."""
    for plan in (binned(delta), combined(delta)):
        assert plan.losses()[0] >= worst_loss(plan, ENDS) >= 0.99 * plan.losses()[0]


def rounded(name, n_bins, weights, place, law):
    """Return a twin that rounds each bin's share by itself: the sum is not the weight."""

    def total(sums):
        rows = sums.bins
        found = np.zeros(2 * n_bins, dtype=np.int64)
        n = OCCUPANCY.n[rows.pair]
        weight = PricedColumn(weights.prices, weights.divisor).of(OCCUPANCY)[rows.pair]
        parts = np.ceil(weight * rows.count / n).astype(np.int64)
        np.add.at(found, OCCUPANCY.cell[rows.pair] * n_bins + place[rows.bin], parts)
        return found

    return replace(cell_bins(name, n_bins, weights, place, law), total=total)


def half_charged(name, n_bins, weights, place, law):
    """Return a twin that charges a unit as if it came or went: M in place of 2 M."""
    stage = cell_bins(name, n_bins, weights, place, law)
    half = replace(weights, divisor=2 * weights.divisor)
    return replace(stage, report=replace(stage.report, moves=half.moves(law)))


def weights_of(weight):
    """Return weights of which the first unit has the same in both of its cells."""
    return PricedWeights(OCCUPANCY, np.array([3, 2]), np.full(2, 6 * PARTS // weight))


def stage_of(kind=cell_bins, weight=7):
    """Return one stage with a small odd weight, where rounding shows."""
    place = np.array([0, 1, 1, 2])
    return kind("bins", 3, weights_of(weight), place, Laplace(50.0))


def stated_and_true(stage):
    """Return the loss of unit 0 that a stage states, and the largest one in its world."""
    (request,), (report,) = stage.noise(Outputs()), stage.sensitivity(Outputs())
    measured = np.array([stage.measure(one, Outputs())[0].integers[0] for one in world()])
    changes = np.abs(measured[:, None] - measured[None]).sum(axis=2).max() / 50.0
    return report.loss_lower_bound(request, 2)[0], changes


def test_broken_twins_are_found():
    """The same brute force finds rounding bin by bin, and a charge of half the distance."""
    stated, true = stated_and_true(stage_of())
    assert true == pytest.approx(stated, rel=1e-12)
    booked = weights_of(7).losses(Laplace(50.0))
    assert booked[0] == pytest.approx(stated, rel=1e-12)
    for twin in (rounded, half_charged):
        stated, true = stated_and_true(stage_of(twin))
        assert true > 1.01 * stated


@pytest.mark.parametrize("weight", [0, 1, 7, PARTS])
def test_parts_are_whole_and_add_up(weight):
    """Every distribution of up to five records: no negative part, and the sum is the weight."""
    for n in range(1, 6):
        ways = spread(n, 3)
        rows = [(g, b, c) for g, way in enumerate(ways) for b, c in enumerate(way) if c]
        group, place, count = np.array(rows).T
        group, place, parts = apportion(group, place, count, np.full(len(ways), weight))
        assert (parts >= 0).all()
        assert (np.bincount(group, parts) == weight).all()
        exact = {(g, b): weight * c / n for g, b, c in rows}
        found = zip(group.tolist(), place.tolist(), parts.tolist(), strict=True)
        assert all(abs(p - exact[g, b]) < 1 for g, b, p in found)


@pytest.mark.parametrize("law", [Laplace(), Gaussian()])
def test_weights_of_a_unit_never_exceed_the_whole(law):
    """Any prices and floors: weights add up to at most 2^20, or their squares to at most 2^40."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        prices, floor = rng.integers(1, PARTS, 2), int(rng.integers(0, 10 * PARTS))
        priced = PricedWeights.of(OCCUPANCY, prices, floor, law)
        weights = PricedColumn(prices, priced.divisor).of(OCCUPANCY)
        total = np.zeros(2, dtype=object)
        for user, weight in zip(OCCUPANCY.user.tolist(), weights.tolist(), strict=True):
            assert weight >= 0
            total[user] += weight**law.power
        assert max(total) <= PARTS**law.power


def combined(delta=PURE):
    """Return a shape, and bins beside it, under one booking."""
    components = [Component("shape", shape("0.5", delta)), Component("more", binned(delta))]
    return CombinedStages.of(components, 2)


@pytest.mark.parametrize("delta", [PURE, DELTA])
def test_meter_and_booking_agree(delta):
    """Losses added up from the scales of the noise are those that were booked, and no less."""
    plan, sums = combined(delta), world()[5]
    for source in (SimulatedNoise(np.random.default_rng(0), 1), VettedNoise()):
        meter = Meter(plan.losses(), squared=bool(delta))
        outputs = execute(plan, sums, source, MemoryJournal(), meter)
    assert sorted(outputs) == ["more: cell bins", "more: wide bins", "shape: wide bins"]
    assert worst_loss(plan, world()) <= plan.losses()[0]
    less = Meter(plan.losses() * (1 - 1e-6), squared=bool(delta))
    with pytest.raises(HexveilError, match="would cost a unit more"):
        execute(plan, sums, SimulatedNoise(np.random.default_rng(0), 1), MemoryJournal(), less)


def test_scores_are_sums_within_their_bounds():
    """A pair's sum of scores is that of its records; their number times the grain at most."""
    sums = data_set([2, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 1], [0, 0, 0, 1])
    scores = GRAIN * np.array([0, 1, 1, 1])
    totals = ScoredSums(sums, scores).map_cells(OCCUPANCY, lambda _, scored: scored.total)
    assert totals.tolist() == [[0, GRAIN, 2 * GRAIN, GRAIN]]
    assert repr(sums) == "BinnedSums(private)"


def test_so_many_records_are_refused():
    """Counts whose products could leave 64 bits are refused from public counts."""
    check_room(np.array([2**42 - 1]))
    with pytest.raises(InputError, match="do not fit whole numbers"):
        check_room(np.array([2**42]))


# ---- Gaussian noise ----


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
