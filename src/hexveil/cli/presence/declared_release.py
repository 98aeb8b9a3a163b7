"""`hexveil release` under private presence: plan on paper, read, book, draw, write."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

from hexveil.base.work_share import DRAWS, ESTIMATES, RELEASING, WRITING
from hexveil.cli import folder_options, receipts, shared_steps
from hexveil.cli.output import formatting
from hexveil.cli.output.ledger_text import new_account_lines, spend_json
from hexveil.cli.presence import declared_steps
from hexveil.config import arguments
from hexveil.ledger import Ledger
from hexveil.ledger.storage.databases import MEMORY
from hexveil.planning.columns.column_plan import DeclaredColumnPlans
from hexveil.publishing import check_writable
from hexveil.publishing.columns.column_folder import planned_parts
from hexveil.publishing.columns.column_release import ColumnReleases
from hexveil.publishing.estimates.table import name_columns
from hexveil.publishing.folder import list_files
from hexveil.publishing.pipeline import release as publish_numbers
from hexveil.publishing.pipeline import replay_presence
from hexveil.publishing.presence.presence_manifest import presence_sections
from hexveil.publishing.release_checks import check_declared
from hexveil.records.progress import show_progress
from hexveil.report import read_context

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.config import Run
    from hexveil.ledger import Spend
    from hexveil.publishing import Release
    from hexveil.publishing.privacy_models import DeclaredPlan


def release_declared(run: Run, *, dry_run: bool, as_json: bool) -> None:
    """Publish a map on a declared grid, or preview it."""
    folder, account = check_destination(run)
    facts = declared_steps.declare_run(run)
    plan = declared_steps.plan_declared(run, facts)
    declared_steps.refuse_noise(run, plan)
    if dry_run:
        preview(run, plan, account, as_json=as_json)
        return
    if not as_json:
        typer.echo("\n".join(declared_steps.plan_lines(plan)))
    published, book = publish_declared(run, plan, account)
    with show_progress(WRITING):
        published.write(folder, **folder_options.folder_extras(run))
    written = sorted(folder.iterdir())
    if as_json:
        text = release_json(run, plan, published, written, book.spend())
        typer.echo(json.dumps(text, indent=2))
        return
    lines = [*new_account_lines(book), *end_lines(run, plan, published, written, book.spend())]
    typer.echo("\n".join(lines))


def publish_declared(
    run: Run, plan: DeclaredPlan, account: dict[str, Any]
) -> tuple[Release, Ledger]:
    """Return the release, and its ledger; records are read only where noise is to be drawn."""
    if receipts.known_spend(account) is not None:
        book = Ledger(**account)
        stored = replay_presence(plan, book)
        if stored is not None:
            return stored, book
    # Read before a new ledger is opened: a run that fails leaves no trace in it.
    # Closed after it: what Spark keeps of one day is not there for the next.
    with closing(declared_steps.read_private_records(run)) as dataset:
        book = Ledger(**account)
        with show_progress(RELEASING, ESTIMATES, DRAWS):
            return publish_numbers(dataset, plan, ledger=book, accept_noise=True), book


def check_destination(run: Run) -> tuple[Path, dict[str, Any]]:
    """Return the new folder and the ledger's arguments; check all that needs no record."""
    arguments.refuse_missing(run)
    if run.release.out is None:
        raise shared_steps.missing_out()
    account = arguments.ledger_arguments(run, Ledger)
    arguments.presence_arguments(run)
    if run.release.estimates not in (None, ("raw",)):
        raise shared_steps.only_raw()
    folder = Path(run.release.out)
    check_writable(folder)
    if run.release.context is not None:
        read_context(run.release.context)
    folder_options.folder_extras(run)
    return folder, account


