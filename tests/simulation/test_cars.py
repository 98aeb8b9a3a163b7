"""Simulated private cars: repeatable, inside their box, unequal in use."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hexveil_research.cars import BOX, UTC_OFFSET, CarCity

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


def test_a_file_has_the_records(table, tmp_path):
    """All of them, with the share of the work that is done; use of cars is unequal."""
    told = []
    assert CITY.write(tmp_path / "cars.parquet", progress=told.append) == table.num_rows
    assert pq.read_table(tmp_path / "cars.parquet").cast(table.schema).equals(table)
    assert told == [0.5, 1.0]
    counts = np.sort(table["car"].value_counts().field("counts").to_numpy())[::-1]
    assert counts[: counts.size // 10].sum() > 0.2 * counts.sum()
