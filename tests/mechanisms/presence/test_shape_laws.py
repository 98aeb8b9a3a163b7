"""Exact laws of maps of distributions with private presence: any unit loses at most ε.

Broken twins of the mechanism lose more, or move numbers by more than is stated, and are found.
"""
# ruff: noqa: ARG005  a fault may have no use for the sound code

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hexveil.base.errors import HexveilError
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.distribution import binned_stage
from hexveil.mechanisms.presence import contribution, shape_allocation
from hexveil.mechanisms.presence.contribution import DeclaredCap
from hexveil.mechanisms.presence.count_map import CountAllocation, CountedAllocation
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation, ShapeForm
from hexveil.model.private_pairs import PrivatePairs
from presence_laws import NEW_UNIT, ExactPresenceLoss

EPSILON, N_FINE, EDGES = Fraction(2), 3, (1, 3, 4)
SHARES = {"shape_share": Fraction("0.3"), "coarse_share": Fraction("0.2")}
FORMS = {
    "one shot": ShapeForm(Fraction("0.3"), Fraction(0), n_wide=2, n_narrow=0, n_quantiles=2),
    "refined": ShapeForm(Fraction("0.3"), Fraction(0), n_wide=2, n_narrow=2, n_quantiles=2),
    "prices": ShapeForm(**SHARES, n_wide=2, n_narrow=0, n_quantiles=2, cap=DeclaredCap(2)),
}
TWO_UNITS = ((0, 0, 0, 1), (1, 0, 2, 1), (1, 0, 1, 1), (0, 1, 1, 3))
"""Rows (cell, unit, fine bin, records)."""


class BinnedWorld:
    """Units that are always there, and the sets of records that one more unit may have."""

    def __init__(self, base, max_n=2, step=1):
        counts = [c for c in itertools.product(range(max_n + 1), repeat=N_FINE) if sum(c) <= max_n]
        every = list(itertools.product(counts, repeat=2))
        self.base, self.options = base, [every[0], *every[1::step]]

    def data_sets(self):
        """Return the private pairs of each data set, the one without the new unit first."""
        return [self._pairs(option) for option in self.options]

    def _pairs(self, option):
        new = [
            (cell, NEW_UNIT, j, n)
            for cell, own in enumerate(option)
            for j, n in enumerate(own)
            if n
        ]
        cell, unit, place, n = np.array([*self.base, *new], dtype=np.int64).reshape(-1, 4).T
        return PrivatePairs(cell, unit, n, n * place, by_bin=(cell, unit, place, n))


def exact_loss(form, base=TWO_UNITS, step=1, max_n=2):
    """Return the exact loss of a plan that looks at no records."""
    plan = ShapeAllocation(2, EDGES, (1,), EPSILON, FORMS[form])
    return ExactPresenceLoss(BinnedWorld(base, max_n, step), lambda _: plan)


def counted_loss(cell_cap=1):
    """Return the exact loss of a distribution beside numbers of units, at a third of ε."""
    counts = CountAllocation(2, cell_cap, EPSILON / 3, None)
    plan = CountedAllocation(
        counts, ShapeAllocation(2, EDGES, (1,), 2 * EPSILON / 3, FORMS["one shot"])
    )
    return ExactPresenceLoss(BinnedWorld(TWO_UNITS, 2, 5), lambda _: plan)


def test_numbers_of_units_beside_a_distribution_lose_the_sum():
    """Both parts together stay below ε, and a unit in one cell and one bin attains it."""
    found = counted_loss()
    assert found.worst <= float(EPSILON) * (1 + 1e-9)
    assert found.worst >= 0.9 * float(EPSILON)


def test_numbers_of_units_that_are_not_booked_are_found(monkeypatch):
    """A booking of the map alone is refused by the meter."""
    monkeypatch.setattr(CountedAllocation, "losses", lambda own: own.statistics.losses())
    with pytest.raises(HexveilError, match="more than was booked"):
        counted_loss()


