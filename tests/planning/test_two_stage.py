"""Plans in several steps: what each user is charged, what is decided, what is refused."""

import functools
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import hexveil as hv
from examples import examples
from hexveil.base.errors import InputError
from hexveil.mechanisms.released_ranges import RESIDUAL_QUANTILE
from hexveil.planning.clipping_range import private_range, strategies, two_stage
from hexveil.planning.clipping_range.two_stage import (
    CLUSTER_EPSILON_SHARES,
    MAX_RESIDUAL_SHARE,
    MIN_RESIDUAL_SHARE,
    QUANTILE_WIDENINGS,
    SINGLE_STAGE_WIDENINGS,
    residual_epsilon_share,
)
from hexveil.planning.clipping_range.user_clusters import MIN_CLUSTER_USERS
from hexveil.planning.serialization.plan_codec import encode

CROWD = hv.Occupancy.from_dense(
    [[1, 2, 0]] * 150 + [[3, 0, 0]] * 50 + [[0, 4, 9]] * 30 + [[0, 40, 1]]
)


def planned(occupancy=CROWD, epsilon=1, **options):
    """Return a two-stage plan."""
    options = {"bounds": (0, 60), "advise": False} | options
    return hv.plan(occupancy, epsilon=epsilon, clipping_range="two-stage", **options)


@functools.cache
def crowd_plan(epsilon=1, **options):
    """Return a plan of the crowd that several tests look at."""
    return planned(CROWD, epsilon, **options)


