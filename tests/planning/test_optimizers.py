"""Searches of plans against brute force: factors, rates, bounds, losses of cells, few scales.

No plan shows these numbers one by one: what a plan reaches with them is in the other files.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples, some
from hexveil.accounting.error_model import mean_bias, variance_bias
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.accounting.sensitivity import variance_sensitivity_bound
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.allocation import allocation_of
from hexveil.planning.optimizers import joint, mean_error
from hexveil.planning.optimizers.calibration import least_rates, rates_within
from hexveil.planning.optimizers.joint import MAX_DISTINCT_SCALES, quantize_noise_scales
from hexveil.planning.optimizers.mean_error_bound import mean_error_lower_bound
from hexveil.planning.optimizers.per_cell import largest_cell_epsilon, max_relative_loss
from hexveil.planning.optimizers.user_factors import ClippingProblem, is_infeasible, minimize_loss
from hexveil_research.papers.comp_setting import comp_setting
from planning.plan_grid import TINY, losses, shares
from strategies import occupancies

SEEDS = st.integers(0, 2**32 - 1)


def planned(occupancy, **options):
    """Return a plan on bounds of width 1, without advice."""
    return hv.plan(occupancy, bounds=(0, 1), advise=False, **options)


# ---- one factor for each user ----


def dense_of(occupancy):
    dense = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=int)
    dense[occupancy.user, occupancy.cell] = occupancy.n
    return dense


def drawn(occupancy, seed):
    """Return random rates, some of them 0, and random factors."""
    draw, cells = np.random.default_rng(seed), occupancy.n_cells
    rates = [draw.exponential(2, cells) * (draw.random(cells) < 0.7) for _ in range(2)]
    return np.stack(rates), draw.random(occupancy.n_users)


@examples(60)
@given(occupancies(), SEEDS)
def test_sums_agree_with_plain_tables(occupancy, seed):
    """What is away, lost and pushed agrees with the same written over a dense table."""
    rates, factor = drawn(occupancy, seed)
    problem, x = ClippingProblem(occupancy), shares(dense_of(occupancy), factor[None])[0]
    assert problem.clipped_share(factor) == pytest.approx(1 - x.sum(axis=0), abs=1e-12)
    lost = (rates[0] * x + rates[1] * variance_sensitivity_bound(x)).sum(axis=1)
    assert problem.losses(rates, factor) == pytest.approx(lost, abs=1e-12)
    everywhere = np.ones((2, occupancy.n_cells))
    mean, variance = problem.marginal_sums(everywhere, factor + 1, factor)
    assert mean == pytest.approx(((factor + 1)[:, None] * x).sum(axis=0), abs=1e-12)
    assert variance == pytest.approx(
        ((factor + 1)[:, None] * variance_sensitivity_bound(x)).sum(axis=0), abs=1e-12
    )


@examples(60)
@given(occupancies(), SEEDS, st.floats(0.01, 10))
def test_factors_are_the_largest_within_a_loss(occupancy, seed, loss):
    """Each factor keeps its user within the loss, and a little more would not."""
    rates, _ = drawn(occupancy, seed)
    problem = ClippingProblem(occupancy)
    factor = problem.largest_factors(rates, loss)
    assert ((factor >= 0) & (factor <= 1)).all()
    assert (problem.losses(rates, factor) <= loss * (1 + 1e-9)).all()
    more = problem.losses(rates, np.minimum(factor * (1 + 1e-6), 1.0))
    steep = problem.loss_slope(rates, factor) * factor > 1e-3 * loss
    assert (more[(factor < 1) & steep] > loss * (1 - 1e-9)).all()


@examples(60)
@given(occupancies(), SEEDS, st.floats(0.01, 10))
def test_least_charge_is_never_above_any_plans(occupancy, seed, loss):
    """Factors for lower bounds are no smaller than any factors that a plan may have."""
    rates, factor = drawn(occupancy, seed)
    dense = dense_of(occupancy)
    problem = ClippingProblem(occupancy)
    largest = problem.largest_factors(rates, loss, least=True)
    assert (largest >= problem.largest_factors(rates, loss) * (1 - 1e-12)).all()
    for tried in (factor, np.ones(factor.size), np.round(factor)):
        table = dense, tried[None], *rates[:, None]
        if losses(*table)[0] <= loss:
            assert (tried <= largest * (1 + 1e-9)).all()


@examples(60)
@given(occupancies(), SEEDS)
def test_slope_is_that_of_the_loss(occupancy, seed):
    """The slope in the factor agrees with differences of the loss."""
    rates, factor = drawn(occupancy, seed)
    problem, step = ClippingProblem(occupancy), 1e-6
    ahead = problem.losses(rates, factor + step) - problem.losses(rates, factor - step)
    assert problem.loss_slope(rates, factor) == pytest.approx(ahead / (2 * step), abs=1e-4)


def test_kept_quanta_put_more_away():
    """With coarse quanta at least as much goes to the middle as without."""
    occupancy = comp_setting(3, 0, cells=5)
    factor = np.random.default_rng(0).random(occupancy.n_users)
    fine, coarse = ClippingProblem(occupancy), ClippingProblem(occupancy, np.full(5, 2.0))
    assert np.array_equal(fine.clipped_share_in_quanta(factor), fine.clipped_share(factor))
    assert (coarse.clipped_share_in_quanta(factor) > fine.clipped_share(factor)).all()
    whole = np.ones(occupancy.n_users)
    assert not coarse.clipped_share_in_quanta(whole).any()


def test_a_proof_needs_no_slack():
    """A loss well above what a plan needs is never refuted, one well below is."""
    occupancy = comp_setting(6, 3, cells=6)
    plan = planned(occupancy, target_error=0.1)
    problem = ClippingProblem(occupancy)
    goal = rates_within({"mean": 0.2}, occupancy, LAPLACE)

    def impossible(loss):
        return is_infeasible(problem, goal, loss)

    assert impossible(float(plan.epsilon) * 0.99)
    assert not impossible(float(plan.epsilon) * 1.0001)


# ---- least average error, and its bound ----


@pytest.mark.parametrize("dense", TINY)
def test_any_multipliers_give_a_bound(dense):
    """Wherever the search for multipliers begins, no bound is above a plan's error."""
    plan = planned(hv.Occupancy.from_dense(dense), epsilon=6, objective="mean")
    occupancy, draw = plan.occupancy, np.random.default_rng(3)
    weights = mean_error.objective_weights(plan.request, plan.span, plan.occupancy)
    for _ in range(8):
        rates = np.exp(draw.normal(1, 1, occupancy.n_cells)) * [[1.0], [0.0]]
        factor = draw.random(occupancy.n_users)
        bound = mean_error_lower_bound(ClippingProblem(occupancy), weights, 6.0, rates, factor)
        assert bound <= plan.expected_error


