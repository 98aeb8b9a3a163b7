"""`hexveil simulate`: records of an invented city, for trying the other commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting, progress_bar

if TYPE_CHECKING:
    from hexveil.simulation.city import City

INVENTED = (
    "Streets, routes, buses and speeds are simulated; the records belong to nobody. The columns "
    "are those of the bus feed of Surat (ITMS)."
)

READ = (
    "--user license_plate --value speed --bounds 0,65 --location location.coordinates "
    "--time observationDateTime --timezone Asia/Kolkata"
)
"""The options by which the other commands read these records."""
GRID = "--privacy-unit user-day --resolution 6 --timeslot 6h --slot pooled"
"""A unit and a grid that even a small city supports."""

Users = Annotated[int, typer.Option(help="Number of buses.", metavar="NUMBER")]
Days = Annotated[int, typer.Option(help="Number of days.", metavar="NUMBER")]
Seed = Annotated[
    int, typer.Option(help="Seed: the same options give the same records.", metavar="NUMBER")
]
Start = Annotated[str, typer.Option(help="First day.", metavar="DATE")]
Interval = Annotated[
    str,
    typer.Option(help="Time between two fixes of a bus, for example 20s or 1min.", metavar="TEXT"),
]
Out = Annotated[
    Path,
    typer.Option(
        help="File for the records: .parquet, .csv, .json, .ndjson or .jsonl. An existing file "
        "is replaced.",
        metavar="FILE",
    ),
]
Streets = Annotated[
    Path | None,
    typer.Option(
        help="File for the streets, as GeoJSON, for --context of a release.", metavar="FILE"
    ),
]


def simulate(  # noqa: PLR0913  the options of the command
    *,
    out: Out,
    users: Users = 300,
    days: Days = 7,
    seed: Seed = 1,
    start: Start = "2024-01-01",
    interval: Interval = "20s",
    streets: Streets = None,
    as_json: AsJson = False,
) -> None:
    """Write records of buses in an invented city, in the form of a real feed.

    The same options give the same records; a longer period begins with the same days.
    """
    # Routes are found by scipy, which the other commands do not wait for.
    from hexveil.simulation.city import City  # noqa: PLC0415

    city = City(users=users, days=days, seed=seed, start=start, interval=interval)
    if streets is not None:
        # Before the simulation, which may take minutes.
        check_streets(streets, out)
    with progress_bar.progress_bar("Simulating") as tell:
        records = city.write(out, progress=tell)
    if streets is not None:
        write_streets(city, streets)
    summary = report(city, records, out, streets)
    typer.echo(json.dumps(summary, indent=2) if as_json else "\n".join(lines(summary)))


def check_streets(path: Path, out: Path) -> None:
    """Raise InputError if the streets cannot have this name."""
    if path.resolve() == out.resolve():
        raise InputError("--out and --streets name the same file; use two names.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it, or name another.")


def write_streets(city: City, path: Path) -> None:
    """Write the streets to a file, in place of any of that name."""
    try:
        atomic_files.write(path, json.dumps(city.streets_geojson()).encode())
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({atomic_files.reason(error)}); name another file."
        ) from None


def report(city: City, records: int, out: Path, streets: Path | None) -> dict[str, Any]:
    """Return a summary of the simulation."""
    summary: dict[str, Any] = {"users": city.users, "days": city.days, "seed": city.seed}
    summary |= {"start": str(city.start), "interval_seconds": city.interval, "records": records}
    return summary | {"files": [str(path) for path in (out, streets) if path is not None]}


def lines(summary: dict[str, Any]) -> list[str]:
    """Return the summary as text, with the next command."""
    days = "1 day" if summary["days"] == 1 else f"{summary['days']} days"
    size = (
        f"{summary['records']:,} records of {summary['users']:,} buses, {days} from "
        f"{summary['start']}, a fix every {summary['interval_seconds']} seconds"
    )
    return [
        *formatting.wrapped("Invented", INVENTED),
        *formatting.wrapped("Size", f"{size}; some fixes are missing."),
        *formatting.wrapped("Written", ", ".join(summary["files"])),
        *formatting.wrapped("Next", f"hexveil inspect {summary['files'][0]} {READ} {GRID}"),
    ]
