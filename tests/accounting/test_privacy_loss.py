"""The loss of a release against brute force over all neighbouring data sets."""

import itertools
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attack.exact_cases import dataset_of
from examples import examples
from hexveil import InputError, Occupancy, plan, theory
from hexveil.mechanisms import Baseline
from strategies import occupancies

SCALES = st.sampled_from([0.1, 0.3, 1.0, 2.5, 7.0])
BEYOND = (-100.0, 100.0)  # outcomes below and above every statistic


@st.composite
def tiny(draw, records=5, users=3, cells=2):
    """Draw an occupancy of few records; every cell and user of it has one."""
    places = st.tuples(st.integers(0, users - 1), st.integers(0, cells - 1))
    dense = np.zeros((users, cells), dtype=int)
    for place in draw(st.lists(places, min_size=1, max_size=records)):
        dense[place] += 1
    dense = dense[dense.sum(axis=1) > 0]
    return Occupancy.from_dense(dense[:, dense.sum(axis=0) > 0])


@st.composite
def with_scales(draw, shapes):
    """Draw an occupancy and a scale per cell for the mean and for the variance."""
    occupancy = draw(shapes)
    lists = st.lists(SCALES, min_size=occupancy.n_cells, max_size=occupancy.n_cells)
    return occupancy, draw(lists), draw(lists)


def statistics_of(values, cell, n_cells):
    """Return every cell's mean, then every cell's variance."""
    groups = [values[cell == g] for g in range(n_cells)]
    return np.array([g.mean() for g in groups] + [g.var() for g in groups])


def log_ratio(one, other, scale):
    """Return the largest log-ratio of the densities of two noisy outcomes, over all outcomes.

    Of independent Laplace noises, so the largest is found coordinate by coordinate; the ratio is
    constant beyond both statistics and monotone between them.
    """
    outcomes = np.array(BEYOND)[:, None]
    ratio = (np.abs(outcomes - other) - np.abs(outcomes - one)) / scale
    return ratio.max(axis=0).sum()


def brute_force(occupancy, mean_scale, variance_scale, span, grid):
    """Return each user's largest log-ratio over all pairs of neighbours with values on a grid."""
    scale = np.concatenate(
        [
            np.full(occupancy.n_cells, np.inf) if b is None else b
            for b in (mean_scale, variance_scale)
        ]
    )
    user, cell = (np.repeat(a, occupancy.n) for a in (occupancy.user, occupancy.cell))
    loss = np.zeros(occupancy.n_users)
    choices = span * np.array(grid)
    data = [np.array(v) for v in itertools.product(choices, repeat=user.size)]
    for who in range(occupancy.n_users):
        alike = defaultdict(set)  # data sets that differ in this user's values alone
        for values in data:
            others = tuple(values[user != who])
            alike[others].add(tuple(statistics_of(values, cell, occupancy.n_cells)))
        for found in alike.values():
            for one, other in itertools.combinations(map(np.array, found), 2):
                loss[who] = max(loss[who], log_ratio(one, other, scale))
    return loss


