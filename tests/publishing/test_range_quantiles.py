"""The private range: exact counts, a sensitivity never exceeded, the scale that is asked."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from examples import examples
from hexveil.mechanisms import map_quantiles, noise
from hexveil.mechanisms.released_ranges import widened
from hexveil.model.public_metadata import ValueLattice
from publishing.drawing import stage_draw
from publishing.measuring import chosen_ends, costs, range_choice
from publishing.setting import dataset_of
from publishing.small_fleets import counts_and_totals, fleet

QUANTILES = (Fraction(1, 10), Fraction(9, 10))


def points_of(choice):
    """Return the points that can be chosen."""
    return choice.candidates.points(np.arange(choice.candidates.size))


def by_hand(dataset, asked):
    """Return the costs of both ends, point by point, in fractions."""
    occupancy, totals = dataset.occupancy, dataset.sums.total
    rows = list(zip(occupancy.user.tolist(), occupancy.n.tolist(), totals.tolist(), strict=True))
    cells = [sum(user == one for user, *_ in rows) for one in range(occupancy.n_users)]
    found = []
    for target in asked.targets:
        at = []
        for point in points_of(asked).tolist():
            below = sum(
                map_quantiles.GRAIN // cells[user]
                for user, n, total in rows
                if Fraction(total, n) <= point
            )
            at.append(abs(below - target))
        found.append(at)
    return found


@examples(60)
@given(counts_and_totals())
def test_costs_are_counted_exactly(drawn):
    """Each point's cost is that of fractions: no mean falls on the wrong side of a point."""
    dataset = fleet(*drawn)
    asked = range_choice(dataset.public, QUANTILES, Fraction(1))
    assert points_of(asked).tolist() == list(range(13))
    for block in (map_quantiles.BLOCK_PAIRS, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(map_quantiles, "BLOCK_PAIRS", block)
            found = costs(dataset, asked)
        assert [cost.tolist() for cost in found] == by_hand(dataset, asked)


def test_points_far_apart_are_found_in_fine_bounds():
    """With fewer points than quanta costs are exact."""
    rng = np.random.default_rng(6)
    counts, steps = rng.integers(1, 4, (30, 3)), 10**4 + 7
    totals = [int(rng.integers(0, steps * n + 1)) for n in counts.T.ravel()]
    dataset = fleet(counts, totals, steps=steps)
    asked = range_choice(dataset.public, QUANTILES, Fraction(1))
    assert points_of(asked).size == map_quantiles.RANGE_POINTS + 1
    assert [cost.tolist() for cost in costs(dataset, asked)] == by_hand(dataset, asked)


@pytest.mark.parametrize("user", [0, 1])
def test_no_neighbour_moves_a_cost_by_more_than_the_grain(user):
    """Over all values of one user in all its cells, every cost moves by GRAIN at most: met."""
    counts = np.array([[1, 2, 1], [2, 0, 1], [1, 1, 0]])
    base = fleet(counts, 0, steps=3)
    asked = range_choice(base.public, QUANTILES, Fraction(1))
    rows = np.flatnonzero(base.occupancy.user == user)
    most, totals = 0, base.sums.total.copy()
    choices = [range(3 * int(n) + 1) for n in base.occupancy.n[rows]]
    found = []
    for own in itertools.product(*choices):
        totals[rows] = own
        found.append(np.stack(costs(fleet(counts, totals, steps=3), asked)))
    for one, other in itertools.combinations(found, 2):
        most = max(most, int(np.abs(one - other).max()))
    own = map_quantiles.GRAIN // len(rows) * len(rows)
    assert most == own <= map_quantiles.GRAIN


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2), Fraction(7, 100)])
def test_both_choices_together_cost_no_more_than_is_charged(monkeypatch, epsilon):
    """Two choices of scale R lose 2 (2 GRAIN / R) at most; R is rounded up and no further."""
    dataset = fleet(np.ones((9, 2), dtype=int), 5)
    asked = range_choice(dataset.public, QUANTILES, epsilon)
    scales = []
    monkeypatch.setattr(noise, "noisy_max", lambda _, scale: scales.append(scale) or 0)
    stage_draw(dataset, asked)
    assert len(scales) == 2
    charged = sum(2 * map_quantiles.GRAIN / Fraction(scale) for scale in scales)
    assert epsilon * (1 - Fraction(1, 2**50)) <= charged <= epsilon


def test_scores_are_costs_turned_round(monkeypatch):
    """The door looks for the largest score, which is the least cost."""
    dataset = fleet(np.ones((9, 2), dtype=int), 5)
    asked = range_choice(dataset.public, QUANTILES, Fraction(1))
    seen = []
    monkeypatch.setattr(noise, "noisy_max", lambda scores, _: seen.append(scores) or 0)
    stage_draw(dataset, asked)
    assert [(-one).tolist() for one in seen] == [c.tolist() for c in costs(dataset, asked)]


def test_many_users_find_their_quantiles():
    """With thousands of users the ends lie near the 10th and 90th of a hundred."""
    rng = np.random.default_rng(2)
    means = np.clip(rng.normal(30, 5, 20_000), 0, 60)
    dataset = dataset_of(np.ones((20_000, 1), dtype=int), np.round(means).astype(int))
    asked = range_choice(dataset.public, QUANTILES, Fraction(1, 2))
    low, high = chosen_ends(asked, stage_draw(dataset, asked))
    scale = float(dataset.public.lattice.quantum)
    assert low * scale == pytest.approx(np.quantile(np.round(means), 0.1), abs=1.5)
    assert high * scale == pytest.approx(np.quantile(np.round(means), 0.9), abs=1.5)


@pytest.mark.parametrize(
    ("chosen", "found"), [([3, 9], (3, 9)), ([5, 5], (0, 12)), ([9, 3], (0, 12))]
)
def test_an_empty_interval_is_all_of_the_bounds(chosen, found):
    """Where the lower end is not below the upper one, nothing is projected."""
    dataset = fleet(np.ones((3, 1), dtype=int), 5)
    asked = range_choice(dataset.public, QUANTILES, Fraction(1))
    assert chosen_ends(asked, chosen) == found


@pytest.mark.parametrize(
    ("stretch", "found"),
    [("1", (4, 8)), ("3/2", (3, 9)), ("2", (2, 10)), ("9/8", (3, 9)), ("100", (0, 12))],
)
def test_an_interval_is_stretched_around_its_middle_within_the_bounds(stretch, found):
    """Outwards, to whole quanta, and never beyond the bounds of the records."""
    dataset = fleet(np.ones((3, 1), dtype=int), 5)
    asked = range_choice(dataset.public, QUANTILES, Fraction(1))
    assert widened(chosen_ends(asked, [4, 8]), 12, Fraction(stretch)) == found


def test_points_are_whole_and_not_too_many():
    """A fine lattice gets evenly spaced points, its ends among them."""
    dataset = dataset_of(np.ones((3, 1), dtype=int), 5, scale=ValueLattice.of((0, 600), "0.001"))
    asked = range_choice(dataset.public, QUANTILES, Fraction(1))
    assert points_of(asked).size == map_quantiles.RANGE_POINTS + 1
    assert (points_of(asked)[0], points_of(asked)[-1]) == (0, 600_000)
    assert np.diff(points_of(asked)).max() - np.diff(points_of(asked)).min() <= 1
    assert sum(asked.targets) == pytest.approx(int(asked.reading.votes.sum()), abs=1)
    assert math.isfinite(asked.scale)