@pytest.mark.parametrize("base", [(), TWO_UNITS])
@pytest.mark.parametrize("form", FORMS)
def test_no_unit_loses_more_than_epsilon(form, base):
    """With every set of up to two records in each cell, all paths of all outcomes stay below ε."""
    found = exact_loss(form, base, step=1 if form == "one shot" else 5)
    assert found.paths >= 8
    assert found.worst <= float(EPSILON) * (1 + 1e-9)
    # The last stage is charged for what a unit alone can do.
    assert 0.9 <= found.last_map <= 1 + 1e-9
    assert found.worst >= 0.6 * float(EPSILON)


def rounded_apart(group, place, count, weight):
    """Return parts of which each is rounded up by itself: a twin of `apportion`."""
    n = np.bincount(group, count)[group]
    return group, place, -(-weight[group] * count // n)


def by_bin(group, place, count, weight):
    """Return a budget for each bin: a twin in which every bin of a unit has its whole weight."""
    return group, place, weight[group]


def in_every_cell(pairs, prices, cap, norm):
    """Return full weights in each cell."""
    return np.full(pairs.cell.size, shape_allocation.PARTS)


def by_others(pairs, prices, cap, norm):
    """Return weights by prices that fall with the true number of units in a cell."""
    true = np.bincount(pairs.cell, minlength=prices.size)
    return contribution.unit_weights(pairs, prices * 840 // np.maximum(true, 1), cap)


FAULTS = {
    "bins rounded apart": (shape_allocation, "apportion", lambda old: rounded_apart),
    "a budget for each bin": (shape_allocation, "apportion", lambda old: by_bin),
    "a full weight in each cell": (shape_allocation, "unit_weights", lambda old: in_every_cell),
    "weights by the true number of units": (
        shape_allocation, "unit_weights", lambda old: by_others,
    ),
    "noise of half the scale": (
        NoisyTotals, "noise",
        lambda old: lambda s, e: tuple(type(r)(r.scales / 2) for r in old(s, e)),
    ),
    "the shape for nothing": (
        ShapeAllocation, "losses", lambda old: lambda s: old(s) * 0.7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, monkeypatch):
    """A stage with the fault moves numbers by more than is stated, or loses more than is booked."""
    target, attribute, change = FAULTS[fault]
    monkeypatch.setattr(target, attribute, change(getattr(target, attribute)))
    with pytest.raises((AssertionError, HexveilError)):
        assert exact_loss("one shot", step=7, max_n=3).worst <= float(EPSILON) * (1 + 1e-9)


def test_places_from_records_are_found():
    """Bins placed by records change with a unit, and then more moves than is stated."""
    world = BinnedWorld(TWO_UNITS, step=3)

    def peeking(pairs):
        edges = EDGES if pairs.begin.size < 3 else (1, 2, 4)
        return ShapeAllocation(2, edges, (1,), EPSILON, FORMS["one shot"])

    with pytest.raises(AssertionError):
        assert ExactPresenceLoss(world, peeking).worst <= float(EPSILON) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_units_parts_add_up_to_its_weight(seed):
    """Random units with huge counts and any prices: no part is negative, the sum is the weight."""
    rng = np.random.default_rng(seed)
    size = 2000
    cell, unit, place = (rng.integers(0, top, size) for top in (5, 300, 70))
    n = rng.integers(1, 2**62, size) >> rng.integers(0, 62, size)
    pairs = PrivatePairs(cell, unit, n, np.zeros(size), by_bin=(cell, unit, place, n))
    prices = rng.integers(0, 2**20, 5)
    weights = shape_allocation.unit_weights(pairs, prices, int(rng.integers(0, 2**30)))
    rows = pairs.bins
    group, _, parts = binned_stage.apportion(rows.pair, rows.bin, rows.count, weights)
    assert (parts >= 0).all()
    assert np.array_equal(np.bincount(group, parts, weights.size), weights)
    assert pairs.per_unit(weights).max() <= shape_allocation.PARTS
