"""`hexveil release`: plan, book the cost, draw the noise, write the folder; or a dry run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hexveil.base.errors import InputError
from hexveil.cli import declarations, formatting, receipts, shared_steps
from hexveil.cli.formatting import Row, new_account_row, spend_json
from hexveil.cli.planned_release import PlannedRelease, folder_extras, plan_release, write
from hexveil.config import Run, arguments
from hexveil.ledger import Ledger
from hexveil.ledger.databases import MEMORY
from hexveil.planning.request import refuse
from hexveil.publishing.folder import check_writable
from hexveil.publishing.published_numbers import Release
from hexveil.report.geography.context import read_context
from hexveil.report.templates import unit_name

BOOKED = (
    "the one booked for this request before; it costs nothing more. To plan again and pay again, "
    "name another --set plan.edition."
)


def release(run: Run, options: declarations.ReleaseOptions) -> None:
    """Publish a map: book its privacy cost in the ledger, draw the noise once, write the folder."""
    if options.from_plan is not None:
        refuse({*arguments.about(run), "--from-plan"}, only=["--from-plan"])
    saved = None if options.from_plan is None else shared_steps.to_run_path(options.from_plan)
    folder, account = destination(run, planned=saved is not None)
    planned = plan_release(run, saved)
    # Of declarations it stands among the predictions.
    is_said = planned.warning is None or arguments.is_presence_private(run)
    warning = ("Warning", None if is_said else str(planned.warning))
    if options.dry_run:
        _preview(planned, account, warning, as_json=options.as_json)
        return
    # Opened only now, because it registers the data set: a run refused above leaves no trace.
    book = planned.open_ledger(account)
    used = planned if book is None else planned.as_booked(book)
    unit = unit_name(planned.facts.privacy_unit)
    if not options.as_json:
        source = None if used is planned else BOOKED
        if saved is not None:
            place = shared_steps.resolve_path(run, saved)
            source = f"as saved in {place}; the run file's settings for planning are not used."
        formatting.print_rows(
            [*used.price_rows(), warning, ("Plan", source), new_account_row(book, unit)]
        )
    published, opened = used.publish(account, book)
    written = write(run, published, folder)
    account_rows = [] if book is not None else [new_account_row(opened, unit)]
    formatting.show(
        lambda: [*account_rows, *end_rows(used, published, written, opened)],
        lambda: release_json(used, published, written, opened),
        as_json=options.as_json,
    )


def destination(run: Run, *, planned: bool = False) -> tuple[Path, dict[str, Any]]:
    """Return the new folder and the ledger's arguments; check all that needs no record."""
    if run.release.out is None:
        raise InputError("out (in [release], or --out) is needed: name a new folder for the map.")
    account = arguments.ledger_arguments(run, Ledger)
    folder = Path(run.release.out)
    if not planned:
        shared_steps.check_plan_options(run)
    check_writable(folder)
    check_inputs(run)
    return folder, account


def check_inputs(run: Run) -> None:
    """Refuse optional inputs of a folder that cannot be used."""
    if run.release.context is not None:
        read_context(run.release.context)
    folder_extras(run)


def release_json(
    planned: PlannedRelease, published: Release, written: list[Path], book: Ledger
) -> dict[str, Any]:
    """Return the release and the spending as JSON data."""
    n_open = planned.open_cells(published)
    return planned.plan_json() | {
        "replayed": published.replayed,
        **({"open_cells": n_open.get("", n_open)} if n_open else {}),
        "warnings": list(published.warnings),
        "ledger": spend_json(book.spend()),
        "files": [str(shared_steps.resolve_path(planned.run, path)) for path in written],
    }


def end_rows(
    planned: PlannedRelease, published: Release, written: list[Path], book: Ledger
) -> list[Row]:
    """Return rows about the map, the booking, the spending and the files."""
    opened = "; ".join(
        f"{column}{column and ': '}{count:,} of {published.table.num_rows:,} cells are open"
        for column, count in planned.open_cells(published).items()
    )
    if not planned.plan.epsilon:
        summary = "nothing was booked, because no reading was used."
    elif published.replayed:
        summary = "this request was answered before: the same numbers again, at no cost."
    else:
        price = formatting.price(float(planned.plan.epsilon))
        for_any = " for any unit" if arguments.is_presence_private(planned.run) else ""
        summary = f"{price} was booked{for_any} before any noise was drawn."
    names = ", ".join(path.name for path in written)
    place = shared_steps.resolve_path(planned.run, written[0].parent)
    return [
        ("Released", opened and f"{opened}."),
        *(("Warning", text) for text in published.warnings),
        ("Ledger", f"{summary} In total: {formatting.spent(book.spend())}"),
        ("Written", f"{place}: {names}"),
    ]


@dataclass(frozen=True)
class Preview:
    """The booking that a release would make; nothing is booked, drawn or written.

    Attributes
    ----------
    planned : PlannedRelease
        As it would be made.
    replayed : bool
        Whether the request was answered before, so that the price is nothing.
    price, remaining : Fraction
    is_new : bool
        Whether the ledger is still to be made.
    """

    planned: PlannedRelease
    replayed: bool
    price: Fraction
    remaining: Fraction
    is_new: bool

    @classmethod
    def of(cls, planned: PlannedRelease, account: dict[str, Any]) -> Preview:
        """Return the booking of a release, by a ledger that may be still to be made."""
        is_new = receipts.known_spend(account) is None
        # A new ledger is opened in memory: on disk it would register the data set and make a key.
        in_memory = {name: term for name, term in account.items() if name != "key"}
        book = Ledger(**(in_memory | {"url": MEMORY} if is_new else account))
        used, replayed = planned.preview(book)
        price = Fraction(0) if replayed else used.plan.epsilon
        return cls(used, replayed, price, book.remaining, is_new)

    @property
    def fits(self) -> bool:
        """Whether the budget of every unit allows it."""
        return self.price <= self.remaining

    @property
    def text(self) -> str:
        """The booking in words."""
        if self.replayed:
            return "would book nothing: this request was answered before."
        if not self.price:
            return "would book nothing, because no reading is used."
        remainder = formatting.at_least(float(self.remaining))
        is_private = arguments.is_presence_private(self.planned.run)
        whose = "any unit, present or not" if is_private else "the most exposed unit"
        booked = f"would book {formatting.price(float(self.price))} for {whose}"
        if self.fits:
            source = "in a new ledger with a budget of" if self.is_new else "of the remaining"
            return f"{booked}, {source} {remainder}."
        return (
            f"{booked}; every unit has {remainder} left, so the release is refused if one of its "
            "units has no more than that."
        )


def _preview(
    planned: PlannedRelease, account: dict[str, Any], warning: Row, *, as_json: bool
) -> None:
    """Print the booking and the folder of a release; nothing is booked, drawn or written."""
    preview = Preview.of(planned, account)
    used, run, is_private = preview.planned, planned.run, arguments.is_presence_private(planned.run)
    place = shared_steps.resolve_path(run, Path(run.release.out))
    formatting.show(
        lambda: [
            *used.price_rows(),
            warning,
            ("Ledger", preview.text),
            ("Would write", str(place)),
            ("Dry run", f"nothing was {'read, ' * is_private}booked, drawn or written."),
        ],
        lambda: (
            used.plan_json()
            | {
                "dry_run": True,
                "replayed": preview.replayed,
                "would_book": float(preview.price),
                "remaining": float(preview.remaining),
                "fits": preview.fits,
                "out": str(place),
            }
        ),
        as_json=as_json,
    )
