"""`hexveil release --dry-run`: all checks, the price and the files; nothing booked or written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer

from hexveil.cli import folder_options, receipts, shared_steps
from hexveil.cli.output import formatting
from hexveil.cli.output.plan_text import price_lines
from hexveil.ledger import Ledger
from hexveil.ledger.storage.databases import MEMORY
from hexveil.publishing.columns.column_folder import planned_parts
from hexveil.publishing.estimates.table import name_cells
from hexveil.publishing.folder import planned_files
from hexveil.publishing.manifest import cell_sections
from hexveil.publishing.pipeline import preview_release
from hexveil.records.columns.column_datasets import ColumnDatasets

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.config import Run
    from hexveil.publishing.privacy_models import ReleasableDataset, ReleasablePlan


def show(
    run: Run,
    dataset: ReleasableDataset,
    plan: ReleasablePlan,
    account: dict[str, Any],
    warning: str | None,
    *,
    as_json: bool,
) -> None:
    """Print the bookings and files of a release of this plan."""
    spend = receipts.known_spend(account)
    # A new ledger is opened in memory: on disk it would register the data set and make a key.
    book = Ledger(**(account if spend is not None else _in_memory(account)))
    used, replayed = preview_release(
        dataset, plan, ledger=book, estimates=run.release.estimates or ("raw",)
    )
    price = 0 * used.epsilon if replayed else used.epsilon
    remaining = book.remaining
    files = _files(run, dataset)
    if as_json:
        content = shared_steps.plan_json(used) | {
            "dry_run": True,
            "replayed": replayed,
            "would_book": float(price),
            "remaining": float(remaining),
            "fits": bool(price <= remaining),
            "files": files,
        }
        typer.echo(json.dumps(content, indent=2))
        return
    place = shared_steps.resolve_path(run, Path(str(run.release.out)))
    text = _ledger_text(price, remaining, new=spend is None, replayed=replayed)
    names = ", ".join(Path(file).name for file in files)
    lines = [
        *price_lines(used, dataset.public),
        *([] if warning is None else formatting.wrapped("Warning", warning)),
        *formatting.wrapped("Ledger", text),
        *formatting.wrapped("Would write", f"{place}: {names}"),
        *formatting.wrapped("Dry run", "nothing was booked, drawn or written."),
    ]
    typer.echo("\n".join(lines))


def _in_memory(account: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a ledger in memory with the same account."""
    return {name: given for name, given in account.items() if name != "key"} | {"url": MEMORY}


def _files(run: Run, dataset: ReleasableDataset) -> list[str]:
    """Return the paths of the files and folders that a release would write."""
    folder = Path(str(run.release.out))
    catalogue, signed = folder_options.catalogue_of(run), run.release.sign is not None
    if isinstance(dataset, ColumnDatasets):
        leading = dataset.public.leading
        names = planned_parts(
            [*dataset.datasets],
            pa.table(name_cells(leading)),
            cell_sections(leading),
            catalogue=catalogue,
            signed=signed,
        )
    else:
        names = planned_files(
            dataset.public, catalogue=catalogue, tiles=run.release.tiles, signed=signed
        )
    return [str(shared_steps.resolve_path(run, folder / name)) for name in names]


def _ledger_text(price: Fraction, remaining: Fraction, *, new: bool, replayed: bool) -> str:
    """Describe the booking that a release would make."""
    if replayed:
        return "would book nothing: this request was answered before."
    if not price:
        return "would book nothing, because no reading is used."
    left = formatting.at_least(float(remaining))
    booked = f"would book {formatting.price(float(price))} for the most exposed unit"
    where = "in a new ledger with a budget of" if new else "of the remaining"
    if price <= remaining:
        return f"{booked}, {where} {left}."
    return (
        f"{booked}; every unit has {left} left, so the release is refused if one of its units has "
        "no more than that."
    )
