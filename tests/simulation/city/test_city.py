"""The city's door: what it takes, what it promises about its records."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

import hexveil as hv
from examples import examples
from hexveil.simulation.city import SCHEMA, City, fleet, motion, streets, write_parquet


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
    assert records.schema == SCHEMA
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


@pytest.mark.slow
def test_a_bus_is_at_one_place_at_a_time(week):
    """Records of one bus at one time are exact repeats, of a small share."""
    week = week.slice(5_000, 20_000)
    unique = week.group_by(week.schema.names[:2]).aggregate([("speed", "count_distinct")])
    assert pc.max(unique["speed_count_distinct"]).as_py() == 1
    repeated = 1 - unique.num_rows / week.num_rows
    assert 0.01 < repeated < 0.03
    rows = {tuple(map(str, row.values())) for row in week.to_pylist()}
    assert len(rows) == unique.num_rows


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
    with pytest.raises(hv.InputError, match=message):
        City(**given)


# ---- How buses move: speeds and places fit together, chains have no gaps ----


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
        moving=moving, entry=entry.astype(np.float32), top=top.astype(np.float32),
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


# ---- Streets and routes: one piece, of the right size, and routes that follow the streets ----


@pytest.fixture(scope="module")
def laid():
    """Return the streets of a city of 300 buses."""
    return streets.lay(300, np.random.default_rng(5))


def test_streets_are_one_piece(laid):
    """Every crossing can be reached, each street is there once, and its ends are neighbours."""
    pieces, _ = connected_components(laid.matrix(), directed=False)
    assert pieces == 1
    assert (laid.tail < laid.head).all()
    pairs = np.stack([laid.tail, laid.head], axis=1)
    assert len(np.unique(pairs, axis=0)) == len(pairs)
    assert set(laid.tail) | set(laid.head) == set(range(laid.x.size))
    apart = np.hypot(laid.x[laid.tail] - laid.x[laid.head], laid.y[laid.tail] - laid.y[laid.head])
    np.testing.assert_allclose(laid.length, apart)
    assert laid.length.min() > 0.2 * streets.SPACING
    assert laid.length.max() < 2 * streets.SPACING


@given(users=st.integers(1, 400), seed=st.integers(0, 10**6))
@examples(25)
def test_any_city_has_routes_that_can_be_driven(users, seed):
    """Each route's two ways have legs, lead to and fro, and lie on the streets they name."""
    generator = np.random.default_rng(seed)
    laid = streets.lay(users, generator)
    network = streets.draw(laid, users, generator)
    legs = network.legs
    assert (legs.count[:, : streets.DOWN + 1] > 0).all()
    assert (legs.count[:, streets.UP] == legs.count[:, streets.DOWN]).all()
    assert legs.count.sum() == legs.x.size
    assert network.share.sum() == pytest.approx(1)
    ends = np.append(legs.first.ravel(), legs.x.size)
    joined = np.ones(legs.x.size, bool)
    joined[ends[ends < legs.x.size]] = False
    gap = np.hypot(*(np.diff(at) - along[:-1] for at, along in
                     ((legs.x, legs.dx), (legs.y, legs.dy))))  # fmt: skip
    assert gap[joined[1:]].max() < 0.1
    on_street = np.bincount(legs.street, legs.length, laid.length.size)
    used = np.bincount(legs.street, minlength=laid.length.size) > 0
    assert (on_street[used] > 0.999 * laid.length[used]).all()


# ---- The city in a file: whole or not at all ----


def no_progress(_):
    """Take no notice."""


def test_a_file_is_read_as_records(tmp_path):
    """hv.read finds the records of every bus-day, and refuses none."""
    city = City(users=40, days=2, seed=8, interval=120)
    rows = city.write(tmp_path / "city.parquet")
    assert rows == table(city).num_rows
    found = hv.read(
        tmp_path / "city.parquet",
        user="license_plate",
        value="speed",
        location="location.coordinates",
        time="observationDateTime",
        bounds=(0, 65),
        cells=hv.Cells(resolution=6, timeslot="6h", timezone="Asia/Kolkata"),
        max_bad_rows=0,
        privacy_unit="user-day",
    )
    assert found.occupancy.n_users > 40


def test_empty_days_are_written(tmp_path):
    """Batches without records, first and between, leave a file that can be read."""
    rows = City(users=1, days=30, seed=4, interval=600).write(tmp_path / "one.parquet")
    assert pq.read_table(tmp_path / "one.parquet").num_rows == rows


def test_failing_midway_leaves_what_was_there(tmp_path):
    """A disk that fails is a StorageError; the old file stays, and nothing of the new one."""
    path = tmp_path / "city.parquet"
    path.write_text("before")

    def batches():
        yield from City(users=10, days=1, interval=600).batches()
        raise OSError(28, "No space left on device")

    with pytest.raises(hv.StorageError, match="No space left on device"):
        write_parquet(path, SCHEMA, batches(), no_progress)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("city.csv", r"must end in \.parquet"),
        ("city", r"must end in \.parquet"),
        ("folder.parquet", "is a folder; name a file"),
        ("missing/city.parquet", "there is no folder"),
    ],
)
def test_paths_that_cannot_be_files_are_refused(tmp_path, name, message):
    """Before any work, and in one sentence."""
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(hv.InputError, match=message):
        write_parquet(tmp_path / name, SCHEMA, iter([pa.nulls(1)]), no_progress)
