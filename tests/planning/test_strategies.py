"""The strategies of a two-stage plan: what each makes of a cell, and which is taken."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hexveil as hv
from examples import examples
from hexveil import Occupancy
from hexveil.accounting.error_model import LN20
from hexveil.mechanisms import released_ranges
from hexveil.planning.allocation import TwoStageRange
from hexveil.planning.clipping_range import strategies, user_clusters
from hexveil.planning.clipping_range.private_range import PrivateClippingRange
from hexveil.planning.clipping_range.two_stage_plan import StageOutputs, TwoStagePlan
from hexveil.planning.clipping_range.user_weights import UserMeanPrior, expected_bias, max_bias
from publishing.setting import with_stages

ENDS = st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)).map(
    lambda two: (two[0], two[0] + two[1])
)


def laplace_sums(rng, scales, draws):
    """Return draws of a sum of Laplace numbers of these scales."""
    return sum(rng.laplace(0.0, scale, draws) for scale in scales)


@examples(20)
@given(
    st.lists(st.floats(0.001, 10), min_size=1, max_size=8),
    st.floats(0.001, 10),
    st.integers(0, 1000),
)
def test_the_tail_is_not_exceeded_more_often_than_said(parts, own, seed):
    """Of simulated sums at most 5% are larger; the limit is at most twice what 5% exceed."""
    limit = float(strategies.laplace_sum_quantile95(np.array([parts]), np.array([own]))[0])
    draws = np.abs(laplace_sums(np.random.default_rng(seed), [*parts, own], 4000))
    assert (draws > limit).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)
    assert limit <= 2.1 * np.quantile(draws, 0.95)
    assert limit >= LN20 * max([*parts, own])


def test_the_tail_of_many_is_near_a_normal_s():
    """For 400 alike the limit is within a third of 1.96 deviations of the sum, and above them."""
    limit = float(strategies.laplace_sum_quantile95(np.full((1, 399), 1.0), np.ones(1))[0])
    assert 1.0 < limit / (1.96 * math.sqrt(2 * 400)) < 1.45


def test_the_tail_goes_with_the_scales():
    """Every cell has its own limit, in proportion to its scales; scales of zero add nothing."""
    parts, own = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([0.5, 0.0])
    both = strategies.laplace_sum_quantile95(parts, own)
    assert strategies.laplace_sum_quantile95(7 * parts, 7 * own) == pytest.approx(7 * both)
    assert strategies.laplace_sum_quantile95(parts[:1], own[:1]) == pytest.approx(both[:1])
    assert both[1] == pytest.approx(
        3 * strategies.laplace_sum_quantile95(np.zeros((1, 1)), np.ones(1))[0]
    )


# Biases


@st.composite
def tiny(draw):
    """Return a small occupancy and steps with random classes and weights."""
    users, cells = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    counts = rng.integers(0, 5, (users, cells))
    counts[0] += 1
    counts[:, 0] += counts.sum(axis=1) == 0
    occupancy = Occupancy.from_dense(counts)
    number = draw(st.integers(1, users))
    return occupancy, steps_of(occupancy, rng, np.arange(users) % number)


def steps_of(occupancy, rng, of):
    """Return steps with random weights and noise, for users of known classes."""
    number = int(of.max()) + 1
    return TwoStagePlan(
        epsilon=Fraction(1, 20),
        widening=Fraction(1),
        labels=np.asarray(of, dtype=np.int64),
        cluster_weight=rng.integers(1, 50, occupancy.n_users),
        cluster_noise=rng.uniform(0.01, 1.0, number),
        weight=rng.integers(1, 50, occupancy.n_pairs),
        noise=rng.uniform(0.01, 1.0, occupancy.n_cells),
    )


@examples(60)
@given(tiny())
def test_classes_are_off_by_at_most_what_is_said_and_can_be(case):
    """Over all users' own means at either end of the range the largest distance is stated."""
    occupancy, steps = case
    stated = strategies.max_cluster_bias(occupancy, steps)
    n = np.zeros((occupancy.n_cells, occupancy.n_users))
    n[occupancy.cell, occupancy.user] = occupancy.n
    true = n / n.sum(axis=1, keepdims=True)
    said = np.zeros_like(true)
    for g, k in itertools.product(range(occupancy.n_cells), range(steps.cluster_noise.size)):
        of = steps.labels == k
        said[g, of] = true[g, of].sum() * steps.cluster_weight[of] / steps.cluster_weight[of].sum()
    for g in range(occupancy.n_cells):
        largest = max(
            abs(float((true[g] - said[g]) @ np.array(means)))
            for means in itertools.product((0.0, 1.0), repeat=occupancy.n_users)
        )
        assert stated[g] == pytest.approx(largest, abs=1e-12)


