"""What published days say about the next one: brute force, recovery, changes, and coverage."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.learning import published_day
from hexveil.learning.joint_law import NumberLaw, tilted, update
from hexveil.learning.memory import Deviations, Memory
from hexveil.learning.published_day import PublishedDay, summarize_day
from hexveil.learning.remembering import average_days, estimate_day, factor, forecast_day, remember
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

BOUNDS = (0.0, 60.0)
FIRST_DAY = 738_886  # a Monday
EDGES = np.linspace(*BOUNDS, 121)
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2.0
PLACES, SLOTS = 6, 4


def laplace_bins(numbers: np.ndarray, scale: float) -> np.ndarray:
    """Return the likelihood of averages under Laplace noise."""
    return np.exp(-np.abs(numbers[:, None] - MIDDLES) / scale)


def invented_days(n_days, scale, seed, changed=None):
    """Return published days with Laplace noise, and true averages; a change is (day, factor)."""
    rng = np.random.default_rng(seed)
    place, slot = (k.ravel() for k in np.indices((PLACES, SLOTS)))
    level = 25.0 + rng.normal(0, 6, PLACES)[place] + rng.normal(0, 2, SLOTS)[slot]
    days, truths = [], []
    for day in range(n_days):
        truth = level + rng.normal(0, 0.5) + rng.normal(0, 1.0, level.size)
        if changed and day >= changed[0]:
            truth = np.where(place == 0, truth * changed[1], truth)
        truth = np.clip(truth, *BOUNDS)
        noisy = truth + rng.laplace(0, scale, truth.size)
        days.append(
            PublishedDay(
                FIRST_DAY + day,
                np.char.add("place ", place.astype(str)),
                slot * 3600 * 6,
                BOUNDS,
                4.0,
                np.full(truth.size, 1 / 20),
                np.tile(EDGES, (truth.size, 1)),
                np.maximum(laplace_bins(noisy, scale), 1e-30),
                np.zeros(truth.size),
            )
        )
        truths.append(truth)
    return days, truths


def with_rows(day, rows):
    """Return a day of some of its cells."""
    names = ("place", "slot", "share_squares", "edges", "density", "lasting")
    return replace(day, **{name: getattr(day, name)[rows] for name in names})


@given(st.floats(5, 55), st.floats(0.5, 12), st.floats(5, 55), st.floats(0.3, 9))
def test_tilted_moments_are_those_of_numerical_integration(mean, sd, noisy, scale):
    """A normal number times a likelihood in bins has the moments of brute force."""
    density = laplace_bins(np.array([noisy]), scale)
    log_mass, centre, variance = tilted(
        np.array([mean]), np.array([sd**2]), EDGES[None], np.maximum(density, 1e-30)
    )
    x = np.linspace(mean - 12 * sd, mean + 12 * sd, 200_001)
    bins = np.clip(np.searchsorted(EDGES, x, side="right") - 1, 0, MIDDLES.size - 1)
    weight = np.exp(-0.5 * ((x - mean) / sd) ** 2) * np.maximum(density[0, bins], 1e-30)
    mass = weight.sum() * (x[1] - x[0]) / (sd * np.sqrt(2 * np.pi))
    average = (weight * x).sum() / weight.sum()
    assert np.exp(log_mass[0]) == pytest.approx(mass, rel=2e-3)
    assert centre[0] == pytest.approx(average, abs=0.01 * sd)
    spread = (weight * (x - average) ** 2).sum() / weight.sum()
    assert variance[0] == pytest.approx(spread, rel=0.02)


def test_the_joint_posterior_is_that_of_a_grid():
    """Two correlated numbers with Laplace noise: moments and evidence by brute force."""
    covariance, mean = np.array([[30.0, 18.0], [18.0, 25.0]]), np.array([28.0, 33.0])
    density = laplace_bins(np.array([20.0, 45.0]), 4.0)
    edges = np.tile(EDGES, (2, 1))
    own = np.array([4.0, 9.0])
    roots = np.linalg.cholesky(covariance - np.diag(own))
    seen = update(NumberLaw(mean, own, roots, own), edges, density, is_first=True)
    grid = np.stack(np.meshgrid(MIDDLES, MIDDLES, indexing="ij"), -1)
    away = grid - mean
    prior = np.exp(-0.5 * np.einsum("abi,ij,abj->ab", away, np.linalg.inv(covariance), away))
    weight = prior * density[0][:, None] * density[1][None]
    norm = 2 * np.pi * np.sqrt(np.linalg.det(covariance)) / (MIDDLES[1] - MIDDLES[0]) ** 2
    exact = np.einsum("ab,abi->i", weight, grid) / weight.sum()
    _, posterior, variance = tilted(seen.mean, seen.variance, edges, density)
    assert posterior == pytest.approx(exact, abs=0.05)
    assert seen.evidence == pytest.approx(np.log(weight.sum() / norm), abs=0.05)
    squares = np.einsum("ab,abi->i", weight, (grid - exact) ** 2) / weight.sum()
    assert variance == pytest.approx(squares, rel=0.05)


def test_earlier_days_make_estimates_better_and_intervals_hold():
    """The error falls below that of a day alone, and nine in ten intervals and more hold."""
    errors, alone, held = [], [], []
    for seed in range(3):
        days, truths = invented_days(14, 5.0, seed)
        given = remember(days)
        estimates = estimate_day(days[-1], given.forecast)
        errors.append(np.abs(estimates.estimate - truths[-1]).mean())
        held.append(((estimates.low <= truths[-1]) & (truths[-1] <= estimates.high)).mean())
        first = remember(days[-1:])
        own = estimate_day(days[-1], first.forecast).estimate
        alone.append(np.abs(own - truths[-1]).mean())
    assert np.mean(errors) < 0.65 * np.mean(alone)
    assert 0.9 <= np.mean(held) <= 1.0


def test_a_change_is_noticed_and_the_memory_shortens():
    """Half speed at one place from day 12: noticed in days, and right again soon after."""
    days, truths = invented_days(18, 3.0, 1, changed=(12, 0.5))
    by = remember(days[:10]).deviations
    given = remember(days, by)
    assert [c for c in given.changes if c.since in (11, 12, 13)]
    calm = remember(days[:12], by)
    assert not calm.changes
    estimates = estimate_day(days[-1], given.forecast)
    assert np.abs(estimates.estimate - truths[-1])[:SLOTS].mean() < 3.0


@pytest.mark.slow
def test_a_lasting_error_is_not_averaged_out():
    """An error that recurs every day stays in the interval, however many days there are."""
    days, _ = invented_days(12, 0.3, 5)
    with_error = [replace(day, lasting=np.full(day.slot.size, 2.0)) for day in days]
    by, widths = Deviations.usual(60.0, 4.0), []
    for chain in (days, with_error):
        made = estimate_day(chain[-1], remember(chain, by).forecast)
        widths.append(np.mean(made.high - made.low))
    # Parts of an interval add up in squares; what recurs has 2 * 1.96 * 0.55 * 2.
    assert np.sqrt(widths[1] ** 2 - widths[0] ** 2) > 0.75 * 4.3


def test_cells_come_and_go():
    """A cell without numbers on some days keeps its level; new ones begin like their place."""
    days, truths = invented_days(8, 2.0, 3)
    some = with_rows(days[4], np.arange(days[4].slot.size) % 3 > 0)
    chain = [*days[:4], some, *days[5:]]
    estimates = estimate_day(days[-1], remember(chain).forecast)
    assert np.abs(estimates.estimate - truths[-1]).mean() < 2.0
    assert Memory(chain).n_cells == days[0].slot.size


def test_a_forecast_is_that_of_the_joint_law_of_all_numbers():
    """Normal numbers of a Sunday give Monday's forecast by the covariances of the model."""
    (day,), _ = invented_days(1, 2.0, 3)
    noisy, noise = 25.0 + np.arange(day.slot.size) % 7, 9.0
    numbers = np.exp(-0.5 * (noisy[:, None] - MIDDLES) ** 2 / noise)
    lasting = np.linspace(1.0, 3.0, day.slot.size)
    sunday = replace(day, day=day.day + 6, density=np.maximum(numbers, 1e-30), lasting=lasting)
    monday = replace(sunday, day=day.day + 7, density=np.ones_like(numbers), lasting=2 * lasting)
    by = Deviations(6.0, 3.0, 1.5, 5.0, 1.0, 0.8, 2.0, 0.5)
    of_place, of_slot = (np.equal.outer(k, k) for k in (day.place, day.slot))
    levels = 20.0**2 + by.place**2 * of_place + by.slot**2 * of_slot
    levels = levels + by.cell**2 * np.eye(noisy.size)
    of_day = by.day**2 + np.diag((by.within**2 + by.user**2 / 20) * Memory([sunday]).multiples)
    stays = np.diag(published_day.LASTING_PRIOR**2 * lasting**2)
    known = levels + stays + of_day + by.weekend**2 * (1.0 + of_slot / 2.0)
    shared = levels + 2 * stays
    gain = np.linalg.solve(known + noise * np.eye(noisy.size), shared).T
    drift = by.drift**2 * np.eye(noisy.size)
    variance = np.diag(levels + 4 * stays + of_day + drift - gain @ shared)
    found = forecast_day([sunday], monday, by)
    assert found.mean == pytest.approx(30.0 + gain @ (noisy - 30.0), abs=0.01)
    assert found.deviation == pytest.approx(np.sqrt(variance), rel=0.005)


