"""`hexveil simulate`: an invented city in a file, and how to go on with it."""

import json

import pyarrow.parquet as pq
import pytest

from hexveil.simulation.city import City

SMALL = "--users 25 --days 2 --seed 3 --interval 5min"
CITY = City(users=25, days=2, seed=3, interval=300)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_records_are_written(here, call):
    """The file holds the city's records; the text says that they are invented, and how to go on."""
    said = call("simulate", SMALL, "--out city.parquet")
    assert (said.code, said.err) == (0, "")
    table = pq.read_table(here / "city.parquet")
    assert table.num_rows == sum(batch.num_rows for batch in CITY.batches())
    text = " ".join(said.out.split())
    assert "the records belong to nobody" in text
    assert f"{table.num_rows:,} records of 25 buses, 2 days from 2024-01-01" in text
    assert "hexveil map city.parquet" in text
    assert max(map(len, said.out.splitlines())) <= 100
    assert [path.name for path in here.iterdir()] == ["city.parquet"]


def test_cars_are_written(here, call):
    """--vehicles cars makes private cars; the text says that the default promise does not fit."""
    cars = "--vehicles cars --users 50 --seed 3 --out cars.parquet"
    said = call("simulate", cars)
    assert (said.code, said.err) == (0, "")
    text = " ".join(said.out.split())
    assert "the default promise of hexveil does not fit them" in text
    assert "records of 50 cars" in text
    assert max(map(len, said.out.splitlines())) <= 100
    made = json.loads(call("simulate", cars, "--json").out)
    assert made["records"] == pq.read_table(here / "cars.parquet").num_rows
    assert (made["vehicles"], made["users"], made["days"]) == ("cars", 50, 1)