@st.composite
def fleets(draw):
    """Return a small occupancy in which somebody was in two cells."""
    users, cells = draw(st.integers(1, 25)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    counts = rng.integers(0, draw(st.sampled_from([2, 5, 1000])), (users, cells))
    counts *= rng.random((users, cells)) < draw(st.sampled_from([0.3, 1.0]))
    counts[0] += 1
    counts[:, 0] += counts.sum(axis=1) == 0
    return hv.Occupancy.from_dense(counts)


def exact_losses(plan):
    """Return what each user loses by range, h and either kind of strategy, as exact numbers."""
    occupancy, interval, more = (
        plan.occupancy,
        plan.allocation.clipping.range,
        plan.allocation.clipping.stages,
    )
    shared = interval.epsilon + more.epsilon
    straight, classed = ([Fraction(0)] * occupancy.n_users for _ in range(2))
    class_totals = [0] * more.cluster_noise.size
    for user in range(occupancy.n_users):
        class_totals[int(more.labels[user])] += int(more.cluster_weight[user])
    for user in range(occupancy.n_users):
        k = int(more.labels[user])
        part = Fraction(int(more.cluster_weight[user]), class_totals[k])
        classed[user] += part / Fraction(float(more.cluster_noise[k]))
    sums = [[0] * occupancy.n_cells for _ in range(2)]
    weights = (interval.weight, more.weight)
    for at, weight in zip(sums, weights, strict=True):
        for cell, w in zip(occupancy.cell, weight, strict=True):
            at[int(cell)] += int(w)
    noises = (plan.mean_noise, more.noise)
    for lost, at, weight, noise in zip((straight, classed), sums, weights, noises, strict=True):
        for cell, user, w in zip(occupancy.cell, occupancy.user, weight, strict=True):
            lost[int(user)] += Fraction(int(w), at[cell]) / Fraction(float(noise[cell]))
    return [shared + max(pair) for pair in zip(straight, classed, strict=True)]


@examples(40)
@given(fleets(), st.sampled_from(["1e-6", "0.01", "0.3", "1", "7", "1e4"]))
def test_losses_are_exact_used_up_and_no_more_than_was_asked(occupancy, epsilon):
    """Each user is charged range, h and the more expensive strategy; the most is what was asked.

    The most exposed user loses what is left by the cells, and as much by classes and cells. What is
    said that counting would have charged has range and h in it, and both strategies.
    """
    plan = planned(occupancy, epsilon)
    true = exact_losses(plan)
    stated = [Fraction(float(one)) for one in plan.losses()]
    asked = Fraction(epsilon)
    assert all(one >= exact for one, exact in zip(stated, true, strict=True))
    assert all(one - exact < asked / 10**9 for one, exact in zip(stated, true, strict=True))
    assert asked * (1 - Fraction(1, 10**6)) < plan.epsilon <= asked

    more = plan.allocation.clipping.stages
    shared = plan.allocation.clipping.range.epsilon + more.epsilon
    terms = plan.pair_losses()
    left = float(asked - shared)
    assert sum(more.losses(occupancy)).max() == pytest.approx(left, rel=1e-9)
    assert np.bincount(occupancy.user, terms).max() == pytest.approx(left, rel=1e-9)

    assert plan.l0_epsilon >= plan.epsilon
    most = np.zeros(occupancy.n_cells)
    np.maximum.at(most, occupancy.cell, terms)
    each = np.bincount(occupancy.user, np.where(terms > 0, most[occupancy.cell], 0.0))
    assert plan.l0_epsilon >= shared + Fraction(float(each.max()) * (1 - 1e-12))


def test_losses_of_the_way_users_are_those_of_a_plain_loop():
    """A user's weight over its class's sum and noise; then cell by cell."""
    more = crowd_plan().allocation.clipping.stages
    in_classes, in_cells = more.losses(CROWD)
    classed, found = np.zeros(CROWD.n_users), np.zeros(CROWD.n_users)
    for user in range(CROWD.n_users):
        mates = more.labels == more.labels[user]
        share = more.cluster_weight[user] / more.cluster_weight[mates].sum()
        classed[user] = share / more.cluster_noise[more.labels[user]]
    for pair, (cell, user) in enumerate(zip(CROWD.cell, CROWD.user, strict=True)):
        share = more.weight[pair] / more.weight[CROWD.cell == cell].sum()
        found[user] += share / more.noise[cell]
    assert in_classes == pytest.approx(classed, rel=1e-12)
    assert in_cells == pytest.approx(found, rel=1e-12)
    assert (in_classes >= classed * (1 - 1e-15)).all()


def test_counting_cells_charges_a_class_its_most():
    """Of two users of one class the lighter one is claimed to lose what the heavier one does."""
    plan = crowd_plan()
    more = plan.allocation.clipping.stages
    claimed = more.composed_losses(CROWD)
    parts, in_cells = more.losses(CROWD)
    assert (claimed >= parts + in_cells).all()
    for k in range(more.cluster_noise.size):
        mates = more.labels == k
        assert (claimed[mates] >= parts[mates].max()).all()


# What is decided


def test_h_has_a_share_of_the_loss_that_falls_with_users():
    """Only users who were in two cells count; the share stays within its limits."""
    n_between = 0
    for users, epsilon in ((100, "1"), (3000, "1"), (10**5, "1"), (3000, "5")):
        crowd = hv.Occupancy.from_dense([[1, 1]] * users + [[1, 0]] * 7)
        share = residual_epsilon_share(crowd, Fraction(epsilon))
        wanted = private_range.required_epsilon_share(
            1 - RESIDUAL_QUANTILE, users, Fraction(epsilon)
        )
        assert MIN_RESIDUAL_SHARE <= share <= MAX_RESIDUAL_SHARE
        if MIN_RESIDUAL_SHARE < wanted < MAX_RESIDUAL_SHARE:
            n_between += 1
            assert 0 <= share - wanted < Fraction(1, 1000)
    assert n_between
    plan = crowd_plan(epsilon=2)
    assert plan.allocation.clipping.stages.epsilon == 2 * residual_epsilon_share(CROWD, Fraction(2))


@pytest.mark.slow
def test_quantile_and_stretch_are_the_surest_that_can_be_found():
    """Many users can find quantiles further out; the stretch then is the one that goes with it."""
    for users in (300, 4000, 20_000):
        plan = planned(hv.Occupancy.from_dense(np.ones((users, 2), dtype=int)))
        quantile = plan.allocation.clipping.range.quantiles[0]
        sure = [
            q
            for q in QUANTILE_WIDENINGS
            if private_range.required_epsilon_share(q, users, Fraction(1))
            <= private_range.MAX_RANGE_SHARE
        ]
        assert quantile == (sure or list(QUANTILE_WIDENINGS)[-1:])[0]
        assert plan.allocation.clipping.stages.widening == QUANTILE_WIDENINGS[quantile]
        assert plan.allocation.clipping.range.widening in SINGLE_STAGE_WIDENINGS


def test_a_share_can_be_named():
    """The clipping range then costs just that part of ε, and h its own."""
    plan = planned(epsilon=2, range_share="0.25")
    assert plan.allocation.clipping.range.epsilon == Fraction(1, 2)
    assert plan.allocation.clipping.stages.epsilon == 2 * residual_epsilon_share(CROWD, Fraction(2))


@pytest.mark.slow
def test_no_other_number_of_classes_or_part_is_predicted_to_be_better(monkeypatch):
    """Each planned alone, none has a smaller predicted error."""
    rng = np.random.default_rng(6)
    crowd = hv.Occupancy.from_dense(1 + rng.poisson(3.0, (300, 6)))

    def error(plan):
        return np.hypot(
            *strategies.predict_user_residual_error(
                crowd, plan.allocation.clipping.stages, *strategies.EXPECTED_WIDTHS
            )
        ).mean()

    best = error(planned(crowd))
    for number in two_stage.CLUSTER_COUNTS:
        for part in CLUSTER_EPSILON_SHARES:
            monkeypatch.setattr(two_stage, "CLUSTER_COUNTS", (number,))
            monkeypatch.setattr(two_stage, "CLUSTER_EPSILON_SHARES", (part,))
            alone = planned(crowd)
            assert best <= error(alone) * (1 + 1e-9)
            classed, in_cells = alone.allocation.clipping.stages.losses(crowd)
            assert classed.max() / (classed + in_cells).max() <= float(part) * (1 + 1e-6)


def test_classes_of_few_users_are_not_made():
    """No class of the plan is smaller than `MIN_CLUSTER_USERS`, and there are 50 at most."""
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 4, (200, 5))
    counts[:, 0] += 1
    sizes = np.bincount(planned(hv.Occupancy.from_dense(counts)).allocation.clipping.stages.labels)
    assert sizes.min() >= MIN_CLUSTER_USERS
    assert sizes.size <= 50


