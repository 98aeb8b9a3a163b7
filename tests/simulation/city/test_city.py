"""The city's door: what it takes, what it promises about its records."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.base.errors import InputError
from hexveil.simulation.city import City, feed


def table(city):
    """Return all records."""
    return pa.Table.from_batches(city.batches())


@pytest.fixture(scope="module")
def week():
    """Return a small city's week; a Sunday is its last day."""
    return table(City(users=60, days=7, seed=3, interval="2min"))


@given(
    users=st.integers(1, 30),
    days=st.integers(1, 3),
    seed=st.integers(0, 2**63 - 1),
    interval=st.sampled_from([300, "10min", "900s", 3600]),
)
@examples(12)
def test_any_city_has_sound_records(users, days, seed, interval):
    """Of any size and seed: the columns, whole plates, speeds in bounds, times in the days."""
    city = City(users, days, seed, "2024-02-28", interval)
    records = table(city)
    assert records.schema == city.schema
    assert len(pc.unique(records["license_plate"])) <= users
    speed = np.asarray(records["speed"])
    assert ((speed >= 0) & (speed <= 65)).all()
    clock = np.asarray(pc.local_timestamp(records["observationDateTime"]).cast(pa.timestamp("ms")))
    assert (clock >= np.datetime64("2024-02-28T04:00:00")).all()
    assert (clock < np.datetime64("2024-02-28T03:00:00") + np.timedelta64(days, "D")).all()


def test_the_same_arguments_give_the_same_records():
    """All arguments count, and nothing else does."""
    base = {"users": 12, "days": 1, "seed": 5, "start": "2024-03-04", "interval": 300}
    one = table(City(**base))
    assert one.equals(table(City(**base)))
    assert one.equals(table(City(**base | {"start": dt.date(2024, 3, 4), "interval": "5min"})))
    for name, other in (("seed", 6), ("users", 13), ("start", "2024-03-05"), ("interval", 240)):
        assert not one.equals(table(City(**base | {name: other})))


def test_more_days_begin_with_the_same_days():
    """A longer simulation has a shorter one as its beginning."""
    short = list(City(users=30, days=2, seed=9, interval=120).batches())
    long = list(City(users=30, days=4, seed=9, interval=120).batches())
    assert [a.equals(b) for a, b in zip(short, long[: len(short)], strict=True)] == [True] * 2


