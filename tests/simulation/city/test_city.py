"""The city's door: what it takes, what it promises about its records."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil.cli import main

TEXT = pa.dictionary(pa.int32(), pa.string())
PLACE = pa.struct([("type", pa.string()), ("coordinates", pa.list_(pa.float64()))])
COLUMNS = {
    "observationDateTime": pa.timestamp("ms", "Asia/Kolkata"),
    "license_plate": TEXT,
    "route_id": TEXT,
    "location": PLACE,
    "speed": pa.float64(),
}


def simulate(path, *words, **options):
    """Return the exit code of the command, which writes a city to a file."""
    chosen = [f"--{name}={value}" for name, value in options.items()]
    return main(["simulate", *chosen, "--out", str(path), *words])


def table(**options):
    """Return all records of a city."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "city.parquet"
        assert simulate(path, **options) == 0
        return pq.read_table(path)


@given(
    users=st.integers(1, 30),
    days=st.integers(1, 3),
    seed=st.integers(0, 2**63 - 1),
    interval=st.sampled_from([300, "10min", "900s", 3600]),
)
@examples(12)
def test_any_city_has_sound_records(users, days, seed, interval):
    """Of any size and seed: the columns, whole plates, speeds in bounds, times in the days."""
    records = table(users=users, days=days, seed=seed, start="2024-02-28", interval=interval)
    assert dict(zip(records.schema.names, records.schema.types, strict=True)) == COLUMNS
    assert len(pc.unique(records["license_plate"])) <= users
    speed = np.asarray(records["speed"])
    assert ((speed >= 0) & (speed <= 65)).all()
    clock = np.asarray(pc.local_timestamp(records["observationDateTime"]).cast(pa.timestamp("ms")))
    assert (clock >= np.datetime64("2024-02-28T04:00:00")).all()
    assert (clock < np.datetime64("2024-02-28T03:00:00") + np.timedelta64(days, "D")).all()


def test_the_same_arguments_give_the_same_records():
    """All arguments count, and nothing else does."""
    base = {"users": 12, "days": 1, "seed": 5, "start": "2024-03-04", "interval": 300}
    one = table(**base)
    assert one.equals(table(**base | {"interval": "5min"}))
    for name, other in (("seed", 6), ("users", 13), ("start", "2024-03-05"), ("interval", 240)):
        assert not one.equals(table(**base | {name: other}))


def test_more_days_begin_with_the_same_days():
    """A longer simulation has a shorter one as its beginning."""
    short, long = (table(users=30, days=days, seed=9, interval=120) for days in (2, 4))
    assert 0 < short.num_rows < long.num_rows
    assert long.slice(0, short.num_rows).to_pylist() == short.to_pylist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"users": 0}, "users must be a whole number from 1 to"),
        ({"users": 10**9}, "users must be"),
        ({"days": 0}, "days must be a whole number from 1 to 3660, got 0"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"start": "2024-02-30"}, "start must be a date"),
        ({"start": "1970-06-01"}, "start must be a date from 1971 to 2080"),
        ({"start": 2024}, "start must be a date"),
        ({"interval": 0}, "interval must be from 1 to 3600 seconds"),
        ({"interval": "2h"}, "interval must be"),
        ({"interval": "61min"}, "interval must be"),
        ({"interval": 1.5}, "interval must be"),
        ({"out": "city.csv"}, "must end in .parquet"),
        ({"out": "city"}, "must end in .parquet"),
        ({"out": "folder.parquet"}, "is a folder; name a file"),
        ({"out": "missing/city.parquet"}, "there is no folder"),
    ],
)
def test_arguments_without_sense_are_refused(tmp_path, capsys, given, message):
    """The sentence names the argument and what came; nothing is written."""
    (tmp_path / "folder.parquet").mkdir()
    given = {"users": 1, "days": 1, "interval": 3600, "out": "city.parquet"} | given
    assert simulate(tmp_path / given.pop("out"), **given) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.rglob("*")] == ["folder.parquet"]


# ---- The city in a file: whole or not at all ----


def test_a_file_is_read_as_records(tmp_path):
    """hv.read finds the records of every bus-day, and refuses none."""
    assert simulate(tmp_path / "city.parquet", users=40, days=2, seed=8, interval=120) == 0
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


def test_empty_days_are_written(tmp_path, capsys):
    """Batches without records, first and between, leave a file that can be read."""
    path = tmp_path / "one.parquet"
    assert simulate(path, "--json", users=1, days=30, seed=4, interval=600) == 0
    assert pq.read_table(path).num_rows == json.loads(capsys.readouterr().out)["records"]


def test_failing_midway_leaves_what_was_there(tmp_path, monkeypatch, capsys):
    """A disk that is full is said; the old file stays, and nothing of the new one."""
    path, written = tmp_path / "city.parquet", []
    path.write_text("before")

    def write(_, batch):
        if written:
            raise OSError(28, "No space left on device")
        written.append(batch)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", write)
    assert simulate(path, users=10, days=2, interval=600) == 1
    assert "No space left on device" in " ".join(capsys.readouterr().err.split())
    assert len(written) == 1
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]
