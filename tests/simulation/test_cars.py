"""Simulated private cars: repeatable, inside their box, unequal in use, with stated facts."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hexveil.base.errors import InputError, StorageError
from hexveil.simulation.cars import BOX, UTC_OFFSET, CarCity

CITY = CarCity(cars=300, days=2, seed=4)


@pytest.fixture(scope="module")
def table():
    """Return the records of a small city."""
    return pa.Table.from_batches(CITY.batches())


def test_the_same_arguments_give_the_same_records(table):
    """Another seed gives others; a longer period begins with the same days."""
    again = pa.Table.from_batches(CITY.batches())
    assert again.equals(table)
    assert not pa.Table.from_batches(CarCity(cars=300, days=2, seed=5).batches()).equals(table)
    first = next(CarCity(cars=300, days=1, seed=4).batches())
    assert pa.Table.from_batches([first]).equals(table.slice(0, first.num_rows))


def test_records_lie_in_the_stated_box_and_days(table):
    """Places, local days and speeds stay within what is said of them."""
    west, south, east, north = BOX
    lat, lon, speed = (table[name].to_numpy() for name in ("lat", "lon", "speed"))
    assert (south <= lat).all()
    assert (lat <= north).all()
    assert (west <= lon).all()
    assert (lon <= east).all()
    assert (speed >= 0).all()
    assert (speed <= 130).all()
    local = (table["time"].cast("int64").to_numpy() + UTC_OFFSET) / 86_400
    first = (dt.date(2024, 1, 1) - dt.date(1970, 1, 1)).days
    assert first <= local.min()
    assert local.max() < first + 2


def test_cars_drive_by_day_and_slower_in_the_rush(table):
    """Most records lie between 6 and 23; speeds at 8 are below those at noon."""
    hour = (table["time"].cast("int64").to_numpy() + UTC_OFFSET) // 3600 % 24
    speed = table["speed"].to_numpy()
    assert ((hour >= 6) & (hour < 23)).mean() > 0.9
    assert speed[hour == 8].mean() < speed[(hour >= 11) & (hour <= 13)].mean() - 1


def test_statistics_are_those_of_the_file(table, tmp_path):
    """Stated numbers are counted from the records; use is unequal."""
    told = []
    stated = CITY.write(tmp_path / "cars.parquet", progress=told.append)
    read = pq.read_table(tmp_path / "cars.parquet")
    assert read.cast(table.schema).equals(table)
    counts = np.sort(read["car"].value_counts().field("counts").to_numpy())[::-1]
    assert (stated.records, stated.cars) == (read.num_rows, counts.size)
    assert stated.median_records == np.median(counts)
    assert stated.busiest_tenth == pytest.approx(counts[: counts.size // 10].sum() / counts.sum())
    assert stated.busiest_tenth > 0.2
    assert told == list(range(1, CITY.n_batches + 1))


def test_csv_has_the_same_records(tmp_path):
    """The other kind of file."""
    small = CarCity(cars=20, seed=2)
    small.write(tmp_path / "cars.csv")
    read = pa.csv.read_csv(tmp_path / "cars.csv")
    assert read.num_rows == sum(batch.num_rows for batch in small.batches())
    assert read.column_names == ["car", "time", "lat", "lon", "speed"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cars": 0}, "cars must be"),
        ({"days": 400}, "days must be"),
        ({"seed": -1}, "seed must be"),
        ({"start": "monday"}, "start must be a date"),
    ],
)
def test_wrong_sizes_are_refused(arguments, message):
    """The message names what is wrong."""
    with pytest.raises(InputError, match=message):
        CarCity(**arguments)


def test_nothing_stays_of_a_file_that_cannot_be_written(tmp_path, monkeypatch):
    """Names are checked first; an error while writing leaves nothing behind."""
    for name in ("cars.json", "no/cars.csv"):
        with pytest.raises(InputError):
            CITY.write(tmp_path / name)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    with pytest.raises(StorageError, match="cannot be written"):
        CITY.write(tmp_path / "cars.parquet")
    assert list(tmp_path.iterdir()) == []
