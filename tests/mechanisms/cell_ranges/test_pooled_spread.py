"""Pooled quantiles and the spread within cells: votes, sensitivity, points, and what they show."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell_range_laws import allocation_of
from examples import examples
from hexveil import Occupancy
from hexveil.base.errors import InputError
from hexveil.mechanisms.cell_ranges.pooled_spread import (
    PooledSpread,
    check_quantiles,
    distance_votes,
    normal_quantile,
    partners,
    pooled_quantiles,
    spread_points,
    weighted_votes,
    within_cell_deviation,
    within_cell_spread,
)
from hexveil.mechanisms.contract import Outputs, PrivateSums
from hexveil.mechanisms.map_quantiles import GRAIN
from stage_laws import candidate_scores

THREE = Fraction(1, 5), Fraction(1, 2), Fraction(4, 5)
TWO = Fraction(1, 5), Fraction(4, 5)
STEPS = 40


@st.composite
def maps(draw):
    """Return an occupancy, whole weights, and two sets of sums that differ in one user's alone."""
    n_users, n_cells = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    counts = draw(
        st.lists(
            st.lists(st.integers(0, 3), min_size=n_cells, max_size=n_cells),
            min_size=n_users,
            max_size=n_users,
        )
    )
    table = np.array(counts)
    table[0] = np.maximum(table[0], table.sum(axis=0) == 0)  # each cell has a user
    table[:, 0] = np.maximum(table[:, 0], table.sum(axis=1) == 0)  # and each user a cell
    occupancy = Occupancy.from_dense(table)
    weight = np.array(draw(st.lists(st.integers(1, 9), min_size=occupancy.n_pairs, max_size=99)))
    seed = draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    one = rng.integers(0, STEPS * occupancy.n + 1)
    changed = occupancy.user == rng.integers(n_users)
    # Values at the ends move numbers furthest.
    ends = STEPS * occupancy.n * rng.integers(0, 2, occupancy.n_pairs)
    other = np.where(changed, ends, one)
    return occupancy, weight[: occupancy.n_pairs], one, other


@examples(100)
@given(maps())
def test_no_user_has_more_than_its_votes(drawn):
    """Votes are whole, above 0, and at most the grain for all pairs of a user."""
    occupancy, weight, _, _ = drawn
    votes = weighted_votes(occupancy, weight)
    by_user = np.bincount(occupancy.user, votes)
    assert votes.dtype == np.int64
    assert (votes > 0).all()
    assert (by_user <= GRAIN).all()
    assert by_user.max() >= GRAIN - 2 * occupancy.n_cells - 1


@examples(100)
@given(maps())
def test_partners_are_a_permutation_of_each_cell(drawn):
    """Each pair has a partner in its cell, another one if there is one, and is one's partner."""
    occupancy = drawn[0]
    partner, alone = partners(occupancy), occupancy.users_per_cell[occupancy.cell] == 1
    assert (occupancy.cell[partner] == occupancy.cell).all()
    assert sorted(partner.tolist()) == list(range(occupancy.n_pairs))
    assert ((partner == np.arange(occupancy.n_pairs)) == alone).all()
    mutual = partner[partner] == np.arange(occupancy.n_pairs)
    assert (occupancy.users_per_cell[occupancy.cell[mutual]] <= 2).all()


def within_cell_votes(occupancy, weight, spread):
    """Return the votes that each user moves in the choice of the spread."""
    stage = within_cell_spread(occupancy, weight, spread, Fraction(1))
    return np.zeros(1) if stage is None else stage.user_votes


@examples(200)
@given(maps(), st.sampled_from([TWO, THREE]))
def test_no_neighbour_moves_a_cost_by_more_than_its_votes(drawn, quantiles):
    """Costs of pooled quantiles and of the spread move by at most what the stages report."""
    occupancy, weight, one, other = drawn
    both = PrivateSums(np.stack([one, other]))
    spread = PooledSpread.of((10, 20, 30), THREE, STEPS)
    assert (within_cell_votes(occupancy, weight, spread) <= GRAIN).all()
    stages = [
        pooled_quantiles(occupancy, weight, STEPS, quantiles, Fraction(1)),
        within_cell_spread(occupancy, weight, spread, Fraction(1)),
    ]
    moved_user = np.unique(occupancy.user[one != other])
    for stage in filter(None, stages):
        for measured, report in zip(
            stage.measure(both, Outputs()), stage.sensitivity(Outputs()), strict=True
        ):
            scores = candidate_scores(measured)
            moved = np.abs(scores[0] - scores[1]).max()
            assert moved <= report.by[moved_user].sum()
        noise = stage.noise(Outputs())
        spent = sum(
            report.loss_lower_bound(request, occupancy.n_users)
            for request, report in zip(noise, stage.sensitivity(Outputs()), strict=True)
        )
        assert spent.max() <= 1
        assert spent.max() >= 0.99


def test_pairs_that_are_alone_do_not_vote():
    """A map of single users has no distances to compare."""
    occupancy = Occupancy.from_dense([[1, 0], [0, 2]])
    spread = PooledSpread.of((10, 30), TWO, STEPS)
    assert within_cell_spread(occupancy, np.array([1, 1]), spread, Fraction(1)) is None