def preview(run: Run, plan: DeclaredPlan, account: dict[str, Any], *, as_json: bool) -> None:
    """Print the booking and the files of a release; no record is read."""
    spend = receipts.known_spend(account)
    in_memory = {name: one for name, one in account.items() if name != "key"} | {"url": MEMORY}
    # A new ledger is opened in memory: on disk it would register the data set and make a key.
    book = Ledger(**(account if spend is not None else in_memory))
    check_declared(plan.facts, plan, book)
    replayed, remaining = replay_presence(plan, book) is not None, book.remaining
    price = 0 * plan.epsilon if replayed else plan.epsilon
    names = _file_names(run, plan)
    place = shared_steps.resolve_path(run, Path(str(run.release.out)))
    if as_json:
        content = declared_steps.plan_json(plan) | {
            "dry_run": True,
            "replayed": replayed,
            "would_book": float(price),
            "remaining": float(remaining),
            "fits": bool(price <= remaining),
            "files": [str(place / name) for name in names],
        }
        typer.echo(json.dumps(content, indent=2))
        return
    lines = [
        *declared_steps.plan_lines(plan),
        *formatting.wrapped("Ledger", _booking_text(price, remaining, replayed=replayed)),
        *formatting.wrapped("Would write", f"{place}: {', '.join(names)}"),
        *formatting.wrapped("Dry run", "nothing was read, booked, drawn or written."),
    ]
    typer.echo("\n".join(lines))


def _file_names(run: Run, plan: DeclaredPlan) -> tuple[str, ...]:
    """Return the files, and folders of value columns, that a release would write."""
    signed, catalogue = run.release.sign is not None, folder_options.catalogue_of(run)
    if isinstance(plan, DeclaredColumnPlans):
        leading = plan.facts.leading
        return planned_parts(
            [*plan.plans],
            pa.table(name_columns(leading.cells)),
            presence_sections(leading),
            catalogue=catalogue,
            signed=signed,
        )
    return list_files(
        pa.table(name_columns(plan.facts.cells)),
        presence_sections(plan.facts),
        catalogue=catalogue,
        tiles=run.release.tiles,
        signed=signed,
    )


def _booking_text(price: Fraction, remaining: Fraction, *, replayed: bool) -> str:
    """Describe the booking that a release would make."""
    if replayed:
        return "would book nothing: this request was answered before."
    left = formatting.at_least(float(remaining))
    booked = f"would book {formatting.price(float(price))} for any unit, present or not, of {left}"
    return f"{booked}." if price <= remaining else f"{booked}, which is too little."


def _open_cells(published: Release) -> int | dict[str, int]:
    """Return the number of open cells, of several value columns by column."""
    if isinstance(published, ColumnReleases):
        return {
            column: sum(one.table["is_open"].to_pylist())
            for column, one in published.releases.items()
        }
    return int(sum(published.table["is_open"].to_pylist()))


def release_json(
    run: Run, plan: DeclaredPlan, published: Release, written: list[Path], spend: Spend
) -> dict[str, Any]:
    """Return the release and the spending as JSON data."""
    return declared_steps.plan_json(plan) | {
        "replayed": published.replayed,
        "open_cells": _open_cells(published),
        "no_better_than_constant": list(published.no_better_than_constant),
        "ledger": spend_json(spend),
        "files": [str(shared_steps.resolve_path(run, path)) for path in written],
    }


def end_lines(
    run: Run, plan: DeclaredPlan, published: Release, written: list[Path], spend: Spend
) -> list[str]:
    """Return lines about the map, the booking and the files; made from noisy numbers."""
    n_open = _open_cells(published)
    counts = {"": n_open} if isinstance(n_open, int) else n_open
    opened = "; ".join(
        f"{column}: {count:,} of {published.table.num_rows:,} cells are open".removeprefix(": ")
        for column, count in counts.items()
    )
    if published.replayed:
        summary = "this request was answered before: the same numbers again, at no cost."
    else:
        price = formatting.price(float(plan.epsilon))
        summary = f"{price} was booked for any unit before any noise was drawn."
    names = ", ".join(path.name for path in written)
    return [
        *formatting.wrapped("Released", f"{opened}."),
        *formatting.warning_lines(published.warnings),
        *formatting.wrapped("Ledger", f"{summary} In total: {formatting.spent(spend)}"),
        *formatting.wrapped(
            "Written", f"{shared_steps.resolve_path(run, written[0].parent)}: {names}"
        ),
    ]
