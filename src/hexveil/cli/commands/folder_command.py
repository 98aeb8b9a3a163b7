"""`hexveil verify`, `dossier`, `compare` and `roll-up`: commands on release folders alone.

Numbers that follow from folders cost nothing: neither records nor a ledger are needed.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, WRITING, parts_of_work
from hexveil.cli import declarations, formatting
from hexveil.cli.formatting import Row
from hexveil.publishing.derived.derived_cells import EVERYTHING
from hexveil.publishing.derived.derived_numbers import DerivedTable
from hexveil.publishing.derived.release_comparison import ReleaseComparison, compare_releases
from hexveil.publishing.derived.roll_up import roll_up as averages_of
from hexveil.publishing.dossier import dossier as made_of
from hexveil.publishing.folder import check_writable
from hexveil.publishing.markup import clean
from hexveil.publishing.verification.archive_checks import (
    ArchiveVerdict,
    check_archive,
    current_release,
    is_archive,
    release_folders,
)
from hexveil.publishing.verification.verify import FolderVerdict, check_folder
from hexveil.records.progress import show_progress

CHECKED = "manifest, checksums, columns, cells, bounds and grid; all files hold the same values."
HOLDER = "The holder can check the chain hash in receipt.json."


def verify(options: declarations.VerifyOptions) -> int:
    """Check the files, tables, losses and signature of a release folder against each other."""
    folder = current_release(options.folder)
    check = check_archive if is_archive(folder) else check_folder
    with show_progress(FOLDER_CHECK):
        verdict: Any = check(folder, key=options.key)
    formatting.show(
        lambda: rows(folder, verdict),
        lambda: {"folder": str(folder)} | asdict(verdict),
        as_json=options.as_json,
    )
    # Bad input, not a failure of the machine.
    return 2 if verdict.problems else 0


def rows(folder: Path, verdict: FolderVerdict | ArchiveVerdict) -> list[Row]:
    """Return rows about the verdict on a folder, or on an archive of them."""
    if verdict.problems:
        changed = f"{folder} was changed or is damaged:"
        return [changed, *(f"  {clean(problem)}" for problem in verdict.problems)]
    if isinstance(verdict, ArchiveVerdict):
        noun = "release" if verdict.releases == 1 else "releases"
        return [("Checked", f"{folder}: {verdict.releases:,} current {noun}, and the catalogue.")]
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    # The name is a stranger's: clean removes characters that could move the cursor.
    ledger, name = manifest["ledger"], clean(manifest["dataset"]["name"])
    ledger_place = "cost nothing" if ledger is None else f"entry {ledger['entry']} of its ledger"
    return [
        ("Checked", f"{folder}: {CHECKED}"),
        ("Release", f"{manifest['request'][:16]} of {name}, {ledger_place}."),
        ("Recomputed", f"{'; '.join(verdict.recomputed)}: all as stated."),
        ("Signature", verdict.signature),
        ("Not checked", f"{'; '.join(verdict.unknown)}. {HOLDER}"),
    ]


def dossier(options: declarations.DossierOptions) -> None:
    """Print the document that a privacy officer reads, completes and signs, as Markdown."""
    document = made_of(current_release(options.folder))
    text = document.to_markdown()
    click.echo(json.dumps({"markdown": text}, indent=2) if options.as_json else text)


# ---- comparisons and roll-ups ----

_Derived = TypeVar("_Derived", bound=DerivedTable)

MAX_LINES = 10
"""Averages that are printed; the folder has all."""
HEADINGS = {"users": "Units", "mean": "Average"}


def roll_up(options: declarations.RollUpOptions) -> None:
    """Average a release folder over coarser cells, or days, from noisy numbers alone."""
    check_output(options)
    grid = requested_grid(options)
    folder = current_release(options.folder)
    is_archived = is_archive(folder)
    if is_archived and (grid or options.statistic):
        raise InputError("days are rolled up in their own cells; leave the grid out.")
    if not is_archived and (options.first_day or options.last_day or options.by != "all"):
        raise InputError("--from, --to and --by are about the days of an archive of publish.")
    days = options.first_day or "", options.last_day or "9999"
    with show_progress("Rolling up", FOLDER_CHECK):
        if is_archived:
            folders = release_folders(folder, *days)
            averages = averages_of(folders, by=options.by, key=options.key)
        else:
            averages = averages_of(folder, **grid, **chosen(options))
    show_derived(averages, roll_up_rows, options)


def compare(options: declarations.CompareOptions) -> None:
    """Compare two release folders cell by cell, from their noisy numbers alone."""
    check_output(options)
    grid = requested_grid(options)
    releases: list[Any] = [current_release(folder) for folder in (options.before, options.after)]
    with show_progress("Comparing releases", FOLDER_CHECK):
        if grid:
            releases = [
                averages_of(folder, **grid, **chosen(options))
                for folder in parts_of_work(FOLDER_CHECK, releases)
            ]
        rate = options.false_discovery_rate
        comparison = compare_releases(*releases, false_discovery_rate=rate, **chosen(options))
    show_derived(comparison, comparison_rows, options)


def chosen(options: declarations.CoarserOptions) -> dict[str, Any]:
    """Return value column, statistic and key as keywords."""
    return {name: getattr(options, name) for name in ("value", "statistic", "key")}


def show_derived(
    derived: _Derived,
    describe: Callable[[_Derived], list[Row]],
    options: declarations.CoarserOptions,
) -> None:
    """Write and print a roll-up or a comparison."""
    if options.out is not None:
        with show_progress(WRITING):
            derived.write(options.out, context=options.context)
    if options.as_json:
        # With the cells, unless a folder has them.
        cells = {"cells": derived.table.to_pylist()} if options.out is None else {}
        click.echo(json.dumps(derived.statement | cells, indent=2, ensure_ascii=False, default=str))
        return
    written = ("Written", None if options.out is None else str(options.out))
    formatting.print_rows([*describe(derived), written])


def check_output(options: declarations.CoarserOptions) -> None:
    """Refuse a folder that cannot be made, and a context without a page to draw it on.

    Raises
    ------
    InputError
        With what to do instead.
    """
    if options.out is not None:
        check_writable(options.out)
    elif options.context is not None:
        raise InputError("--context draws on the page of a folder; name one (--out FOLDER).")


def requested_grid(options: declarations.CoarserOptions) -> dict[str, Any]:
    """Return the coarser grid that options request, as keywords of `roll_up`.

    Raises
    ------
    InputError
        If the resolution is neither a number nor "all".
    """
    columns = options.columns and tuple(name.strip() for name in options.columns.split(","))
    requested = {
        "resolution": _resolution(options.resolution),
        "timeslot": options.timeslot,
        "columns": columns or None,
    }
    return {name: stated for name, stated in requested.items() if stated is not None}


def _resolution(text: str | None) -> int | Literal["all"] | None:
    if text is None or text == EVERYTHING:
        return text
    if not text.isascii() or not text.isdigit():
        raise InputError(f'--resolution must be a number from 0 to 15 or "all", got {text!r}.')
    return int(text)


def roll_up_rows(averages: DerivedTable) -> list[Row]:
    """Return rows about a roll-up: its averages, if they are few."""
    texts, statistic = averages.texts(), averages.statement["statistic"]
    heading, unit = HEADINGS.get(statistic, "Share"), texts["unit"] and f" {texts['unit']}"
    form = ",.0f" if statistic == "users" else ".4g"
    cells = []
    for row in averages.table.slice(0, MAX_LINES).to_pylist():
        number, low, high = (format(row[statistic + end], form) for end in ("", "_low", "_high"))
        cells.append(f"{row['cell']}: {number}{unit} ({low} to {high})")
    if len(averages) > MAX_LINES:
        cells.append(f"and {len(averages) - MAX_LINES:,} more.")
    return [
        *((heading, clean(cell)) for cell in cells),
        ("Covered", texts["covers"]),
        ("Cost", texts["cost"]),
    ]


def comparison_rows(comparison: ReleaseComparison) -> list[Row]:
    """Return rows about a comparison."""
    texts = comparison.texts()
    return [
        ("Changed", texts["verdicts"]),
        ("Pairs", clean(texts["pairing"] or "")),
        ("Rate", texts["discoveries"]),
        ("Covered", texts["covers"]),
        ("Beware", texts["not_covered"]),
        ("Cost", texts["cost"]),
    ]