@examples(60)
@given(
    occupancies(),
    st.floats(0.1, 20),
    st.integers(0, 2**32 - 1),
    st.sampled_from([LAPLACE, GAUSSIAN]),
)
def test_slope_is_that_of_the_error(occupancy, loss, seed, law):
    """The slope that the search follows agrees with differences of the error."""
    problem, draw = ClippingProblem(occupancy, law=law), np.random.default_rng(seed)
    cells = occupancy.n_cells
    weights = np.repeat([[1.0], [4.0]], cells, axis=1)
    rates = np.exp(draw.normal(1, 1, 2 * cells))
    _, slopes = mean_error.error_and_slope(problem, weights, loss, rates.reshape(2, -1))
    slope = slopes.ravel()

    def error(at):
        return mean_error.error_and_slope(problem, weights, loss, at.reshape(2, -1))[0]

    for i in range(2 * cells):
        step = np.zeros(2 * cells)
        step[i] = rates[i] * 1e-5
        ahead = (error(rates + step) - error(rates)) / step[i]
        behind = (error(rates) - error(rates - step)) / step[i]
        if abs(ahead - behind) < 1e-3 * (abs(ahead) + abs(behind)):  # else a kink lies between
            assert slope[i] == pytest.approx((ahead + behind) / 2, rel=5e-3, abs=1e-6)


# ---- the optimum with a δ ----


HARD = [[2, 4], [1, 4], [3, 4], [0, 3]], [[3, 4], [4, 0], [0, 2], [2, 2], [3, 1]], [[2, 1], [0, 3]]
"""Counts of two cells of which one is better a constant at squares of about a half."""


def weights_of(statistic, weight=(0.7, 0.3)):
    """Return weights of the errors of one statistic in two cells."""
    nothing = np.zeros(2)
    means, variances = (
        np.array(weight) if statistic in asked else nothing
        for asked in (("mean", "both"), ("variance", "both"))
    )
    return np.stack((means, 4.0 * variances))


