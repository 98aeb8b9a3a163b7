"""Simulated private cars: repeatable, inside their box, unequal in use, with stated facts."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

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