def test_distances_are_those_of_user_means():
    """In a cell of three users each mean is compared with the next; of two, with the other."""
    occupancy = Occupancy.from_dense([[2, 1], [1, 3], [1, 0]])
    spread = PooledSpread.of((0, 40), TWO, STEPS)
    stage = within_cell_spread(occupancy, np.ones(5, dtype=int), spread, Fraction(1))
    sums = PrivateSums(np.array([2 * 10 + 1, 13, 30, 7, 3 * 9]))  # means 10, 13, 30 and 7, 9
    ((_, distances),) = stage.reading.blocks(sums)
    assert distances.tolist() == [[3, 17, 20, 2, 2]]


def test_a_distance_has_half_the_votes_of_the_user_with_fewer():
    """Both users of a cell of two have them twice: once for each of them."""
    occupancy = Occupancy.from_dense([[1, 1], [1, 0]])
    weight = np.array([1, 1, 1])
    votes = weighted_votes(occupancy, weight)
    # Shares of the weight: 1/2 and 1/2 in one cell, 1 in the other; the largest sum is 3/2.
    quarter, third = GRAIN // 4, GRAIN // 12
    first = quarter + quarter // 2
    assert votes.tolist() == [first + third, 3 * quarter + third, first + 2 * third]
    assert distance_votes(occupancy, weight).tolist() == [min(votes[:2]) // 2] * 2 + [0]


@pytest.mark.parametrize(
    ("points", "quantiles", "expected"),
    [
        ((20, 40), TWO, (30, 10, 10)),
        ((40, 20), TWO, (30, 10, 10)),
        ((20, 35, 40), THREE, (35, 15, 5)),
        ((35, 20, 40), THREE, (35, 15, 5)),
        ((20, 20, 40), THREE, (20, 0.5, 20)),
        ((20, 20), TWO, (20, 0.5, 0.5)),
    ],
)
def test_the_spread_of_released_points(points, quantiles, expected):
    """Points give a centre and deviations in whatever order they came; ties half a step."""
    spread = PooledSpread.of(points, quantiles, STEPS)
    z = float(normal_quantile(Fraction(4, 5)))
    centre, below, above = (
        float(spread.centre), float(spread.below) * z, float(spread.above) * z,
    )  # fmt: skip
    assert (centre, below, above) == pytest.approx(expected)


def test_the_first_range_reaches_further_where_the_law_is_skewed():
    """As far as asked, 2.2 deviations at least where one is more than twice the other."""
    even, skewed = PooledSpread(50, 10, 20), PooledSpread(50, 10, Fraction(201, 10))
    reach = Fraction(8, 5)
    assert even.first_range(100, reach) == (34, 82)
    assert skewed.first_range(100, reach) == (28, 95)
    assert skewed.first_range(100, Fraction(5, 2)) == (25, 100)
    assert PooledSpread(1, 10, 20).first_range(20, reach) == (0, 20)
    narrow = PooledSpread(Fraction(0), Fraction(1, 100), Fraction(1, 100))
    assert narrow.first_range(100, reach) == (0, 1)


@pytest.mark.parametrize(
    "quantiles", [(), (Fraction(1, 2),), (Fraction(1, 5), Fraction(2, 5)), (0, 1), THREE + THREE]
)
def test_quantiles_without_a_spread_are_refused(quantiles):
    """There must be one on either side of the median."""
    with pytest.raises(InputError, match="a lower and an upper one"):
        check_quantiles(tuple(map(Fraction, quantiles)))
    check_quantiles(TWO)
    check_quantiles(THREE)


def test_points_of_the_spread_are_geometric():
    """They go up to 2.5 deviations, in equal ratios, as far down as quanta allow."""
    points = spread_points(PooledSpread(0, 1000, 4000)).quanta
    assert points[-1] == 10_000
    assert points.size == 33
    assert np.diff(np.log(points)) == pytest.approx(6 / 32 * math.log(2), abs=0.01)
    assert spread_points(PooledSpread(0, Fraction(1, 2), Fraction(1, 2))).quanta.tolist() == [1, 2]


def test_the_spread_within_cells_is_measured_where_cells_differ():
    """Of 150 cells that lie far apart the deviation within cells comes out to within a fifth."""
    rng = np.random.default_rng(5)
    present = rng.random((600, 150)) < 0.02
    present[np.arange(600), np.arange(600) % 150] = True
    occupancy = Occupancy.from_dense(3 * present)
    steps, inside = 100_000, 2_000.0
    centre = rng.uniform(20_000, 80_000, 150)[occupancy.cell]
    means = np.clip(rng.normal(centre, inside), 0, steps)
    sums = PrivateSums((means * occupancy.n).astype(np.int64))
    pooled = PooledSpread.of((30_000, 70_000), TWO, steps)
    stage = within_cell_spread(occupancy, np.ones(occupancy.n_pairs, int), pooled, Fraction(1))
    (scores,) = stage.measure(sums, Outputs())
    best = spread_points(pooled).points(np.array([scores.scores[0].argmax()]))
    assert within_cell_deviation(int(best[0])) == pytest.approx(inside, rel=0.2)


def test_a_map_of_single_users_skips_the_spread():
    """The stage after the quantiles is then the first look, and the spread is not known."""
    occupancy = Occupancy.from_dense([[1, 0], [0, 2]])
    allocation = allocation_of(occupancy, [1, 1], (1.0, 1.0), STEPS)
    outputs = Outputs({"interval": np.array([[10, 30]])})
    assert allocation.next_stage(outputs).name == "first look"
    assert allocation.user_mean_spread(outputs).within is None