def errors_and_excess(occupancy, weights, square, rates):
    """Return the search's error, the least of the rates', and the largest norm over the allowed."""
    problem = ClippingProblem(occupancy, law=GAUSSIAN)
    found = mean_error.minimize_mean_error(problem, weights, square)

    def error(rates):
        away = problem.clipped_share(problem.largest_factors(rates, square))
        return mean_error.weighted_errors(weights, rates, away, GAUSSIAN).sum()

    best = min(map(error, rates))
    losses = problem.losses(found.rates, found.factor)
    return error(found.rates), best, math.sqrt(losses.max() / square)


@pytest.mark.parametrize("statistic", ["mean", "variance"])
@pytest.mark.parametrize("square", [0.05, 0.51, 0.94, 4.0])
@pytest.mark.parametrize("rows", some([*HARD, [[1, 1], [3, 2], [0, 4]]], 2))
def test_no_grid_of_rates_betters_the_search(rows, square, statistic):
    """Over a fine grid of two rates, constants among them, none has an error below the search's."""
    grid = [0.0, *np.geomspace(0.05, 200.0, 45)]
    row = np.eye(2)[[["mean", "variance"].index(statistic)]].T
    rates = (row * rate for rate in map(np.array, itertools.product(grid, repeat=2)))
    occupancy = hv.Occupancy.from_dense(rows)
    error, best, excess = errors_and_excess(occupancy, weights_of(statistic), square, rates)
    assert error <= best * 1.002
    assert excess <= 1 + 1e-9


@pytest.mark.parametrize("rows", [HARD[0], [[2, 3], [2, 1], [3, 2]]])
def test_no_plan_of_less_loss_meets_the_targets(rows):
    """At 0.97 of the least square no rates of a fine grid meet both targets; at it the found do."""
    occupancy = hv.Occupancy.from_dense(rows)
    targets = np.array([0.3, 0.35])
    rates_at = rates_within({"mean": 2.0 * targets}, occupancy, GAUSSIAN)
    problem = ClippingProblem(occupancy, law=GAUSSIAN)
    search = minimize_loss(problem, rates_at, rates_at)
    found, least = search.solution, search.value

    def errors(rates, factor):
        return mean_error.cell_errors(rates, problem.clipped_share(factor), GAUSSIAN)[0]

    assert (errors(found.rates, found.factor) <= targets * (1 + 2.0**-16)).all()
    grid = found.rates[0].max() * np.geomspace(0.3, 3.0, 60)
    for pair in itertools.product(grid, repeat=2):
        rates = np.stack((pair, np.zeros(2)))
        factor = problem.largest_factors(rates, 0.97 * least)
        assert (errors(rates, factor) > targets).any()


# ---- rates within targets ----


AWAY = st.floats(0, 1)
ONE = np.ones(1)


def rates_of(mean, variance, away):
    """Return the rates of one cell."""
    targets = np.array([[mean], [variance]])
    return least_rates(away * ONE, targets=targets, law=LAPLACE)


@given(st.floats(0.01, 0.7), st.floats(0.001, 0.2), AWAY, AWAY)
def test_separate_rates_meet_their_targets_and_grow(mean, variance, away, more):
    """Noise of these rates meets each target exactly; the rates grow with what is away."""
    low, high = sorted((away, more))
    rates, after = (rates_of(mean, variance, share) for share in (low, high))
    if rates is None:
        assert after is None
        return
    for target, rate, bias, worst in (
        (mean, rates[0], mean_bias, 0.5),
        (variance, rates[1], variance_bias, 0.125),
    ):
        if target >= worst:
            assert rate[0] == 0
        else:
            assert bias(low * ONE)[0] + 1 / rate[0] == pytest.approx(target)
    if after is not None:
        assert (after >= rates).all()


def test_targets_without_room_have_no_rates():
    """A bias above the target leaves no noise that would meet it."""
    assert rates_of(0.2, np.inf, 0.5) is None
    assert rates_of(np.inf, 0.05, 0.5) is None


# ---- one loss for all cells ----


MECHANISMS = st.sampled_from([hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping()])
LOSSES = st.fractions(Fraction(1, 50), Fraction(20)).filter(lambda e: e > 0)


def exact_loss(occupancy, cell_epsilon, mechanism):
    """Return the largest loss of a user by plain loops over exact fractions."""
    kept = occupancy.kth_largest(mechanism.rank(cell_epsilon))
    loss = [Fraction(0)] * occupancy.n_users
    for cell, user, n in zip(occupancy.cell, occupancy.user, occupancy.n, strict=True):
        if kept[cell]:
            loss[user] += cell_epsilon * Fraction(min(int(n), int(kept[cell])), int(kept[cell]))
    return max(loss)