@examples(40)
@given(tiny(), st.floats(0.05, 1.0), st.floats(0.01, 0.5))
def test_noise_and_bias_by_users_are_those_of_a_plain_sum(case, width, half):
    """Noise adds up in squares over classes and the cell's own; so do what is off and τ/√K."""
    occupancy, steps = case
    noise, off = strategies.predict_user_residual_error(occupancy, steps, width, half)
    grouping = steps.clusters(occupancy)
    share = steps.weight / steps.totals(occupancy)[occupancy.cell]
    likely = expected_bias(
        occupancy,
        share,
        UserMeanPrior(
            1 / (2 * released_ranges.RESIDUAL_HALF_WIDTH_SD), strategies.RESIDUAL_CONFOUNDING
        ),
    )
    own = released_ranges.user_mean_range_width(width, half)
    left = width / 2 / released_ranges.RANGE_HALF_WIDTH_SD / math.sqrt(steps.cluster_noise.size)
    for g in range(occupancy.n_cells):
        squares = [(2 * half * steps.noise[g]) ** 2]
        for k, scale in enumerate(steps.cluster_noise):
            squares.append((own * grouping.share[g, k] * scale) ** 2)
        assert noise[g] == pytest.approx(math.sqrt(sum(squares)))
        assert off[g] == pytest.approx(math.hypot(left, 2 * half * likely[g]))


@examples(40)
@given(tiny(), st.floats(0.05, 1.0), st.floats(0.01, 0.5))
def test_noise_by_cells_is_divided_by_how_much_of_the_mean_is_seen(case, width, half):
    """A first average that is further off makes the second one say less, so noisier."""
    occupancy, _ = case
    noise = np.linspace(0.01, 2.0, occupancy.n_cells)
    seen, off = strategies.predict_cell_residual_error(
        occupancy, interval_of(occupancy), noise, width, half
    )
    narrow = (
        2
        * released_ranges.CELL_RESIDUAL_HALF_WIDTH_SD
        * released_ranges.within_cell_sd(width, half)
    )
    most = released_ranges.STANDARD_NORMAL.cdf(
        released_ranges.CELL_RESIDUAL_HALF_WIDTH_SD
    ) - released_ranges.STANDARD_NORMAL.cdf(-released_ranges.CELL_RESIDUAL_HALF_WIDTH_SD)
    times = seen / (narrow * noise / 0.7)
    assert (times >= 1 / most - 1e-9).all()
    assert (np.diff(times) >= -1e-9).all()
    assert (
        off >= strategies.SKEWNESS_ERROR * released_ranges.within_cell_sd(width, half) * (1 - 1e-12)
    ).all()


def interval_of(occupancy, width=0.3):
    """Return a clipping range whose weights are the records."""
    return PrivateClippingRange(
        Fraction(1, 20), (Fraction(1, 10), Fraction(9, 10)), Fraction(1), width, 0.03,
        occupancy.n.astype(np.int64) * 1000,
    )  # fmt: skip


# Widths


@given(ENDS, st.integers(1, 10**6))
def test_users_own_interval_lies_within_the_interval(ends, inside):
    """It has the same middle, at least half of the width, and is never empty."""
    low, high = released_ranges.user_mean_range(ends, inside)
    assert ends[0] <= low < high <= ends[1]
    assert abs((low + high) - sum(ends)) <= 1
    assert high - low >= (ends[1] - ends[0]) / 2 - 1


@given(ENDS, st.integers(0, 10**6))
def test_the_second_step_is_never_empty(ends, inside):
    """It is h itself, or h' by the assumed spread of a cell's users; at least one quantum."""
    width = ends[1] - ends[0]
    assert released_ranges.second_stage_half_width(
        "user_residuals", ends, inside
    ) == released_ranges.second_stage_half_width("single_stage", ends, inside)
    assert released_ranges.second_stage_half_width("user_residuals", ends, inside) == max(inside, 1)
    narrow = released_ranges.second_stage_half_width("cell_residuals", ends, inside)
    assert narrow == max(
        round(
            released_ranges.CELL_RESIDUAL_HALF_WIDTH_SD
            * released_ranges.within_cell_sd(width, inside)
        ),
        1,
    )
    assert narrow <= max(width / 2, 1)