def test_estimates_do_not_depend_on_what_was_forecast_before():
    """A day's estimates begin where its forecast ended: to the last bit those of the days alone."""
    days, _ = invented_days(9, 2.0, 3, changed=(4, 0.5))
    alone = [remember(days[:n], Deviations.usual(60.0, 4.0)).forecast for n in (7, 9, 7)]
    forecast_day(days[:6], days[6], Deviations.usual(60.0, 4.0))
    again = remember(days[:7], Deviations.usual(60.0, 4.0)).forecast
    for one in (alone[2], again):
        assert all(
            np.array_equal(*pair) for pair in zip(*map(astuple, (one, alone[0])), strict=True)
        )


@pytest.mark.slow
def test_deviations_are_fitted_in_turn_for_the_next_day():
    """A day of a long series begins with those stated, and states them with one fitted at most."""
    days, fitted = [with_rows(day, np.arange(3)) for day in invented_days(40, 2.0, 3)[0]], []
    by = np.array(astuple(Deviations.usual(60.0, 4.0)))
    for n in range(18, 41):
        given, before = remember(days[:n], Deviations(*by)), by
        alone = forecast_day(days[: n - 1], days[n - 1], Deviations(*by))
        assert np.array_equal(given.forecast.mean, alone.mean)
        by = np.array(astuple(given.deviations))
        fitted.append(by != before)
    assert np.sum(fitted, axis=1).max() == 1 < np.any(fitted, axis=0).sum()