@given(occupancies(), LOSSES, MECHANISMS, st.lists(st.integers(1, 2000), max_size=30))
def test_no_larger_common_loss_is_within_the_budget(occupancy, epsilon, mechanism, steps):
    """Every larger common cell loss that is tried costs some user more, or publishes nothing."""
    found = largest_cell_epsilon(occupancy, epsilon, mechanism)
    ends = [Fraction(2, k) for k in range(1, 12)]
    tried = [found * (1 + Fraction(s, 500)) for s in steps] + [e for e in ends if e > found * 1.001]
    for larger in tried:
        kept = occupancy.kth_largest(mechanism.rank(larger))
        if (kept > 0).any():
            assert exact_loss(occupancy, larger, mechanism) > epsilon * (1 - Fraction(1, 10**9))


def test_skipping_ranks_finds_the_same_as_trying_each():
    """On a large occupancy the search agrees with trying every rank in turn."""
    rng = np.random.default_rng(5)
    dense = rng.poisson(0.6, (400, 60)) * rng.integers(1, 30, (400, 60))
    dense[:, dense.sum(axis=0) == 0] = 1
    dense = dense[dense.sum(axis=1) > 0]
    occupancy, epsilon, mechanism = (
        hv.Occupancy.from_dense(dense),
        Fraction(1),
        hv.mechanisms.OptimalClipping(),
    )
    slow = next(
        min(epsilon / Fraction(max_relative_loss(occupancy, k, k)), Fraction(2, max(k - 1, 1)))
        for k in range(1, 400)
        if epsilon / Fraction(max_relative_loss(occupancy, k, k)) >= Fraction(2, k)
    )
    found = largest_cell_epsilon(occupancy, epsilon, mechanism)
    assert float(found) == pytest.approx(float(slow), rel=1e-9)


# ---- few scales ----


SIZES = st.floats(1e-290, 1e290)


def many(first):
    """Return more sizes than are left as they are, `first` among them."""
    return np.concatenate([[0.0, first], np.geomspace(1e-3, 1e3, 2 * MAX_DISTINCT_SCALES)])


@given(SIZES)
def test_each_rounding_keeps_to_its_side(size):
    """Noise moves by less than a 128th, only up or down if asked, by half of it to the nearest."""
    near, down, up = (
        quantize_noise_scales(many(size), how)[1] for how in (np.rint, np.floor, np.ceil)
    )
    assert down <= size <= up
    assert near in (down, up)
    assert size - down < size / 128
    assert up - size < size / 128
    assert abs(near - size) <= size / 256


def crowded(cells=600, users=30):
    """Return an occupancy of so many cells that their scales are made few."""
    rng = np.random.default_rng(4)
    dense = rng.poisson(0.4, (users, cells)) * rng.integers(1, 9, (users, cells))
    dense[np.arange(cells) % users, np.arange(cells)] += 1
    return hv.Occupancy.from_dense(dense)


ASKED = [
    {"epsilon": 60},
    {"epsilon": 60, "objective": "max"},
    {"epsilon": 60, "method": "per-cell", "statistics": ("mean", "variance")},
    {"target_error": "45%"},
    {"target_error": "45%", "objective": "mean"},
]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_a_plan_of_many_cells_draws_few_scales(asked, monkeypatch):
    """It keeps to what was asked, is as good as with its own scale everywhere, and says its own."""
    occupancy, asked = crowded(), {"bounds": (0, 10), "advise": False} | asked
    monkeypatch.setattr(joint, "MAX_DISTINCT_SCALES", 400)
    made = hv.plan(occupancy, **asked)
    drawn = allocation_of(made, ValueLattice.of((0, 10), "0.1")).statistics[0].noise
    assert np.unique(drawn).size < 400
    stated = 200 * made.allocation.noise_scale_records
    assert ((stated <= drawn) & (drawn <= np.nextafter(stated, np.inf))).all()
    monkeypatch.setattr(joint, "MAX_DISTINCT_SCALES", occupancy.n_cells)
    own = hv.plan(occupancy, **asked)
    sizes = [np.unique(one.allocation.noise_scale_records).size for one in (own, made)]
    assert sizes[0] >= sizes[1]
    if "epsilon" in asked:
        assert made.epsilon <= made.requested_epsilon
        assert made.objective_errors().mean() <= own.objective_errors().mean() * 1.003
    else:
        errors = made.error if made.request.objective == "max" else made.error.mean()
        assert np.max(errors) <= 4.5
        assert float(made.epsilon) <= float(own.epsilon) * 1.008
    gap, own_gap = (one.with_lower_bound().gap for one in (made, own))
    if gap is not None:
        assert 0 <= gap <= own_gap + 0.008