@pytest.mark.slow
def test_the_same_counts_make_the_same_plan():
    """Nothing of it is chance, and each step is part of what is kept of it."""
    one = crowd_plan()
    np.random.seed(5)  # noqa: NPY002  the state that must not be used
    again = planned()
    assert encode(one) == encode(again)
    alone = hv.plan(CROWD, epsilon=1, bounds=(0, 60), clipping_range="private", advise=False)
    assert encode(one) != encode(alone)
    assert encode(one) != encode(planned(range_share="0.3"))


# What is refused


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"range_share": 0}, "range_share is the part of epsilon .* between 0 and 1, got 0"),
        ({"range_share": 1}, "range_share is the part of epsilon .* between 0 and 1, got 1"),
        (
            {"range_share": "0.95"},
            r"range_share 0.95 leaves nothing for the cells: the second step takes 0.1 of",
        ),
        ({"statistics": "sd"}, "'two-stage' goes with the mean alone"),
        ({"statistics": ("mean", "variance")}, "'two-stage' goes with the mean alone"),
        ({"method": "per-cell"}, """'two-stage' goes with method "joint", not 'per-cell'"""),
        ({"method": "clip-user"}, """'two-stage' goes with method "joint", not 'clip-user'"""),
        ({"objective": "max"}, """'two-stage' goes with objective "mean"."""),
        ({"error": "sum"}, "'two-stage' goes with error"),
        ({"epsilon": None, "target_error": 2}, "'two-stage' goes with epsilon, not target_error"),
        ({"split": "0.5"}, "split goes with"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options, said):
    """Each in one sentence."""
    with pytest.raises(InputError, match=said) as caught:
        planned(**options)
    assert str(caught.value).endswith(".")


def test_nobody_in_two_cells_is_refused():
    """There is nothing to compare then, and the sentence says what to ask for."""
    apart = hv.Occupancy.from_dense([[4, 0]] * 20 + [[0, 1]] * 20)
    with pytest.raises(InputError, match='no user was in two; ask for "private"'):
        planned(apart)
