"""`hexveil release`: plan, book the price, draw the noise, write the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.errors import InputError
from hexveil.base.work_share import RELEASING, WRITING
from hexveil.cli import folder_options, release_preview, shared_steps
from hexveil.cli.output import formatting
from hexveil.cli.output.ledger_text import new_account_lines, spend_json
from hexveil.cli.output.plan_text import explain_missing_range, price_lines
from hexveil.cli.presence import declared_plan, declared_release
from hexveil.config import Run, arguments
from hexveil.ledger import Ledger
from hexveil.planning import Plan
from hexveil.planning.columns.column_plan import ColumnPlans
from hexveil.planning.distribution.distribution_plan import DistributionPlan
from hexveil.planning.serialization import plan_folder
from hexveil.publishing import check_writable
from hexveil.publishing.pipeline import booked_plan
from hexveil.publishing.pipeline import release as publish_numbers
from hexveil.records.columns.column_datasets import ColumnDatasets
from hexveil.records.progress import show_progress
from hexveil.report import read_context

if TYPE_CHECKING:
    from hexveil.cli import declarations
    from hexveil.ledger import Spend
    from hexveil.publishing import Release
    from hexveil.publishing.privacy_models import ReleasableDataset, ReleasablePlan


LEFT_OUT = ("publish",)
"""Sections of a run that this command has no use for."""

BOOKED = (
    "the one booked for this request before; it costs nothing more. To plan again and pay again, "
    "name another --set plan.edition."
)


def release(run: Run, options: declarations.ReleaseOptions) -> None:
    """Publish a map: book its price in the ledger, draw the noise once, write the folder."""
    if arguments.is_presence_private(run):
        declared_plan.refuse_unused({"--from-plan": options.from_plan is not None})
        declared_release.release_declared(run, dry_run=options.dry_run, as_json=options.as_json)
        return
    saved = None if options.from_plan is None else shared_steps.to_run_path(options.from_plan)
    # Mistakes in the plan and the run are reported before the records are read.
    needs_records = saved is not None and plan_folder.needs_records(saved)
    reviewed: ReleasablePlan | None = None
    if saved is not None and not needs_records:
        reviewed = Plan.load(saved)
    folder, account = destination(run, planned=saved is not None)
    dataset = shared_steps.read_releasable(run)
    if saved is not None and needs_records:
        reviewed = load_reviewed(saved, dataset)
    plan, warning = select_plan(run, dataset, reviewed)
    if options.dry_run:
        release_preview.show(run, dataset, plan, account, warning, as_json=options.as_json)
        return
    # Opened only now, because it registers the data set: a run refused above leaves no trace.
    book = Ledger(**account)
    opened = new_account_lines(book)
    # A repeated request keeps its first plan: solvers differ in late digits between machines.
    booked = booked_plan(dataset, plan, book)
    if not options.as_json:
        notes = [] if warning is None else formatting.wrapped("Warning", warning)
        if booked is not None:
            notes += formatting.wrapped("Plan", BOOKED)
        if saved is not None:
            saved_path = shared_steps.resolve_path(run, saved)
            notes += formatting.wrapped(
                "Plan",
                f"as saved in {saved_path}; the run file's settings for planning are not used.",
            )
        why = [] if saved is not None else explain_missing_range(run, plan)
        lines = [*price_lines(booked or plan, dataset.public), *why, *notes, *opened]
        typer.echo("\n".join(lines))
    plan = booked or plan
    published = publish(run, dataset, plan, book)
    written = write(run, published, folder)
    if options.as_json:
        text = release_json(run, plan, published, written, book.spend())
        typer.echo(json.dumps(text, indent=2))
        return
    typer.echo("\n".join(end_lines(run, plan, published, written, book.spend())))


def load_reviewed(folder: Path, dataset: ReleasableDataset) -> ReleasablePlan:
    """Return a saved plan that is loaded with its records."""
    if isinstance(dataset, ColumnDatasets):
        return ColumnPlans.load(folder, dataset)
    if plan_folder.kind_of(plan_folder.read_words(folder)) == "DistributionPlan":
        return DistributionPlan.load(folder, dataset)
    return Plan.load(folder, dataset.occupancy)


def destination(run: Run, *, planned: bool = False) -> tuple[Path, dict[str, Any]]:
    """Return the new folder and the ledger's arguments; check both early."""
    arguments.refuse_missing(run, planned=planned)
    if run.release.out is None:
        raise shared_steps.missing_out()
    account = arguments.ledger_arguments(run, Ledger)
    folder = Path(run.release.out)
    if not planned:
        shared_steps.check_plan_options(run)
    check_writable(folder)
    if run.release.context is not None:
        read_context(run.release.context)
    folder_options.folder_extras(run)
    return folder, account


def select_plan(
    run: Run, dataset: ReleasableDataset, reviewed: ReleasablePlan | None = None
) -> tuple[ReleasablePlan, str | None]:
    """Return the plan, and a warning if the caller accepts a grid that is too fine.

    Otherwise such a grid is refused, unless its plan was saved and thus reviewed.
    """
    if reviewed is not None:
        # The reviewer has seen the warning.
        return reviewed, None
    planned = shared_steps.plan_run(run, dataset.public)
    warning = shared_steps.describe_infeasibility(planned)
    if warning is not None and not run.release.accept_noise:
        raise InputError(
            f"nothing was spent: {warning.removesuffix('.')}; --set release.accept_noise=true "
            "releases the map "
            "anyway."
        )
    return planned, warning


def publish(run: Run, dataset: ReleasableDataset, plan: ReleasablePlan, book: Ledger) -> Release:
    """Book the price, then draw the noise; a repeated request costs nothing."""
    estimates = run.release.estimates or ("raw",)
    with show_progress(RELEASING):  # whoever comes here was warned of a grid that is too fine
        return publish_numbers(dataset, plan, ledger=book, estimates=estimates, accept_noise=True)


def write(run: Run, published: Release, folder: Path) -> list[Path]:
    """Write the folder and return its files."""
    with show_progress(WRITING):
        published.write(folder, **folder_options.folder_extras(run))
    return sorted(folder.iterdir())


def release_json(
    run: Run, plan: ReleasablePlan, published: Release, written: list[Path], spend: Spend
) -> dict[str, Any]:
    """Return the release and the spending as JSON data."""
    return shared_steps.plan_json(plan) | {
        "replayed": published.replayed,
        "no_better_than_constant": list(published.no_better_than_constant),
        "ledger": spend_json(spend),
        "files": [str(shared_steps.resolve_path(run, path)) for path in written],
    }


def end_lines(
    run: Run, plan: ReleasablePlan, published: Release, written: list[Path], spend: Spend
) -> list[str]:
    """Return lines about the booking, the spending and the files."""
    price = formatting.price(float(plan.epsilon))
    if not plan.epsilon:
        summary = "nothing was booked, because no reading was used."
    elif published.replayed:
        summary = "this request was answered before: the same numbers again, at no cost."
    else:
        summary = f"{price} was booked before any noise was drawn."
    names = ", ".join(path.name for path in written)
    return [
        *formatting.warning_lines(published.warnings),
        *formatting.wrapped("Ledger", f"{summary} In total: {formatting.spent(spend)}"),
        *formatting.wrapped(
            "Written", f"{shared_steps.resolve_path(run, written[0].parent)}: {names}"
        ),
    ]
