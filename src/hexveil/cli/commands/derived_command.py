"""`hexveil roll-up` and `hexveil compare`: numbers that follow from release folders, at no cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, WRITING, parts_of_work
from hexveil.cli.output import formatting
from hexveil.publishing.derived.coarser_cells import EVERYTHING, CoarserGrid
from hexveil.publishing.derived.derived_table import DerivedColumns, DerivedTable, check_writable
from hexveil.publishing.derived.release_comparison import ReleaseComparison, compare_releases
from hexveil.publishing.derived.roll_up import RolledUpRelease, roll_up_release
from hexveil.publishing.markup import clean
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexveil.cli import declarations


_Derived = TypeVar("_Derived", bound=DerivedTable)

MAX_LINES = 10
"""Averages that are printed; the folder has all."""


def roll_up(options: declarations.RollUpOptions) -> None:
    """Average a release folder over coarser cells, from its noisy numbers alone."""
    check_output(options.out, options.context)
    grid = requested_grid(options) or CoarserGrid()
    with show_progress("Rolling up", FOLDER_CHECK):
        averages = roll_up_release(
            options.folder, grid, statistic=options.statistic, key=options.key
        )
    if options.out is not None:
        with show_progress(WRITING):
            averages.write(options.out, context=options.context)
    show_derived(averages, roll_up_lines, options.out, as_json=options.as_json)


def show_derived(
    derived: _Derived | DerivedColumns[_Derived],
    describe: Callable[[_Derived], list[str]],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print a roll-up or a comparison of one value column, or of several one after the other."""
    columns = derived.tables if isinstance(derived, DerivedColumns) else {"": derived}
    if as_json:
        content = {column: _json(table, out) for column, table in columns.items()}
        printed = content.get("", {"columns": content})
        typer.echo(json.dumps(printed, indent=2, ensure_ascii=False, default=str))
        return
    texts: list[str] = []
    for column, table in columns.items():
        texts += formatting.wrapped("Column", clean(column)) if column else []
        texts += describe(table)
    written = [] if out is None else formatting.wrapped("Written", str(out))
    typer.echo("\n".join([*texts, *written]))


def _json(derived: DerivedTable, out: Path | None) -> dict[str, Any]:
    """Return the statement as JSON data, with the cells unless a folder has them."""
    rows: dict[str, Any] = {} if out is not None else {"cells": derived.table.to_pylist()}
    return derived.statement | rows


def check_output(out: Path | None, context: Path | None) -> None:
    """Refuse a folder that cannot be made, and a context without a page to draw it on.

    Raises
    ------
    InputError
        With what to do instead.
    """
    if out is not None:
        check_writable(out)
    elif context is not None:
        raise InputError("--context draws on the page of a folder; name one (--out FOLDER).")


def requested_grid(options: declarations.CoarserOptions) -> CoarserGrid | None:
    """Return the coarser grid that options request; None without any.

    Raises
    ------
    InputError
        If the resolution is neither a number nor "all".
    """
    grid = CoarserGrid(
        _resolution(options.resolution),
        options.timeslot,
        None
        if options.columns is None
        else tuple(name.strip() for name in options.columns.split(",")),
        options.one_cell,
    )
    return None if grid.is_empty else grid


def roll_up_lines(averages: RolledUpRelease) -> list[str]:
    """Return lines about a roll-up: its averages, if they are few."""
    texts = averages.texts()
    unit = texts["unit"]
    statistic = averages.statement["statistic"]
    rows = averages.table.slice(0, MAX_LINES).to_pylist()
    cells = [
        f"{row['cell']}: {_amount(row[statistic], statistic)}{unit and ' '}{unit} "
        f"({_amount(row[f'{statistic}_low'], statistic)} to "
        f"{_amount(row[f'{statistic}_high'], statistic)})"
        for row in rows
    ]
    if len(averages) > MAX_LINES:
        cells.append(f"and {len(averages) - MAX_LINES:,} more.")
    heading = "Units" if statistic == "users" else "Average" if statistic == "mean" else "Share"
    return [
        *(line for cell in cells for line in formatting.wrapped(heading, clean(cell))),
        *formatting.wrapped("Covered", texts["covers"]),
        *formatting.wrapped("Cost", texts["cost"]),
    ]


def _amount(number: float, statistic: str) -> str:
    return f"{number:,.0f}" if statistic == "users" else f"{number:.4g}"


def _resolution(text: str | None) -> int | Literal["all"] | None:
    if text is None or text == EVERYTHING:
        return text
    if not text.isascii() or not text.isdigit():
        raise InputError(f'--resolution must be a number from 0 to 15 or "all", got {text!r}.')
    return int(text)


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
    show_derived(comparison, comparison_lines, options.out, as_json=options.as_json)


def comparison_lines(comparison: ReleaseComparison) -> list[str]:
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
