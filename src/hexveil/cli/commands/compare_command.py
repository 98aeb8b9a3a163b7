"""`hexveil compare`: the changes from one release folder to another, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hexveil.base.work_share import FOLDER_CHECK, WRITING, parts_of_work
from hexveil.cli.commands.roll_up_command import (  # the parser reads annotations
    Columns,
    Context,
    Key,
    OneCellOnly,
    Resolution,
    Timeslot,
    check_output,
    requested_grid,
    show_derived,
)
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting
from hexveil.publishing.derived import derived_folder
from hexveil.publishing.derived.release_comparison import DEFAULT_RATE, compare_releases
from hexveil.publishing.derived.roll_up import roll_up_release
from hexveil.publishing.markup import clean
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.publishing.derived.release_comparison import ReleaseComparison

Before = Annotated[Path, typer.Argument(help="A release folder.", metavar="BEFORE")]
After = Annotated[
    Path, typer.Argument(help="Another, of the same grid and bounds.", metavar="AFTER")
]
Out = Annotated[Path | None, typer.Option(help="New folder for tables and page.", metavar="FOLDER")]
Statistic = Annotated[
    str | None,
    typer.Option(
        help="mean, variance, sd, p85, share<30, users; default the first.", metavar="NAME"
    ),
]
Slots = Annotated[
    tuple[str, str] | None,
    typer.Option(help="A timeslot of each, like 08:00 17:00.", metavar="SLOT SLOT"),
]
Rate = Annotated[
    float,
    typer.Option(
        "--false-discovery-rate",
        help="Share of the cells called changed that may be called so wrongly.",
        metavar="NUMBER",
    ),
]


def compare(  # noqa: PLR0913  an option per argument
    before: Before,
    after: After,
    *,
    out: Out = None,
    context: Context = None,
    statistic: Statistic = None,
    slots: Slots = None,
    rate: Rate = DEFAULT_RATE,
    resolution: Resolution = None,
    timeslot: Timeslot = None,
    columns: Columns = None,
    one_cell: OneCellOnly = False,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Compare two release folders cell by cell, from their noisy numbers alone.

    Nothing is spent, and neither records nor a ledger are needed. With --resolution, --timeslot,
    --columns or --one-cell both are rolled up first.
    """
    check_output(out, context)
    grid = requested_grid(resolution, timeslot, columns, one_cell=one_cell)
    releases: list[Any] = [before, after]
    with show_progress("Comparing releases", FOLDER_CHECK):
        if grid is not None:
            releases = [
                roll_up_release(folder, grid, statistic=statistic, key=key)
                for folder in parts_of_work(FOLDER_CHECK, (before, after))
            ]
        comparison = compare_releases(
            *releases, statistic=statistic, slots=slots, false_discovery_rate=rate, key=key
        )
    if out is not None:
        with show_progress(WRITING):
            comparison.write(out, context=context)
    show_derived(comparison, lines, out, as_json=as_json)


def lines(comparison: ReleaseComparison) -> list[str]:
    """Return lines about a comparison."""
    texts = derived_folder.texts_of(comparison.table, comparison.statement)
    pairing = formatting.wrapped("Pairs", clean(texts["pairing"])) if texts["pairing"] else []
    return [
        *formatting.wrapped("Changed", texts["verdicts"]),
        *pairing,
        *formatting.wrapped("Rate", texts["discoveries"]),
        *formatting.wrapped("Covered", texts["covers"]),
        *formatting.wrapped("Beware", texts["not_covered"]),
        *formatting.wrapped("Cost", texts["cost"]),
    ]
