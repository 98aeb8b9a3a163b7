"""`hexveil simulate`: records of an invented city, for trying the other commands."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import tell_share
from hexveil.cli import formatting
from hexveil.records.progress import show_progress
from hexveil_research.invented_arguments import MOST_DAYS, check_integer, to_date, to_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.cli.formatting import Row
    from hexveil_research.simulate_command import SimulateOptions

INVENTED = (
    "Streets, routes, buses and speeds are simulated; the records belong to nobody. The columns "
    "are named as in the bus feed of Surat (ITMS)."
)
CARS = (
    "Homes, trips, cars and speeds are simulated; the records belong to nobody. Where such cars "
    "are is private: the default promise of hexveil does not fit them."
)
SIMULATING = "Simulating"
"""Name of this work, of which parts are told."""
DEFAULT_SIZE = {"buses": (300, 7), "cars": (10_000, 1)}
"""Vehicles and days without options."""


def simulate(options: SimulateOptions) -> None:
    """Write records of buses or private cars in an invented city."""
    default_users, default_days = DEFAULT_SIZE[options.vehicles]
    users = default_users if options.users is None else options.users
    days = default_days if options.days is None else options.days
    start = to_date(options.start)
    common: dict[str, Any] = {"days": days, "seed": options.seed, "start": start}
    is_bus = options.vehicles == "buses"
    if options.streets is not None:
        # Before the simulation, which may take minutes.
        check_streets(options.streets, options.out, are_there=is_bus)
    city: Any
    # Routes are found by scipy, which the other commands do not wait for.
    if is_bus:
        from hexveil.simulation.city import City  # noqa: PLC0415
        from hexveil.simulation.city.fleet import MOST_USERS  # noqa: PLC0415

        limits = {"users": (1, MOST_USERS), "days": (1, MOST_DAYS), "seed": (0, 2**63 - 1)}
        city = City(users=users, interval=to_seconds(options.interval), **common)
        for name, ends in limits.items():
            check_integer(name, getattr(city, name), *ends)
    else:
        from hexveil_research.cars import CarCity  # noqa: PLC0415

        city = CarCity(cars=users, **common)
    if options.out.suffix != ".parquet":
        raise InputError(f"{options.out.name}: the name of the file must end in .parquet.")
    check_place(options.out)
    file = options.out
    try:
        with show_progress(SIMULATING):
            records = city.write(file, progress=partial(tell_share, SIMULATING))
        if options.streets is not None:
            file = options.streets
            atomic_files.write(file, json.dumps(city.streets_geojson()).encode())
    except OSError as error:
        raise StorageError(
            f"{file} cannot be written ({atomic_files.reason(error)}); make room or name another "
            "file."
        ) from None
    summary = {"vehicles": options.vehicles, "users": users} | common
    summary |= {"start": str(start), "records": records}
    if is_bus:
        summary["interval_seconds"] = city.interval
    summary["files"] = [str(path) for path in (options.out, options.streets) if path is not None]
    formatting.show(lambda: summary_rows(summary), lambda: summary, as_json=options.as_json)


def check_streets(path: Path, out: Path, *, are_there: bool) -> None:
    """Raise InputError if there are no streets, or if they cannot have this name."""
    if not are_there:
        raise InputError("cars have no streets to write; leave --streets out.")
    if path.resolve() == out.resolve():
        raise InputError("--out and --streets name the same file; use two names.")
    check_place(path)


def check_place(path: Path) -> None:
    """Raise InputError if a file cannot have this name."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it, or name another.")


def summary_rows(summary: dict[str, Any]) -> list[Row]:
    """Return the summary as text, of buses with the next command."""
    days = "1 day" if summary["days"] == 1 else f"{summary['days']} days"
    vehicles, interval = summary["vehicles"], summary.get("interval_seconds")
    how = f"a fix every {interval} seconds; some fixes are missing"
    how = how if interval else "a record each 250 m; some cars stand still"
    size = f"{summary['records']:,} records of {summary['users']:,} {vehicles}, {days}"
    return [
        ("Invented", INVENTED if interval else CARS),
        ("Size", f"{size} from {summary['start']}, {how}."),
        ("Written", ", ".join(summary["files"])),
        ("Next", f"hexveil map {summary['files'][0]}" if interval else None),
    ]