def test_a_wide_prior_ends_where_its_numbers_are():
    """Numbers in narrow ranges, under a wide prior of what all share: sweeps settle within it."""
    rng, edges, same = np.random.default_rng(8), np.tile(EDGES, (24, 1)), np.ones(24)
    level = 25.0 + rng.normal(0, 5, 24)
    noisy = level + rng.normal(0, 2, 24) + rng.laplace(0, 3.0, 24)
    shown = np.clip(MIDDLES, level[:, None] - 6.0, level[:, None] + 6.0)
    density = np.exp(-np.abs(noisy[:, None] - shown) / 3.0)
    prior = NumberLaw(30 * same, 25 * same, 60 * same[:, None], same)
    assert update(prior, edges, density, is_first=True).mean.mean() == pytest.approx(24, abs=4)


def summarize(noisy, lower, upper, scale, difference_squares=0.0):
    """Return a day of two cells of 30 users, each with a share, by its look."""
    same = np.full(2, 1 / 30)
    design = CellDesign(np.full(2, 30), same, same, np.full(2, difference_squares), 0 * same)
    look = ClippedLook(*(np.array(one) + np.zeros(2) for one in (noisy, lower, upper, scale)))
    where = FIRST_DAY, np.array(["a", "b"]), np.zeros(2, dtype=np.int64)
    return summarize_day(where, [look], design, UserMeanSpread(22.0, 6.0, 6.0, 4.0), BOUNDS)


