"""`hexveil simulate`: an invented city in a file, and how to go on with it."""

import json

import pyarrow.parquet as pq
import pytest

SMALL = "--users 25 --days 2 --seed 3 --interval 5min"


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
    assert len({f"{time:%F}" for time in table["observationDateTime"].to_pylist()}) >= 2
    assert len(table["license_plate"].unique()) <= 25
    made = json.loads(call("simulate", SMALL, "--out again.parquet --json").out)
    assert made["records"] == table.num_rows
    assert pq.read_table(here / "again.parquet").equals(table)
    text = " ".join(said.out.split())
    assert "the records belong to nobody" in text
    assert f"{table.num_rows:,} records of 25 buses, 2 days from 2024-01-01" in text
    assert "hexveil map city.parquet" in text
    assert max(map(len, said.out.splitlines())) <= 100
    assert sorted(path.name for path in here.iterdir()) == ["again.parquet", "city.parquet"]


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
