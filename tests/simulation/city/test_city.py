"""The city's door: what it takes, what it promises about its records."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil.simulation.city import SCHEMA, City, write_parquet


def table(city):
    """Return all records."""
    return pa.Table.from_batches(city.batches())


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