def test_widths_follow_simulated_users():
    """Users' own means and a cell's users spread as assumed, where the model is the stated one."""
    rng, tau, own = np.random.default_rng(5), 1.0, 0.6
    users = rng.normal(0, math.sqrt(tau**2 - own**2), 40_000)
    cells = rng.normal(0, own / math.sqrt(2), 200)
    at = rng.integers(0, 200, users.size)
    seen = users + cells[at] + rng.normal(0, own / math.sqrt(2), users.size)
    width, half = (
        2 * released_ranges.RANGE_HALF_WIDTH_SD * seen.std(),
        released_ranges.RESIDUAL_HALF_WIDTH_SD * (seen - users).std(),
    )
    inside = np.mean([seen[at == g].std() for g in range(200)])
    assert released_ranges.within_cell_sd(width, half) == pytest.approx(inside, rel=0.05)
    own_ends = np.quantile(users, [0.1, 0.9])
    assert released_ranges.user_mean_range_width(width, half) == pytest.approx(
        np.ptp(own_ends), rel=0.05
    )


# The choice

COUNTS = np.random.default_rng(2).poisson(2.0, (800, 30)) + np.eye(800, 30, dtype=int)
COUNTS[COUNTS.sum(axis=1) == 0, 0] = 1


@pytest.fixture(scope="module")
def plan():
    """Return a two-stage plan for a crowd of whom each was nearly everywhere."""
    return hv.plan(
        Occupancy.from_dense(COUNTS),
        epsilon=1, bounds=(0, 60), clipping_range="two-stage", advise=False,
    )  # fmt: skip


def chosen(plan, noise=1.0, **found):
    """Return the strategy that is taken for what was found, with all noise times a factor."""
    widths = {"direct": 0.32, "width": 0.32, "half": 0.096} | found
    return strategies.select_strategy(
        plan.occupancy,
        replace(plan.allocation.clipping.range, width=widths["direct"]),
        plan.mean_noise * noise,
        plan.allocation.clipping.stages.with_noise_scaled(noise),
        tuple(widths.values()),
    )


def test_users_who_are_alike_in_all_their_cells_are_looked_at_by_themselves(plan):
    """Much noise, and distances from own means far narrower than the range: `user_residuals`."""
    assert chosen(plan, half=0.02) == "user_residuals"


@pytest.mark.slow
@pytest.mark.parametrize(("direct", "noise"), [(0.32, 0.1), (0.48, 1.0)])
def test_where_users_differ_from_cell_to_cell_clipping_is_undone(plan, direct, noise):
    """Where distances are as wide as the range `cell_residuals` has less bias, or noise."""
    assert chosen(plan, noise, direct=direct, half=0.16) == "cell_residuals"


@pytest.mark.parametrize(("half", "noise"), [(0.16, 10.0), (0.02, 1e-3), (0.11, 10.0)])
def test_where_a_second_step_saves_nothing_there_is_none(plan, half, noise):
    """Much noise and ranges that are not much narrower; or classes that miss more than noise."""
    assert chosen(plan, noise, half=half) == "single_stage"


@examples(40, suppress_health_check=[])
@given(st.floats(0.01, 1), st.floats(0.001, 1), st.floats(1e-3, 100))
def test_the_way_taken_is_the_one_of_least_predicted_error(width, half, times):
    """Users who differ among themselves allow `user_residuals`, others `cell_residuals`."""
    occupancy = Occupancy.from_dense(COUNTS[:60, :4] + 1)
    rng = np.random.default_rng(1)
    steps = steps_of(occupancy, rng, np.arange(60) % 5).with_noise_scaled(times)
    interval, noise = interval_of(occupancy, width), np.full(4, 0.1 * times)
    way = strategies.select_strategy(occupancy, interval, noise, steps, (width, width, half))
    apart = half / released_ranges.RESIDUAL_HALF_WIDTH_SD <= strategies.ALIKE * width / (
        2 * released_ranges.RANGE_HALF_WIDTH_SD
    )
    assert way in ("single_stage", "user_residuals" if apart else "cell_residuals")
    made = {
        "user_residuals": strategies.predict_user_residual_error(occupancy, steps, width, half),
        "cell_residuals": strategies.predict_cell_residual_error(
            occupancy, interval, noise, width, half
        ),
        "single_stage": (
            width * noise,
            np.hypot(
                width * interval.expected_bias(occupancy),
                strategies.SKEWNESS_ERROR * released_ranges.within_cell_sd(width, half),
            ),
        ),
    }
    error = {name: np.hypot(*two).mean() for name, two in made.items()}
    assert error[way] <= error["single_stage"]
    assert error[way] <= error["user_residuals" if apart else "cell_residuals"]


# What is stated of the mean


def stated(plan, way, **found):
    """Return the part of a plan that found these."""
    steps = 60_000
    given = {"ends": (10_000, 40_000), "inside": 3_000} | found
    half = released_ranges.second_stage_half_width(way, given["ends"], given["inside"])
    own = (
        released_ranges.user_mean_range(given["ends"], given["inside"])
        if way == "user_residuals"
        else None
    )
    rows = replace(
        plan.allocation,
        clipping=TwoStageRange(
            plan.allocation.clipping.range.with_ends(given["ends"], steps),
            replace(
                plan.allocation.clipping.stages,
                outputs=StageOutputs(way, given["ends"], half, given["inside"], steps, own),
            ),
        ),
    )
    return replace(plan, allocation=rows).error_models["mean"], rows


