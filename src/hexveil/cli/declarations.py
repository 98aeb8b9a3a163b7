"""The commands with their options: one declaration each, which loads no library.

The bodies: `commands/`, a file each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from hexveil.cli.options import Declaration, RunDeclaration

_BODIES = "hexveil.cli.commands"
# The command stands in the folder of its run file when a path is used.
_PATH = {"resolve_path": True}
FirstDay = Annotated[str | None, typer.Option("--from", help="First local day.", metavar="DATE")]
LastDay = Annotated[str | None, typer.Option("--to", help="Last local day.", metavar="DATE")]
Seed = Annotated[int, typer.Option(help="Seed of the simulation.", metavar="NUMBER")]
Trials = Annotated[int, typer.Option(help="Simulations per mechanism.", metavar="NUMBER")]
NewFolder = Annotated[
    Path | None, typer.Option(help="New folder for tables and page.", metavar="FOLDER")
]
ReleaseFolder = Annotated[Path, typer.Argument(help="A release folder.", metavar="FOLDER")]
PublicKey = Annotated[
    Path | None,
    typer.Option(help="The holder's public key: folders must be signed with it.", metavar="FILE"),
]
CellStatistic = Annotated[
    str | None,
    typer.Option(
        help="mean, variance, sd, p85, share<30, users; default the first.", metavar="NAME"
    ),
]


# ---- publish ----


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Declaration):
    """Create a map of real flights, or of an invented city, in ./demo-out."""

    home = f"{_BODIES}.demo_command"
    example = "hexveil demo --city"

    city: Annotated[
        bool,
        typer.Option(
            "--city", help="Use a month of buses in an invented city instead of real flights."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class InspectOptions(RunDeclaration):
    """Show the grids that a fleet supports, and three runs; --init drafts a run file.

    Values are shown by --check-values alone. Without an epsilon, grids are compared at 1. A draft:
    hexveil inspect records.parquet --init > run.toml
    """

    home = f"{_BODIES}.inspect_command"
    example = "hexveil inspect buses.toml --epsilon 1"

    init: Annotated[
        bool,
        typer.Option("--init", help="Draft a run file from the names and types of the columns."),
    ] = False
    trust_header: Annotated[
        bool,
        typer.Option(
            "--trust-header",
            help="With --init: the first line of CSV files has names, whatever it is.",
        ),
    ] = False
    sql: Annotated[
        str | None,
        typer.Option(
            help="Print the query of the sums: duckdb, postgres, bigquery or spark.",
            metavar="DIALECT",
        ),
    ] = None
    propose: Annotated[
        Path | None,
        typer.Option(help="Write a proposed run to a new run file.", metavar="FILE", **_PATH),
    ] = None
    choice: Annotated[
        str | None,
        typer.Option(
            help="With --propose: finest, balanced (default) or accurate.", metavar="TEXT"
        ),
    ] = None
    check_values: Annotated[
        bool,
        typer.Option(
            "--check-values",
            help="PRIVATE: look for wrong units, sentinels and bounds, on your terminal only.",
        ),
    ] = False
    from_records: Annotated[
        bool,
        typer.Option(
            "--from-records",
            help="PRIVATE, under presence: how many records each rule kept, on your terminal.",
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PlanOptions(RunDeclaration):
    """Show price and expected error of a release; nothing is spent.

    With --from and --to: which days pass, and a grid for all of them.
    """

    home = f"{_BODIES}.plan_command"
    example = "hexveil plan buses.toml --resolution 5 --epsilon 3"

    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare all planning methods, for means within an epsilon also all mechanisms.",
        ),
    ] = False
    grids: Annotated[
        bool | None,
        typer.Option(
            "--grids/--no-grids",
            help="Print the table of other grids and privacy units, or skip the proposed one.",
        ),
    ] = None
    curve: Annotated[
        Path | None,
        typer.Option(
            help="Draw price against error: a new .png and .svg of this name.",
            metavar="FILE",
            **_PATH,
        ),
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(
            help="Save this plan in a new folder for review. For tomorrow's records keep the "
            "goal (the run file).",
            metavar="FOLDER",
            **_PATH,
        ),
    ] = None
    first_day: FirstDay = None
    last_day: LastDay = None


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions(RunDeclaration):
    """Publish a map: book the price, draw the noise once, write the folder."""

    home = f"{_BODIES}.release_command"
    example = "hexveil release buses.toml --out map"

    from_plan: Annotated[
        Path | None,
        typer.Option(
            help="Release a plan written by plan --save instead of planning again; refused if the "
            "occupancy (who reported how often where) has changed since. For tomorrow's records "
            "keep the goal (the run file), not the plan.",
            metavar="FOLDER",
            **_PATH,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the price and the files; book, draw and write nothing."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PublishOptions(RunDeclaration):
    """Publish the maps of local days, each in a folder below `out`.

    Repeating a day costs nothing, and continues an unfinished one. `latest.json` names the
    official release.
    """

    home = f"{_BODIES}.publish_command"
    example = "hexveil publish buses.toml --date 2026-11-20 --out maps"

    date: Annotated[
        str | None, typer.Option(help="Local day, for example 2026-11-20.", metavar="DATE")
    ] = None
    first_day: FirstDay = None
    last_day: LastDay = None
    revise: Annotated[
        bool, typer.Option("--revise", help="Like --set publish.late=revise, for this run only.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the price; publish and book nothing.")
    ] = False


# ---- check releases ----


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Declaration):
    """Check a release folder: its files, tables, losses and signature.

    Of an archive of `hexveil publish`, check each current release and the catalogue. Exit 0 if the
    folder is unchanged, 2 if not. Needs no ledger and no records.
    """

    home = f"{_BODIES}.verify_command"
    example = "hexveil verify map"

    folder: Annotated[
        Path, typer.Argument(help="A release folder, or an archive of publish.", metavar="FOLDER")
    ]
    key: PublicKey = None


@dataclass(frozen=True, kw_only=True)
class DossierOptions(Declaration):
    """Write the document that a privacy officer completes and signs.

    It is derived from a release folder, which is verified: public metadata, and fields to complete.
    It draws no legal conclusion.
    """

    home = f"{_BODIES}.dossier_command"
    example = "hexveil dossier map --out dossier.md"

    folder: ReleaseFolder
    out: Annotated[
        Path | None,
        typer.Option(help="File for the text (.md). An existing file is replaced.", metavar="FILE"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CoarserOptions(Declaration):
    """Options of a coarser grid, and of the folder and the page of derived numbers."""

    out: NewFolder = None
    context: Annotated[
        Path | None, typer.Option(help="GeoJSON file beneath the map.", metavar="FILE")
    ] = None
    resolution: Annotated[
        str | None,
        typer.Option(help='Resolution of parent hexagons, or "all".', metavar="NUMBER"),
    ] = None
    timeslot: Annotated[
        str | None, typer.Option(help='Longer timeslots, like 1d, or "all".', metavar="TEXT")
    ] = None
    columns: Annotated[
        str | None, typer.Option(help="Label columns to keep.", metavar="TEXT,...")
    ] = None
    one_cell: Annotated[bool, typer.Option("--one-cell", help="All cells together.")] = False
    statistic: CellStatistic = None
    key: PublicKey = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions(CoarserOptions):
    """Compare two release folders cell by cell; nothing is spent.

    Noisy numbers suffice: neither records nor a ledger are needed. With --resolution, --timeslot,
    --columns or --one-cell both are rolled up first.
    """

    home = f"{_BODIES}.compare_command"
    example = "hexveil compare monday tuesday --out changes"

    before: Annotated[Path, typer.Argument(help="A release folder.", metavar="BEFORE")]
    after: Annotated[
        Path, typer.Argument(help="Another, of the same grid and bounds.", metavar="AFTER")
    ]
    slots: Annotated[
        tuple[str, str] | None,
        typer.Option(help="A timeslot of each, like 08:00 17:00.", metavar="SLOT SLOT"),
    ] = None
    false_discovery_rate: Annotated[
        float,
        typer.Option(
            help="Share of the cells called changed that may be called so wrongly.",
            metavar="NUMBER",
        ),
    ] = 0.05


@dataclass(frozen=True, kw_only=True)
class RollUpOptions(CoarserOptions):
    """Average a release folder over coarser cells; nothing is spent.

    Noisy numbers suffice: neither records nor a ledger are needed. Cells are weighted by their
    public counts of records; under private presence by noisy weights, and numbers of units add up.
    """

    home = f"{_BODIES}.roll_up_command"
    example = "hexveil roll-up map --timeslot 1d --out days"

    folder: ReleaseFolder


# ---- study ----


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(RunDeclaration):
    """Compare mechanisms on one cell by simulation; nothing is spent.

    The cell comes from the records, or from a file of counts; a table without places or labels is
    one cell. Values are simulated, or those of the records: then all output is PRIVATE.
    """

    home = f"{_BODIES}.evaluate_command"
    example = "hexveil evaluate --counts counts.json --values normal:20,10 --bounds 0,65"
    left_out: ClassVar[tuple[str, ...]] = ("plan", "release", "publish", "ledger")

    counts: Annotated[
        Path | None,
        typer.Option(
            help="Samples per user: a .json list, or a .csv or .parquet column.",
            metavar="FILE",
            **_PATH,
        ),
    ] = None
    cell: Annotated[
        str | None,
        typer.Option(help="Cell of the records: name, number, or 'HEXAGON SLOT'.", metavar="TEXT"),
    ] = None
    values: Annotated[
        str | None,
        typer.Option(
            help="Simulated values instead of the records' own, for example normal:20,10.",
            metavar="KIND:NUMBER,...",
        ),
    ] = None
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="Mechanism, for example 'Levy(gamma=0.2)'; repeatable. [default: all]",
            metavar="TEXT",
        ),
    ] = None
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="Epsilons to compare, for example 0.5,1,2.", metavar="NUMBER,..."),
    ] = None
    trials: Trials = 10_000
    seed: Seed = 0
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the table and the figure.", metavar="FOLDER", **_PATH),
    ] = None


class Vehicles(StrEnum):
    """Kinds of vehicles that are simulated."""

    BUSES = "buses"
    CARS = "cars"


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(Declaration):
    """Write records of buses or private cars in an invented city.

    The same options give the same records; a longer period begins with the same days.
    """

    home = f"{_BODIES}.simulate_command"
    example = "hexveil simulate --users 300 --days 7 --seed 1 --out city.parquet"

    out: Annotated[
        Path,
        typer.Option(
            help="File for the records: .parquet, .csv, .json, .ndjson or .jsonl. An existing "
            "file is replaced.",
            metavar="FILE",
        ),
    ]
    vehicles: Annotated[
        Vehicles,
        typer.Option(
            help="Kind of vehicles: buses on routes, or private cars between home, work and "
            "elsewhere."
        ),
    ] = Vehicles.BUSES
    users: Annotated[
        int | None,
        typer.Option(
            help="Number of vehicles. Default: 300 buses, or 10000 cars.", metavar="NUMBER"
        ),
    ] = None
    days: Annotated[
        int | None,
        typer.Option(help="Number of days. Default: 7 of buses, 1 of cars.", metavar="NUMBER"),
    ] = None
    seed: Seed = 1
    start: Annotated[str, typer.Option(help="First day.", metavar="DATE")] = "2024-01-01"
    interval: Annotated[
        str,
        typer.Option(
            help="Time between two fixes of a bus, for example 20s or 1min.", metavar="TEXT"
        ),
    ] = "20s"
    streets: Annotated[
        Path | None,
        typer.Option(
            help="File for the streets, as GeoJSON, for the context of a release.", metavar="FILE"
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class HelpOptions(Declaration):
    """Explain a command, or list the fields of a run file.

    A topic is a command, "fields", or a section of the run file such as "fields plan".
    """

    home = f"{_BODIES}.help_command"
    example = "hexveil help fields plan"

    topic: Annotated[
        list[str] | None, typer.Argument(help="A command, or fields.", metavar="[TOPIC]...")
    ] = None
