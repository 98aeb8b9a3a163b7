"""How buses move: speeds and places fit together, chains have no gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.simulation.city import City, fleet, motion
from hexveil.simulation.city.streets import DOWN, HOME_FROM_FIRST, HOME_FROM_LAST, OUT, UP

USERS = 60


@pytest.fixture(scope="module")
def ground():
    """Return the streets, routes and buses of a small city."""
    return City(users=USERS, days=1, seed=6)._ground


@pytest.fixture(scope="module")
def day(ground):
    """Return one Monday: duties, runs and legs driven."""
    generator = np.random.default_rng(3)
    duties = fleet.duties(ground.fleet, slice(0, USERS), sunday=False, generator=generator)
    factors = motion.street_factors(ground.streets.length.size, generator)
    return (duties, *motion.drive(ground, duties, factors, generator))


def test_a_duty_is_out_to_and_fro_and_home(ground, day):
    """From the depot, trips in turn, and home from the terminal where the last trip ended."""
    duties, runs, _ = day
    for duty in range(duties.user.size):
        way = runs.way[runs.duty == duty].tolist()
        trips = len(way) - 2
        assert trips >= 1
        assert way[0] == OUT
        assert way[1:-1] == [UP, DOWN] * (trips // 2) + [UP] * (trips % 2)
        assert way[-1] == (HOME_FROM_FIRST if trips % 2 == 0 else HOME_FROM_LAST)


def test_legs_follow_one_another_in_time_and_place(ground, day):
    """A leg begins when and where the one before it ended; speeds at the seam agree."""
    duties, runs, driven = day
    legs = ground.network.legs
    duty = runs.duty[driven.run]
    same = duty[1:] == duty[:-1]
    assert (driven.start[1:][same] == driven.end[:-1][same]).all()
    assert (driven.entry[1:][same] == driven.leave[:-1][same]).all()
    first = np.flatnonzero(np.append([True], ~same))
    np.testing.assert_allclose(driven.start[first], duties.start[duty[first]])
    for at, along in ((legs.x, legs.dx), (legs.y, legs.dy)):
        begin, end = at[driven.leg], (at + along)[driven.leg]
        assert np.abs(begin[1:] - end[:-1])[same].max() < 0.1
    assert (np.bincount(duty) > 0).all()


def test_speeds_stay_in_their_limits(day):
    """No leg begins or ends faster than its top speed, and all take time."""
    _, _, driven = day
    assert (driven.entry <= driven.top + 1e-5).all()
    assert (driven.leave <= driven.top + 1e-5).all()
    assert driven.top.max() <= motion.FASTEST / 3.6 + 1e-4
    assert (driven.moving > 0).all()
    assert (driven.end - driven.start - driven.moving > -1e-6).all()


@given(
    length=st.floats(150, 900),
    speeds=st.tuples(st.floats(0, 10), st.floats(2, 18), st.floats(0, 10)),
)
def test_the_way_is_the_integral_of_the_speed(length, speeds):
    """Adding up the speed gives the share of the leg at every moment, and all of it at the end."""
    entry, cruise, leave = (np.array([number]) for number in speeds)
    top, moving = motion._top_speed(np.array([length]), entry, cruise, leave)
    driven = motion.Drive(
        leg=np.zeros(1, int), run=np.zeros(1, int), start=np.zeros(1), end=moving + 30,
        moving=moving, due=moving, entry=entry.astype(np.float32), top=top.astype(np.float32),
        leave=leave.astype(np.float32),
    )  # fmt: skip

    class Legs:
        length = np.array([0.0], dtype=np.float32)

    Legs.length = np.array([length], dtype=np.float32)
    second = np.linspace(0.0, float(moving[0]) * 0.999999, 4_001)
    share, speed = motion.observe(Legs, driven, np.zeros(second.size, int), second)
    way = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(second))])
    assert np.abs(way / length - share).max() < 2e-3
    assert share[-1] == pytest.approx(1, abs=1e-3)
    assert np.abs(np.diff(speed)).max() <= motion.ACCELERATION * second[1] * 1.05 + 1e-4
    share, speed = motion.observe(Legs, driven, np.zeros(1, int), moving + 10)
    assert (share[0], speed[0]) == (pytest.approx(1, abs=1e-6), 0)


def test_every_moment_has_one_fix(day):
    """Fixes are one interval apart all through a duty, and lie in their legs."""
    _, runs, driven = day
    for interval in (7, 60, 900):
        phase = np.full(driven.run.size, 3)
        of, second = motion.moments(driven, phase, interval)
        assert (second % interval == 3 % interval).all()
        assert (second >= driven.start[of]).all()
        assert (second < driven.end[of]).all()
        duty = runs.duty[driven.run][of]
        assert (np.diff(second)[duty[1:] == duty[:-1]] == interval).all()
        length = (driven.end.max() - driven.start.min()) / interval
        assert np.bincount(duty).max() <= length + 1


def test_the_timetable_is_kept_about(ground):
    """Buses come home about when they are due, none is cut off by hours as a rule."""
    generator = np.random.default_rng(1)
    duties = fleet.duties(ground.fleet, slice(0, USERS), sunday=False, generator=generator)
    factors = motion.street_factors(ground.streets.length.size, generator)
    runs, driven = motion.drive(ground, duties, factors, generator)
    duty = runs.duty[driven.run]
    home = driven.end[np.flatnonzero(np.append(duty[1:] != duty[:-1], [True]))]
    assert np.abs(np.median(home - duties.end)) < 3600
    assert np.mean(home > duties.until) < 0.05


def test_duties_of_a_bus_do_not_meet(ground):
    """No bus reports in two duties at once, nor from 3 to 4 at night."""
    for seed in range(20):
        duties = fleet.duties(
            ground.fleet, slice(0, USERS), sunday=False, generator=np.random.default_rng(seed)
        )
        assert (np.diff(duties.user) >= 0).all()
        same = np.diff(duties.user) == 0
        assert (duties.until[:-1][same] == duties.start[1:][same]).all()
        assert duties.start.min() >= 4 * 3600
        assert duties.until.max() <= 27 * 3600
        assert (duties.until > duties.start).all()


def test_reported_speeds_are_whole_or_have_a_decimal():
    """A halt is exactly 0; others are rounded, never above the public bound."""
    generator = np.random.default_rng(2)
    speed = np.concatenate([np.zeros(500), generator.uniform(0.1, 25, 2_000)]).astype(np.float32)
    few = np.arange(speed.size) % 2 == 0
    kmh = motion.reported(speed, few, generator)
    assert (kmh[:500] == 0).all()
    assert kmh.max() == 65
    assert (kmh[~few] % 1 == 0).all()
    np.testing.assert_allclose(kmh * 10, np.rint(kmh * 10), atol=1e-9)
    assert np.mean(kmh[few] % 1 > 0) > 0.5
    inside = (speed > 0) & (speed < 17)
    assert np.abs(kmh - 3.6 * speed)[inside].max() < 4


def test_the_timetable_adds_up_halts_and_driving(ground):
    """A leg takes longer if it ends at a stop or at lights, by the nominal halt."""
    legs = ground.network.legs
    seconds = fleet.leg_seconds(ground)
    free = legs.length * 3.6 / (fleet.SHARE * ground.streets.speed[legs.street])
    halts = (legs.stop >= 0) | legs.light
    np.testing.assert_allclose(seconds - free, np.where(halts, fleet.HALT, 0), atol=1e-3)
    assert 0.2 < halts.mean() < 0.9
