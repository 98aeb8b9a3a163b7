"""The half width of distances from users' own means: exact counts, a sensitivity never exceeded."""

import itertools
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from examples import examples
from hexveil.mechanisms import map_quantiles, noise
from hexveil.mechanisms.map_quantiles import GRAIN
from hexveil.mechanisms.permute_and_flip import law
from hexveil.mechanisms.released_ranges import RESIDUAL_QUANTILE
from hexveil.model.public_metadata import ValueLattice
from publishing.drawing import stage_draw
from publishing.measuring import costs, residual_choice
from publishing.setting import dataset_of
from publishing.small_fleets import counts_and_totals, fleet

COUNTS = np.array([[1, 2, 1], [2, 0, 1], [1, 1, 0], [0, 0, 2]])


def measure(dataset, width=3, epsilon=Fraction(1)):
    """Return what is chosen from."""
    return residual_choice(dataset.occupancy, width, RESIDUAL_QUANTILE, epsilon)


def cost_of(dataset, choice):
    """Return the costs of the points."""
    (cost,) = costs(dataset, choice)
    return cost


def pairs_of(dataset):
    """Return (user, records, sum) of each pair, as plain numbers."""
    occupancy = dataset.occupancy
    columns = occupancy.user, occupancy.n, dataset.sums.total
    return list(zip(*(one.tolist() for one in columns), strict=True))


def by_hand(dataset, asked):
    """Return the cost of each point, from fractions alone."""
    rows = pairs_of(dataset)
    users = {user for user, *_ in rows}
    cells = {one: sum(user == one for user, *_ in rows) for one in users}
    own = {
        one: sum(total for user, _, total in rows if user == one)
        // sum(n for user, n, _ in rows if user == one)
        for one in users
    }
    votes = [
        (abs(Fraction(total, n).__floor__() - own[user]), GRAIN // cells[user])
        for user, n, total in rows
        if cells[user] > 1
    ]
    target = round(sum(vote for _, vote in votes) * RESIDUAL_QUANTILE)
    return [
        abs(sum(vote for away, vote in votes if away <= point) - target)
        for point in asked.candidates.quanta.tolist()
    ]


@examples(60)
@given(counts_and_totals(), st.integers(1, 12))
def test_costs_are_counted_exactly(drawn, width):
    """Each point's cost is that of fractions; users in one cell do not count."""
    dataset = fleet(*drawn)
    asked = measure(dataset, width)
    assert np.array_equal(cost_of(dataset, asked), by_hand(dataset, asked))


@pytest.mark.parametrize("user", range(4))
def test_no_neighbour_moves_a_cost_by_more_than_the_grain(user):
    """Over all values of one user in all its cells, every cost moves by GRAIN at most.

    A user in two cells or more does move them; one in a single cell moves none.
    """
    base = fleet(COUNTS, 0, steps=3)
    asked = measure(base)
    rows = np.flatnonzero(base.occupancy.user == user)
    totals, found = base.sums.total.copy(), []
    for own in itertools.product(*(range(3 * n + 1) for n in base.occupancy.n[rows].tolist())):
        totals[rows] = own
        found.append(cost_of(fleet(COUNTS, totals, steps=3), asked))
    most = (np.max(found, axis=0) - np.min(found, axis=0)).max()
    assert most <= GRAIN
    assert (most == 0) if rows.size < 2 else (most > GRAIN // 4)


def test_the_grain_is_reached():
    """Where all others are far from their means, one that was near them moves costs by GRAIN."""
    counts = np.ones((4, 2), dtype=int)
    far = np.array([0, 0, 0, 0, 9, 9, 9, 9])
    near = np.array([0, 0, 0, 0, 0, 9, 9, 9])
    asked = measure(fleet(counts, far, steps=9))
    one, other = (cost_of(fleet(counts, two, steps=9), asked) for two in (near, far))
    assert (other - one).tolist() == [GRAIN] * asked.candidates.quanta.size


@pytest.mark.parametrize("width", [1, 2, 3, 100, 128, 5000])
def test_every_point_is_a_half_width_that_a_release_can_store(width):
    """Points rise from 1 or more to the width: none is 0, at which nothing could be published."""
    points = measure(fleet(COUNTS, 0), width).candidates.quanta
    assert points[0] >= 1
    assert points[-1] == width
    assert (np.diff(points) > 0).all()
    assert points.size <= map_quantiles.RESIDUAL_POINTS


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2), Fraction(7, 100)])
def test_the_choice_costs_no_more_than_is_charged(monkeypatch, epsilon):
    """One choice of scale R loses 2 GRAIN / R at most; R is rounded up and no further."""
    dataset = fleet(COUNTS, 5)
    asked = measure(dataset, epsilon=epsilon)
    seen = []
    monkeypatch.setattr(noise, "noisy_max", lambda scores, scale: seen.append((scores, scale)) or 0)
    assert asked.candidates.points(stage_draw(dataset, asked))[0] == asked.candidates.quanta[0]
    ((scores, scale),) = seen
    assert (-scores).tolist() == cost_of(dataset, asked).tolist()
    charged = 2 * GRAIN / Fraction(scale)
    assert epsilon * (1 - Fraction(1, 2**50)) <= charged <= epsilon


def test_many_users_find_their_distances():
    """With thousands of users h holds four fifths of the distances, to about a point."""
    rng = np.random.default_rng(4)
    own = rng.uniform(2000, 4000, (5000, 1))
    values = np.round(own + rng.normal(0, 300, (5000, 2))).astype(np.int64)
    dataset = dataset_of(
        np.ones(values.shape, dtype=int),
        values.T.ravel(),
        scale=ValueLattice.of((0, 6000), 1),
    )
    choice = measure(dataset, 3000, Fraction(1, 2))
    (found,) = choice.candidates.points(stage_draw(dataset, choice))
    exact = np.quantile(np.abs(values[:, 0] - values[:, 1]) / 2, float(RESIDUAL_QUANTILE))
    assert found == pytest.approx(exact, abs=3000 / 128 + 10)


@pytest.mark.parametrize(("part", "within"), [(1.0, True), (0.5, False)])
def test_the_choice_loses_no_more_than_is_charged_by_its_exact_law(part, within):
    """Odds of all points under neighbours stay within ε; with half the scale they would not.

    One user's distances go from below both points to above both, so that one point's cost rises by
    GRAIN and the other's falls by it.
    """
    counts = np.ones((5, 2), dtype=int)
    here = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 4])
    there = np.array([0, 0, 0, 0, 0, 6, 0, 0, 0, 4])
    asked = measure(fleet(counts, here), width=2, epsilon=Fraction(2))
    costs = [cost_of(fleet(counts, one), asked) for one in (here, there)]
    assert [one.tolist() for one in costs] == [[0, GRAIN], [GRAIN, 0]]
    one, other = (law(cost, np.ones(2, dtype=np.int64), part * asked.scale) for cost in costs)
    largest = np.abs(np.log(one / other)).max()
    assert (1.4 < largest <= 2) == within
