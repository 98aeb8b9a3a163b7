"""`hexveil compare`: the changes from one release folder to another, at no cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.work_share import FOLDER_CHECK, WRITING, parts_of_work
from hexveil.cli.commands.roll_up_command import (
    check_output,
    requested_grid,
    show_derived,
)
from hexveil.cli.output import formatting
from hexveil.publishing.derived.release_comparison import compare_releases
from hexveil.publishing.derived.roll_up import roll_up_release
from hexveil.publishing.markup import clean
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.cli import declarations
    from hexveil.publishing.derived.release_comparison import ReleaseComparison


def compare(options: declarations.CompareOptions) -> None:
    """Compare two release folders cell by cell, from their noisy numbers alone."""
    check_output(options.out, options.context)
    grid = requested_grid(options)
    releases: list[Any] = [options.before, options.after]
    with show_progress("Comparing releases", FOLDER_CHECK):
        if grid is not None:
            releases = [
                roll_up_release(folder, grid, statistic=options.statistic, key=options.key)
                for folder in parts_of_work(FOLDER_CHECK, (options.before, options.after))
            ]
        comparison = compare_releases(
            *releases,
            statistic=options.statistic,
            slots=options.slots,
            false_discovery_rate=options.false_discovery_rate,
            key=options.key,
        )
    if options.out is not None:
        with show_progress(WRITING):
            comparison.write(options.out, context=options.context)
    show_derived(comparison, lines, options.out, as_json=options.as_json)


def lines(comparison: ReleaseComparison) -> list[str]:
    """Return lines about a comparison."""
    texts = comparison.texts()
    pairing = formatting.wrapped("Pairs", clean(texts["pairing"])) if texts["pairing"] else []
    return [
        *formatting.wrapped("Changed", texts["verdicts"]),
        *pairing,
        *formatting.wrapped("Rate", texts["discoveries"]),
        *formatting.wrapped("Covered", texts["covers"]),
        *formatting.wrapped("Beware", texts["not_covered"]),
        *formatting.wrapped("Cost", texts["cost"]),
    ]