def holds_more_than_half(occupancy):
    """Return which users hold more than ⌈N/2⌉ of some cell."""
    total = occupancy.records_per_cell[occupancy.cell]
    big = np.zeros(occupancy.n_users, dtype=bool)
    big[occupancy.user[occupancy.n > (total + 1) // 2]] = True
    return big


@given(with_scales(tiny()))
def test_mean_alone_is_exact(drawn):
    """The loss of published means is exactly the largest log-ratio over all neighbours."""
    occupancy, mean_scale, _ = drawn
    loss = theory.privacy_loss(occupancy, mean_scale, None, 3.0)
    assert loss == pytest.approx(brute_force(occupancy, mean_scale, None, 3.0, (0, 1)), rel=1e-9)


@given(with_scales(tiny()))
def test_variance_alone_is_exact(drawn):
    """The loss of published variances is exactly the largest log-ratio over all neighbours."""
    occupancy, _, variance_scale = drawn
    loss = theory.privacy_loss(occupancy, None, variance_scale, 3.0)
    found = brute_force(occupancy, None, variance_scale, 3.0, (0, 1))
    assert loss == pytest.approx(found, rel=1e-9)


@given(with_scales(tiny()))
def test_mean_and_variance_are_exact_up_to_half_of_a_cell(drawn):
    """With both statistics it is exact for users of at most ⌈N/2⌉, never too small for others."""
    occupancy, mean_scale, variance_scale = drawn
    loss = theory.privacy_loss(occupancy, mean_scale, variance_scale, 3.0)
    found = brute_force(occupancy, mean_scale, variance_scale, 3.0, (0, 1))
    small = ~holds_more_than_half(occupancy)
    assert loss[small] == pytest.approx(found[small], rel=1e-9)
    assert (loss >= found).all()


LARGE = [(m, n) for n in range(1, 9) for m in range(n // 2 + 1, n + 1) if m > (n + 1) // 2]


@pytest.mark.parametrize(("own", "total"), LARGE)
@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0, 2.0, 20.0])
def test_user_of_more_than_half(own, total, ratio):
    """For a share above one half no values lose more, and the plain sum is never less.

    `ratio` is b_var / (U b_mean). The values of the user are multiples of a quarter.
    """
    occupancy = Occupancy.from_dense([[own]] + [[1]] * (total - own))
    loss = theory.privacy_loss(occupancy, [1.0], [ratio], 1.0)[0]
    most = 0.0
    for others in itertools.combinations_with_replacement((0, 0.5, 1), total - own):
        mine = list(itertools.combinations_with_replacement((0, 0.25, 0.5, 0.75, 1), own))
        cells = np.array([others + m for m in mine])
        mean, var = cells.mean(axis=1), cells.var(axis=1)
        moves = np.abs(mean[:, None] - mean) + np.abs(var[:, None] - var) / ratio
        most = max(most, moves.max())
    plain = (
        own / total + theory.user_variance_sensitivity([own, *[1] * (total - own)], 1.0)[0] / ratio
    )
    assert most * (1 - 1e-12) <= loss <= plain * (1 + 1e-9)


def exact_mean_loss(occupancy, scale, span):
    """Return each user's loss of the means as exact fractions of the given doubles."""
    total = occupancy.records_per_cell
    loss = [Fraction(0)] * occupancy.n_users
    for cell, user, n in zip(occupancy.cell, occupancy.user, occupancy.n, strict=True):
        share = Fraction(int(n), int(total[cell]))
        loss[user] += Fraction(span) * share / Fraction(float(scale[cell]))
    return loss


@given(occupancies(users=8, cells=8, most=50), st.floats(0.01, 1e3), st.integers(0, 2**32))
def test_loss_is_rounded_up(occupancy, span, seed):
    """The loss is never below the exact fraction, and within 1e-9 of it."""
    scale = np.random.default_rng(seed).lognormal(0, 3, occupancy.n_cells)
    loss = theory.privacy_loss(occupancy, scale, None, span)
    for ours, exact in zip(loss, exact_mean_loss(occupancy, scale, span), strict=True):
        assert exact <= Fraction(float(ours)) <= exact * (1 + Fraction(1, 10**9))


@given(occupancies(), st.floats(0.05, 5))
def test_counting_cells_is_never_less(occupancy, epsilon):
    """Charging ε for every cell of a user, as COMP Theorem II.3, is never below (ERRATA 3)."""
    worst = np.maximum.reduceat(occupancy.n, occupancy.start[:-1]) / occupancy.records_per_cell
    loss = theory.privacy_loss(occupancy, 90.0 * worst / epsilon, None, 90.0)
    assert (loss <= epsilon * occupancy.cells_per_user * (1 + 1e-9)).all()


def test_counting_cells_is_loose():
    """Users who lead in different cells lose far less than ε times their cells (ERRATA 3)."""
    counts = 9 * np.eye(4, dtype=int) + 1
    occupancy = Occupancy.from_dense(counts)
    loss = theory.privacy_loss(occupancy, np.full(4, 10 / 13), None, 1.0)  # ε = 1 a cell
    assert loss == pytest.approx(np.full(4, 1.3))
    assert (occupancy.cells_per_user == 4).all()


@examples(10)
@given(occupancies(users=5, cells=3), st.sampled_from([("mean",), ("variance",), ("mean", "sd")]))
def test_the_accountant_agrees_with_this_loss(occupancy, statistics):
    """A plan of records books whole moves: at most a hair more, and equal to one in 10,000."""
    counts = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=int)
    counts[occupancy.user, occupancy.cell] = occupancy.n
    dataset = dataset_of(counts, 8)
    made = plan(dataset, epsilon=4, method="per-cell", mechanism=Baseline(), advise=False,
                statistics=statistics)  # fmt: skip
    scales = {name: np.where(one.noised, one.scale, np.inf)
              for name, one in made.error_models.items()}  # fmt: skip
    loss = theory.privacy_loss(occupancy, scales.get("mean"), scales.get("variance"), 4.0)
    small = ~holds_more_than_half(occupancy) | (len(scales) == 1)
    assert (made.losses() >= loss * (1 - 1e-9)).all()
    assert made.losses()[small] == pytest.approx(loss[small], rel=1e-4)


TWO_CELLS = Occupancy.from_dense([[2, 1], [1, 0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 0.0], None), "mean_scale must be positive everywhere"),
        (([1.0, -1.0], None), "mean_scale must be positive everywhere"),
        ((None, [1.0, np.nan]), "variance_scale must be positive everywhere"),
        (([1.0], None), r"mean_scale needs one scale per cell \(2\)"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    """Wrong lengths and scales that are not positive are refused."""
    with pytest.raises(InputError, match=message):
        theory.privacy_loss(TWO_CELLS, *arguments, 1.0)