def test_batches_do_not_depend_on_their_order():
    """Each day of each block can be had alone, in any order."""
    city = City(users=9, days=2, seed=2, interval=1)
    expected = list(city.batches())
    blocks = city.n_batches // city.days
    assert blocks > 1
    for place in reversed(range(city.n_batches)):
        assert city.batch(place // blocks, place % blocks).equals(expected[place])


def test_batches_are_bounded():
    """However many the buses and however short the interval, a batch has so many records."""
    for users, interval in ((10**6, 3600), (10**6, 20), (10**6, 1)):
        city = City(users=users, days=1, interval=interval)
        assert 1 <= city.block <= 250
        assert city.block * 19 * 3600 // interval <= 400_000
        assert city.n_batches * city.block >= users


@pytest.mark.slow
def test_a_bus_is_at_one_place_at_a_time(week):
    """Records of one bus at one time are exact repeats, of a small share."""
    week = week.slice(5_000, 20_000)
    unique = week.group_by(week.schema.names[1:3]).aggregate([("speed", "count_distinct")])
    assert pc.max(unique["speed_count_distinct"]).as_py() == 1
    repeated = 1 - unique.num_rows / week.num_rows
    assert 0.01 < repeated < 0.03
    rows = {tuple(map(str, row.values())) for row in week.to_pylist()}
    assert len(rows) == unique.num_rows


def test_buses_are_no_faster_than_their_speeds(week):
    """From fix to fix a bus gets about as far as its reported speed allows."""
    metres = np.asarray(pc.list_flatten(pc.struct_field(week["location"], "coordinates")))
    metres = metres.reshape(-1, 2) * 111_195 * [np.cos(np.radians(21.2)), 1]
    second = np.asarray(week["observationDateTime"].cast(pa.int64())) / 1000
    plate = np.asarray(week["license_plate"].combine_chunks().dictionary_decode())
    passed = np.diff(second)
    near = (plate[1:] == plate[:-1]) & (passed > 0) & (passed <= 120)
    kmh = np.hypot(*np.diff(metres, axis=0).T)[near] / passed[near] * 3.6
    assert near.sum() > 10_000
    assert kmh.max() < 66
    assert 8 < kmh.mean() < 25


def test_some_work_much_more_than_others(week):
    """There are heavy and light users, days off, and fewer buses on Sunday."""
    records = np.sort(np.asarray(pc.value_counts(week["license_plate"]).field("counts")))
    assert records[-1] > 3 * np.median(records) / 2
    assert records[0] < np.median(records) / 4
    day = pc.day_of_week(pc.local_timestamp(week["observationDateTime"]))
    buses = [
        len(pc.unique(week.filter(pc.equal(day, number))["license_plate"])) for number in range(7)
    ]
    assert buses[6] < 0.8 * min(buses[:6])


def test_rush_hours_are_slower_and_busier(week):
    """Around 9 o'clock more buses are out than at noon, and they move more slowly than at night."""
    hour = pc.hour(pc.local_timestamp(week["observationDateTime"]))
    rush, noon, night = (week.filter(pc.equal(hour, number)) for number in (9, 13, 22))
    assert rush.num_rows > 1.1 * noon.num_rows
    moving = [np.asarray(part["speed"]) for part in (rush, night)]
    rush_speed, night_speed = (part[part > 0].mean() for part in moving)
    assert rush_speed < 0.9 * night_speed


def test_streets_are_lines_about_the_centre():
    """The streets are GeoJSON, and the records lie on them."""
    city = City(users=20, days=1, interval=300)
    lines = city.streets_geojson()
    assert lines["type"] == "MultiLineString"
    ends = np.array(lines["coordinates"])
    assert ends.shape[1:] == (2, 2)
    assert np.abs(ends.mean(axis=(0, 1)) - [74.9, 21.2]).max() < 0.02
    places = table(city)["location"].combine_chunks().field("coordinates")
    places = np.asarray(places.flatten()).reshape(-1, 2)
    assert (places > ends.min(axis=(0, 1)) - 0.001).all()
    assert (places < ends.max(axis=(0, 1)) + 0.001).all()
    first, along = ends[:, 0], ends[:, 1] - ends[:, 0]
    off = []
    for place in places[::200]:
        share = np.clip(((place - first) * along).sum(axis=1) / (along**2).sum(axis=1), 0, 1)
        off.append(np.hypot(*(place - first - share[:, None] * along).T).min() * 111_195)
    assert np.max(off) < 40


def test_a_day_on_which_nobody_works_has_no_records():
    """A city of one bus has days without records, and they are no error."""
    sizes = [b.num_rows for b in City(users=1, days=30, seed=4, interval=600).batches()]
    assert 0 in sizes
    assert max(sizes) > 0


def test_the_feed_knows_which_days_are_sundays():
    """Unix time began on a Thursday; the rule for Sundays agrees with the calendar."""
    sundays = [
        day.isoweekday() == 7
        for day in (dt.date(2023, 12, 28) + dt.timedelta(number) for number in range(30))
    ]
    assert sundays == [
        feed.is_sunday((dt.date(2023, 12, 28).toordinal() - 719_163 + number) * 86_400 - 19_800)
        for number in range(30)
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"users": 0}, "users must be a whole number from 1 to"),
        ({"users": 10**9}, "users must be"),
        ({"users": 2.5}, "users must be"),
        ({"days": 0}, "days must be a whole number from 1 to 3660, got 0"),
        ({"days": True}, "days must be"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"start": "2024-02-30"}, "start must be a date"),
        ({"start": "1970-06-01"}, "start must be a date from 1971 to 2080"),
        ({"start": 2024}, "start must be a date"),
        ({"interval": 0}, "interval must be from 1 to 3600 seconds"),
        ({"interval": "2h"}, "interval must be"),
        ({"interval": "61min"}, "interval must be"),
        ({"interval": True}, "interval must be"),
        ({"interval": 1.5}, "interval must be"),
    ],
)
def test_arguments_without_sense_are_refused(given, message):
    """The sentence names the argument and what came."""
    with pytest.raises(InputError, match=message):
        City(**given)


@pytest.mark.parametrize("place", [(-1, 0), (2, 0), (0, 1)])
def test_there_are_only_so_many_batches(place):
    """A day or block that is not there is refused."""
    with pytest.raises(InputError, match="must be a whole number from 0 to"):
        City(users=5, days=2, interval=600).batch(*place)