def test_direct_is_the_interval_alone(plan):
    """Scale, bias and bound are those of one clipping range of the width that was found."""
    part, rows = stated(plan, "single_stage")
    width = 60 * 0.5
    assert part.scale == pytest.approx(width * plan.mean_noise)
    assert part.bias == pytest.approx(width * rows.clipping.range.max_bias(plan.occupancy))
    assert part.bound95 == pytest.approx(part.bias + part.scale * LN20)
    assert part.error == pytest.approx(part.scale + width * rows.clipping.range.expected_bias(
        plan.occupancy))  # fmt: skip


def test_cells_have_seven_tenths_of_the_loss_for_the_second_step(plan):
    """Noise is that of the range ±h' at 1 - COARSE of the loss; the error says more."""
    part, rows = stated(plan, "cell_residuals")
    width = 60 * 2 * rows.clipping.stages.outputs.half_width / 60_000
    assert part.scale == pytest.approx(width * plan.mean_noise / 0.7)
    assert part.bias == pytest.approx(width * rows.clipping.range.max_bias(plan.occupancy))
    assert part.bound95 == pytest.approx(part.bias + part.scale * LN20)
    undone, off = strategies.predict_cell_residual_error(
        plan.occupancy, rows.clipping.range, plan.mean_noise, 0.5, 3_000 / 60_000
    )
    assert part.error == pytest.approx(60 * (undone + off))
    assert (part.error > part.scale).all()


def test_users_have_noise_of_classes_and_of_distances(plan):
    """Scale, worst case and bound are made of both, in whole quanta as they were found."""
    part, rows = stated(plan, "user_residuals")
    occupancy, steps = plan.occupancy, rows.clipping.stages
    grouping = steps.clusters(occupancy)
    own = 60 * (steps.outputs.user_mean_range[1] - steps.outputs.user_mean_range[0]) / 60_000
    fine = 60 * 2 * steps.outputs.half_width / 60_000
    scales = np.column_stack((own * grouping.share * steps.cluster_noise, fine * steps.noise))
    assert part.scale == pytest.approx(np.sqrt((scales**2).sum(axis=1)))
    share = steps.weight / steps.totals(occupancy)[occupancy.cell]
    most = own * strategies.max_cluster_bias(occupancy, steps) + fine * max_bias(occupancy, share)
    assert part.bias == pytest.approx(most)
    loud = strategies.laplace_sum_quantile95(scales[:, :-1], scales[:, -1])
    assert part.bound95 == pytest.approx(most + loud)
    assert (part.bound95 > part.bias + 0.9 * part.scale).all()


@pytest.mark.slow
@pytest.mark.parametrize(("times", "expected"), [(1.0, "single_stage"), (0.3, "user_residuals")])
def test_before_a_release_the_prior_says_what_will_be_found(plan, times, expected):
    """Strategy and widths are then those expected, and the error is the one of that strategy."""
    interval, steps = (
        plan.allocation.clipping.range,
        plan.allocation.clipping.stages.with_noise_scaled(times),
    )
    plan = with_stages(plan, steps)
    widths = strategies.expected_widths(interval)
    assert widths == (interval.width, *strategies.EXPECTED_WIDTHS)
    way = strategies.select_strategy(plan.occupancy, interval, plan.mean_noise, steps, widths)
    assert way == expected
    noise, off = strategies.predict_user_residual_error(
        plan.occupancy, steps, *strategies.EXPECTED_WIDTHS
    )
    if way == "single_stage":
        noise = interval.width * plan.mean_noise
        off = interval.width * interval.expected_bias(plan.occupancy)
    assert plan.error_models["mean"].error == pytest.approx(60 * (noise + off))
    assert plan.expected_error == pytest.approx(60 * float((noise + off).mean()))


def test_what_was_found_is_told_as_parts_of_the_span():
    """After a release widths are the found ones."""
    found = SimpleNamespace(ends=(100, 300), residual_radius=50, span_quanta=1000)
    assert strategies.released_widths(SimpleNamespace(width=0.25), found) == (0.25, 0.2, 0.05)


def test_classes_of_a_grouping_are_those_of_the_steps(plan):
    """What is predicted is about the classes that will be published."""
    stages = plan.allocation.clipping.stages
    grouping = stages.clusters(plan.occupancy)
    again = user_clusters.clusters_from_labels(plan.occupancy, stages.labels)
    assert (grouping.share == again.share).all()