def test_a_day_is_summarized_by_its_looks():
    """The likelihood in bins has its mass near a number of little noise, wide of a noisy one."""
    day = summarize(20.0, 0.0, 60.0, [0.2, 20.0])
    mass = day.density * np.diff(day.edges, axis=1)
    centre = np.sum(mass * (day.edges[:, 1:] + day.edges[:, :-1]) / 2, axis=1) / mass.sum(axis=1)
    assert centre[0] == pytest.approx(20.0, abs=0.3)
    assert np.array_equal(day.density, day.density.astype(np.float32))
    assert day.lasting[0] < 1.0
    # A range that cuts leaves an error that recurs.
    assert summarize(20.0, 15.0, 21.0, 0.2).lasting.min() > 2 * day.lasting.max()


def test_the_misfit_is_counted_once():
    """What lasts of it is in the state of the memory; the likelihood of a day has the rest."""
    day = summarize(30.0, 0.0, 60.0, 0.01, 0.5)
    _, _, variance = tilted(np.full(2, 30.0), np.full(2, 1e6), day.edges, day.density)
    same_on_all_days = (published_day.LASTING_PRIOR * day.lasting) ** 2
    assert variance + same_on_all_days == pytest.approx(day.lasting**2, rel=0.06)  # of bins


@pytest.mark.parametrize(("true", "expected"), [(0.3, 0.71), (1.0, 1.0), (2.0, 2.0)])
def test_numbers_show_by_which_factor_forecasts_are_off(true, expected):
    """With many days it is found, but for small ones; without any there is room for more."""
    days, truths = invented_days(20, 1.0, 4)
    logs = []
    for day, truth in zip(days, truths, strict=True):
        # Forecasts that are off by a deviation of 3, times the factor.
        mean = truth + 3.0 * true * np.random.default_rng(day.day).normal(size=truth.size)
        logs.append(day.log_factors(mean, np.full(truth.size, 9.0)))
    assert factor(np.array(logs)) == pytest.approx(expected, rel=0.1)
    assert 1.2 < factor(np.zeros((1, len(logs[0])))) < 1.4


@pytest.mark.slow
def test_averages_over_days_are_right_and_their_intervals_hold():
    """The month is nearer than its days, with intervals that hold; so are kinds of days."""
    errors, naive, held = [], [], []
    for seed in range(3):
        days, truths = invented_days(14, 5.0, seed)
        weights = [np.full(day.slot.size, 10) for day in days]
        workdays = np.array([k for k, day in enumerate(days) if not day.is_weekend])
        for group in (np.arange(14), workdays):
            (made,) = average_days(days, weights, [group])
            truth = np.mean([truths[k] for k in group], axis=0)
            order = np.lexsort((days[0].slot, days[0].place))
            assert made.place.tolist() == days[0].place[order].tolist()
            assert (made.days == group.size).all()
            away = np.abs(made.mean - truth[order])
            errors.append(away.mean())
            held.append((away < 1.96 * made.deviation).mean())
            numbers = [MIDDLES[days[k].density.argmax(axis=1)] for k in group]
            naive.append(np.abs(np.mean(numbers, axis=0) - truth).mean())
    assert np.mean(errors) < 0.8 * np.mean(naive)
    assert np.mean(held) > 0.9


def test_the_average_over_one_day_is_that_of_the_joint_law():
    """Of a single day it is the posterior of its truth, without what lasts."""
    days, _ = invented_days(1, 0.01, 2)
    (made,) = average_days(days, [np.ones(days[0].slot.size)], [np.array([0])])
    order = np.lexsort((days[0].slot, days[0].place))
    assert made.mean == pytest.approx(MIDDLES[days[0].density.argmax(axis=1)][order], abs=0.6)
