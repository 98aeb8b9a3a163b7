"""Maps that remember: whatever prices and ranges a forecast gives, a unit loses at most ε."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil import HexveilError, InputError
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.distribution.shape_statistics import ShapeStatistics
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit
from hexveil.mechanisms.presence.contribution import CellWindow
from hexveil.mechanisms.presence.remembered_map import RememberedMap, RememberedShapes
from hexveil.mechanisms.presence.shape_allocation import ShapeForm, estimate_cells
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import FineBins, ValueLattice
from hexveil.model.statistic_terms import Quantile
from mechanisms.presence.presence_laws import BinnedWorld, ExactPresenceLoss, PresenceWorld


def remembered(window, scores=None):
    """Return the stages of a map of two cells with these prices and ranges."""
    known = {"releases": ("",), "window": window, "within": 0.1, "scores": scores}
    return RememberedMap(n_cells=2, span_quanta=2, epsilon=2, form=None, **known)


def of_bins(prices, place):
    """Return the stages of distributions of two cells with these prices and bins."""
    tilts = TiltFit(np.zeros((2, 3)), np.zeros((2, 3, 3)))
    known = {"published": (np.full(4, 0.25), np.arange(4)), "tilts": tilts}
    return RememberedShapes(
        2, (1, 2, 3, 4), (), Fraction(2), ShapeForm(Fraction(0), Fraction(0), n_quantiles=3),
        releases=("",), cell_prices=prices, place=place, **known,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("scores", [None, np.array([2, 0, 1])])
@pytest.mark.parametrize("seed", range(3))
def test_no_unit_loses_more_than_epsilon_wherever_earlier_outputs_lead(seed, scores):
    """Of any prices and ranges that a forecast may give the exact loss is nearly ε, never more.

    Of averages of values, and of scores of bins.
    """
    rng = np.random.default_rng(seed)
    low = rng.integers(0, PARTS // 2, 2)
    window = CellWindow(rng.integers(1, 2**20, 2), low, low + rng.integers(1, PARTS // 2, 2))
    plan = remembered(window, scores)
    if scores is None:
        base = ((0, 0, 1, 1), (1, 0, 2, 4), (0, 1, 3, 2))
        world = PresenceWorld.of(base, 2, 2, max_n=2, step=3)
    else:
        world = BinnedWorld(((0, 0, 1, 1), (1, 0, 2, 2), (0, 1, 0, 3)), 2, 5)
    found = ExactPresenceLoss(world, lambda _: plan)
    assert 0.9 * 2 <= found.worst <= 2 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_unit_loses_more_than_epsilon_by_bins_of_earlier_days(seed):
    """Whatever prices and bins a forecast gives, the exact loss is nearly ε, never more."""
    rng = np.random.default_rng(seed)
    plan = of_bins(rng.integers(1, 2**20, 2), np.sort(rng.integers(0, 3, 4)))
    found = ExactPresenceLoss(BinnedWorld(((0, 0, 1, 1), (1, 0, 2, 2)), 2, 5), lambda _: plan)
    assert 0.9 * 2 <= found.worst <= 2 * (1 + 1e-9)


def test_scores_count_as_values_of_records():
    """The halves of a cell are those of pairs whose values are the scores of their records."""
    scores, rng = np.array([0, 3, 1, 2]), np.random.default_rng(1)
    cell, unit, place, n = (
        rng.integers(0, 2, 40),
        rng.integers(0, 9, 40),
        *rng.integers(1, 4, (2, 40)),
    )
    of_bins = PrivatePairs(cell, unit, n, 0 * n, PairBins(np.arange(40), place, n))
    of_values = PrivatePairs(cell, unit, n, n * scores[place])
    window = CellWindow(np.array([5, 9]), np.array([0, 99]), np.array([PARTS, PARTS // 2]))
    halves = window.halves(of_bins, 3, scores=scores)
    assert (halves == window.halves(of_values, 3)).all()
    with pytest.raises(HexveilError, match="records by bin, which these pairs lack"):
        window.halves(of_values, 3, scores=scores)


@pytest.mark.parametrize(
    ("price", "low", "high"),
    [(-1, 0, 1), (2**20 + 1, 0, 1), (1, -1, 1), (1, 2, 2), (1, 3, 2), (1, 0, PARTS + 1)],
)
def test_parameters_that_break_the_sensitivity_are_refused(price, low, high):
    """A negative price would give weights whose sum is beyond what the noise is for."""
    window = CellWindow(np.array([1, price]), np.array([0, low]), np.array([1, high]))
    with pytest.raises(InputError, match="lead to no map"):
        remembered(window)
    with pytest.raises(InputError, match="lead to no map"):
        of_bins(np.array([1, price]), np.full(4, 3 if price == 1 else 0))


FINE, IN_CELLS = np.arange(1, 61), np.arange(60) // 8


def medians_of(bins, measured):
    """Return estimated medians of 30 cells by eight noisy bins of a flat shape."""
    lattice = ValueLattice(Fraction(0), Fraction(60), Fraction(1))
    statistics = ShapeStatistics(FineBins(FINE), lattice, (Quantile(Fraction(1, 2)),))
    forecast = TiltFit(np.zeros((30, 3)), np.tile(0.01 * np.eye(3), (30, 1, 1)))
    pooled = np.full(60, 1 / 60), measured
    return estimate_cells(statistics, pooled, IN_CELLS, bins, 1.0, (), forecast)


@pytest.mark.parametrize("n_bins", [12, 20])
def test_intervals_reach_to_the_ends_of_wide_bins(n_bins):
    """A shape of twelve bins hides one number of many records; narrow bins would show it."""
    measured = FINE * n_bins // 61
    made = medians_of(np.outer(np.linspace(20, 400, 30), np.bincount(IN_CELLS) / 60), measured)
    is_edge = (np.diff(IN_CELLS) != 0) | (np.diff(measured) != 0)
    ends = np.append(FINE[:-1][is_edge] + 0.5, 60.0)
    reaches = np.isin(made.high, ends) & np.isin(made.low, np.append(0.0, ends))
    assert reaches.all() == (n_bins == 12)
    assert ((made.low < 30) & (made.high > 30)).all()


@pytest.mark.parametrize("weight", [-500.0, -3.0, 0.0, 1e9])
def test_intervals_are_numbers_whatever_noise_leaves(weight):
    """Of a map whose cells are all open one may have negative bins alone."""
    bins = np.where(np.arange(30)[:, None] < 15, weight, np.full((30, 8), 100.0))
    made = medians_of(bins, FINE * 20 // 61)
    assert ((made.low >= 0) & (made.low <= made.estimate)).all()
    assert ((made.estimate <= made.high) & (made.high <= 60)).all()
