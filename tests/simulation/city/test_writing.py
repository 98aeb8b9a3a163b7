"""The city in files: every kind says the same, whole or not at all."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from hexveil.base.errors import InputError, StorageError
from hexveil.simulation import writing
from hexveil.simulation.city import City, feed

SMALL = City(users=40, days=2, seed=8, interval=120)
KINDS = ("parquet", "csv", "json", "ndjson", "jsonl")
NAMES = (
    "id", "observationDateTime", "license_plate", "vehicle_label", "route_id", "trip_id",
    "trip_direction", "actual_trip_start_time", "trip_delay", "last_stop_id",
    "last_stop_arrival_time", "location", "speed",
)  # fmt: skip


def no_progress(_):
    """Take no notice."""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the small city in a file of each kind."""
    folder = tmp_path_factory.mktemp("city")
    paths = {kind: folder / f"city.{kind}" for kind in KINDS}
    rows = {SMALL.write(path) for path in paths.values()}
    assert rows == {sum(batch.num_rows for batch in SMALL.batches())}
    assert sorted(folder.iterdir()) == sorted(paths.values())
    return paths


def read(path, **options):
    """Return the dataset as a user of hexveil reads it."""
    return hv.read(
        path,
        user="license_plate",
        value="speed",
        location="location.coordinates",
        time="observationDateTime",
        bounds=(0, 65),
        cells=hv.Cells(resolution=6, timeslot="6h", timezone="Asia/Kolkata"),
        max_bad_rows=0,
        **options,
    )


@pytest.mark.slow
def test_every_kind_reads_alike(files):
    """hv.read finds the same users, cells, counts and sums in every kind of file."""
    sets = [read(path, privacy_unit="user-day") for path in files.values()]
    sums = [
        (s.sums.total.tolist(), s.occupancy.n.tolist(), s.occupancy.cell.tolist()) for s in sets
    ]
    assert sets[0].occupancy.n_users > 40
    assert sums[0] == sums[1] == sums[2] == sums[3] == sums[4]


def test_repeats_are_dropped_in_reading(files):
    """What is sent twice counts once, and is a small share."""
    kept, dropped = (
        read(files["parquet"], repeats=rule, select=hv.Select(min_users=1)).occupancy.n.sum()
        for rule in ("keep", "drop")
    )
    assert 1.01 < kept / dropped < 1.03
    assert kept == pq.read_metadata(files["parquet"]).num_rows


@pytest.mark.slow
def test_records_have_the_schema_of_the_feed(files, shared):
    """JSON records have the fields of real ones, in kind as well as in name."""
    real = json.loads((shared / "data/itms_sample/itms_sample.json").read_text())
    ours = json.loads(files["json"].read_text())
    assert {frozenset(record) for record in ours} == {frozenset(real[0])}

    def kinds(records, name):
        found = {type(record[name]).__name__ for record in records}
        return {"number" if kind in ("int", "float") else kind for kind in found}

    for name in NAMES:
        assert kinds(ours, name) - {"NoneType"} == kinds(real, name) - {"NoneType"}
    for name in ("observationDateTime", "actual_trip_start_time", "last_stop_arrival_time"):
        one, other = (next(r[name] for r in rows if r[name]) for rows in (ours, real))
        shape = [("0" if letter.isdigit() else letter) for letter in other]
        assert [("0" if letter.isdigit() else letter) for letter in one] == shape
    assert {record["trip_direction"] for record in ours} == {"UP", "DN"}
    assert all(r["route_id"].endswith(r["trip_direction"][0]) for r in ours)


def test_json_is_an_array_or_lines(files):
    """A .json file is one array with a record a line; the others have the records alone."""
    text = files["json"].read_text().splitlines()
    assert (text[0], text[-1]) == ("[", "]")
    lines = files["ndjson"].read_text().splitlines()
    assert [line.rstrip(",") for line in text[1:-1]] == lines
    assert files["jsonl"].read_bytes() == files["ndjson"].read_bytes()
    assert list(json.loads(lines[0])) == list(NAMES)


@pytest.mark.slow
def test_csv_and_parquet_say_the_same(files):
    """Text of CSV, objects of JSON and columns of Parquet are the same records."""
    with files["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    objects = [json.loads(line) for line in files["ndjson"].read_text().splitlines()]
    table = pq.read_table(files["parquet"]).to_pylist()
    assert len(rows) == len(objects) == len(table)
    for row, record, entry in list(zip(rows, objects, table, strict=True))[::97]:
        assert json.loads(row["location.coordinates"]) == record["location"]["coordinates"]
        assert entry["location"] == record["location"]
        assert float(row["speed"]) == record["speed"] == entry["speed"]
        assert entry["observationDateTime"].isoformat() == record["observationDateTime"]
        assert (row["trip_delay"] or None) == (
            None if record["trip_delay"] is None else str(record["trip_delay"])
        )
        for name in ("license_plate", "trip_id", "observationDateTime", "route_id"):
            assert row[name] == record[name]


def test_the_same_city_is_the_same_file(tmp_path, files):
    """Not only the records, the bytes repeat."""
    for kind in ("parquet", "csv"):
        City(40, 2, 8, "2024-01-01", "2min").write(tmp_path / f"again.{kind}")
        assert (tmp_path / f"again.{kind}").read_bytes() == files[kind].read_bytes()


def test_progress_goes_from_first_to_last_batch(tmp_path):
    """The share of the work done grows to one."""
    told = []
    City(users=3, days=4, interval=600).write(tmp_path / "x.csv", progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("kind", KINDS)
def test_empty_days_are_written(tmp_path, kind):
    """Batches without records, first and between, leave a file that can be read."""
    city = City(users=1, days=30, seed=4, interval=600)
    rows = city.write(tmp_path / f"one.{kind}")
    text = (tmp_path / f"one.{kind}").read_bytes()
    if kind == "parquet":
        assert pq.read_table(tmp_path / "one.parquet").num_rows == rows
    elif kind == "json":
        assert len(json.loads(text)) == rows
    else:
        assert text.count(b"\n") == rows + (kind == "csv")


def test_no_records_at_all_are_a_file(tmp_path):
    """Without any batch a file is empty, not broken."""
    for kind in KINDS:
        assert writing.write(tmp_path / f"none.{kind}", (feed.SCHEMA, []), no_progress) == 0
    assert json.loads((tmp_path / "none.json").read_text()) == []
    assert pq.read_table(tmp_path / "none.parquet").schema.names == list(NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_failing_midway_leaves_what_was_there(tmp_path, kind):
    """A disk that fails is a StorageError; the old file stays, and nothing of the new one."""
    path = tmp_path / f"city.{kind}"
    path.write_text("before")

    def batches():
        yield from City(users=10, days=1, interval=600).batches()
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="No space left on device"):
        writing.write(path, (feed.SCHEMA, batches()), no_progress)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("city.xlsx", r"must end in one of \.parquet, \.csv"),
        ("city", "must end in one of"),
        ("folder.csv", "is a folder; name a file"),
        ("missing/city.csv", "there is no folder"),
    ],
)
def test_paths_that_cannot_be_files_are_refused(tmp_path, name, message):
    """Before any work, and in one sentence."""
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=message):
        writing.write(tmp_path / name, (feed.SCHEMA, iter([pa.nulls(1)])), no_progress)
