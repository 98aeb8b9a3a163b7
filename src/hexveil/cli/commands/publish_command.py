"""`hexveil publish`: the maps of one or many days, safe to repeat from a scheduler.

A day is a request like any other: a repeated request is answered from the ledger at no cost, and
an unfinished one continues. If a file was deleted or changed, the folder is restored from the
ledger's numbers. A day is ready when its last hour is over and the waiting time for late records
has passed. If later records change the occupancy, the published map stands, unless --revise pays
for a revision.
"""

from __future__ import annotations

import json
import re
import zoneinfo
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from hexveil.base.errors import BudgetError, HexveilError, InputError, StorageError
from hexveil.base.work_share import WRITING
from hexveil.cli import declarations, endings, formatting, receipts, shared_steps
from hexveil.cli.commands.release_command import check_inputs
from hexveil.cli.formatting import budget_words
from hexveil.cli.plan_text import map_rows
from hexveil.cli.planned_release import PlannedRelease, folder_extras, plan_release, signer_of
from hexveil.config import Run, arguments, load
from hexveil.config.run_file import Key
from hexveil.ledger import Ledger
from hexveil.model.cells import zone
from hexveil.publishing.archive.archive import Archive, open_archive
from hexveil.publishing.archive.archive_listing import CurrentRelease, LedgerPosition
from hexveil.publishing.published_numbers import Release
from hexveil.records.progress import show_progress

EXPECTED = ("Expected error", "On paper")
"""Rows of a plan that a dry run shows."""


def publish(run: Run, options: declarations.PublishOptions) -> int:
    """Publish the maps of local days, each in its own folder below `out`."""
    days = requested_days(options.date, options.first_day, options.last_day)

    def tell(outcome: Outcome) -> None:
        if not options.as_json:
            formatting.print_rows([(outcome.day, f"{outcome.state}: {outcome.message}")])

    series = Series.of(run, revise=options.revise, dry_run=options.dry_run)
    outcomes, n_listed = publish_days(series, days, tell)
    if options.as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    elif n_listed:
        days_text = f"{n_listed:,} {'day' if n_listed == 1 else 'days'}"
        listing = f"{run.release.out}: index.html and catalog.json list {days_text}."
        formatting.print_rows([("Catalogue", listing)])
    # The gravest code: a scheduler must notice one failed day among many.
    return max(outcome.code for outcome in outcomes)


def publish_run(
    run: str | Path,
    day: str,
    last_day: str | None = None,
    *,
    out: str | Path | None = None,
    revise: bool = False,
    dry_run: bool = False,
) -> tuple[Outcome, ...]:
    """Publish the maps of local days, each in a folder of its own, as `hexveil publish` does.

    Repeating a day costs nothing, and continues an unfinished one; `latest.json` names the official
    release.

    Parameters
    ----------
    run : str or Path
        The run file.
    day : str
        Like "2026-11-20".
    last_day : str, optional
        Of a series that begins with `day`; default that day alone.
    out : str or Path, optional
        The archive; default that of the run file.
    revise : bool
        Pay for a revision where late records, or another plan, changed a published map.
    dry_run : bool
        Publish nothing, and state what each day would cost.

    Returns
    -------
    tuple of Outcome
        A day each: `.day`, `.state` ("published", "published before", "restored", "kept", "not
        ready", "refused", "failed" or "planned"), `.message`, `.epsilon`. After a refusal by the
        budget there is no further day.

    Raises
    ------
    InputError
        If the run file cannot be used, or no day is named. What fails of one day is its outcome.

    Notes
    -----
    Progress is shown where standard error is a terminal.
    """
    fields: dict[Key, object] = {} if out is None else {("release", "out"): str(out)}
    ends = (day, None, None) if last_day is None else (None, day, last_day)
    series = Series.of(load(str(run), fields), revise=revise, dry_run=dry_run)
    return tuple(publish_days(series, requested_days(*ends))[0])


def publish_days(
    series: Series, days: Sequence[date], tell: Callable[[Outcome], None] = lambda _: None
) -> tuple[list[Outcome], int]:
    """Return the outcome of each day, told at once, and how many days the catalogue lists then."""
    outcomes: list[Outcome] = []
    for number, day in enumerate(days, 1):
        endings.stop_if_asked()
        with show_progress(f"Publishing {day}, day {number} of {len(days)}"):
            outcomes.append(attempt(series, day))
        tell(outcomes[-1])
        if outcomes[-1].code == BudgetError.exit_code:
            break  # later days cost as much
    with show_progress("Listing the days"):
        return outcomes, 0 if series.dry_run else series.place.update_catalogue()


def attempt(series: Series, day: date) -> Outcome:
    """Publish one day; an error is its outcome and does not stop the command."""
    name, ready_time = day.isoformat(), series.ready_at(day)
    # A dry run shows the price of any day, over or not.
    if datetime.now(UTC) < ready_time and not series.dry_run:
        return Outcome(name, "not ready", f"ready at {ready_time:%Y-%m-%d %H:%M} UTC.", code=2)
    try:
        return _attempt(series, name)
    except HexveilError as error:
        endings.stop_if_asked()  # it may be what a library made of an interruption
        state = "refused" if isinstance(error, BudgetError) else "failed"
        return Outcome(name, state, str(error), code=error.exit_code)


def _attempt(series: Series, day: str) -> Outcome:
    account, place = series.account, series.place
    # From declarations a map that says nothing is planned all the same, to show its price.
    shows_all = series.dry_run and arguments.is_presence_private(series.run)
    run, history = run_of_day(series.run, day), None
    if run.publish.history != "none":
        history = place.history(day)
    planned = plan_release(run, accept_noise=shows_all or None, history=history)
    request, price = planned.request(account["dataset"]), float(planned.plan.epsilon)
    if series.dry_run:
        errors = (f"{row[0]}: {row[1]}" for row in map_rows(planned.plan) if row[0] in EXPECTED)
        return Outcome(day, "planned", " ".join([projection(account, planned), *errors]), price)
    # Before anything is booked: an older ledger would pay for the day again.
    pointer, asked_for = place.current(day), CurrentRelease.of_day(day, request)
    receipts.check_behind(account["url"], place, pointer, place.current(), asked_for)
    if pointer is not None and pointer.request != request and not series.revise:
        return keep_published(day, place, pointer, price)
    return _published(series, planned, asked_for, pointer)


def _published(
    series: Series, planned: PlannedRelease, target: CurrentRelease, pointer: CurrentRelease | None
) -> Outcome:
    """Publish one day now, or return its earlier outcome."""
    run, account, place, request = planned.run, series.account, series.place, target.request
    day, book = str(run.select.dates[0]), Ledger(**account)
    extras = folder_extras(run, f"{place.folder}/{target.path}")
    if pointer is not None and pointer.request == request and place.has_folder(pointer):
        damage = place.find_damage(pointer, signer_of(run))
        why = f"{pointer.path}: {', '.join(damage)}"
        if damage:
            check_replayed(planned, book, request, why)
            published, _ = planned.publish(account, book)
            place.restore(pointer, lambda folder: published.write(folder, **extras))
        place.advance_newest(pointer)  # if a crash came between the two pointers
        if damage:
            return Outcome(
                day, "restored", f"{why}; restored from the ledger's numbers, at no cost."
            )
        return Outcome(day, "published before", f"{place.address}: the same request, at no cost.")
    # Before the booking: a folder that cannot be written must cost nothing.
    place.check(target)
    published, _ = planned.publish(account, book)
    with show_progress(WRITING):
        place.write_release(target, lambda folder: published.write(folder, **extras))
    place.note_history(target)
    stand = check_ledger_position(published, place, target)
    if stand is not None:
        # Only after the folder is in place: a crash before this leaves the numbers in the ledger.
        book.commit(request)
        place.remember(stand)
    place.set_current(target)
    price = 0.0 if published.replayed else float(planned.plan.epsilon)
    cost = "no further cost" if published.replayed else f"epsilon {formatting.price(price)}"
    message = f"{target.path} at {cost}; {formatting.spent(book.spend())}"
    if book.opened:
        message += f" The account {book.account.name!r} was opened: {budget_words(book.account)}."
    return Outcome(day, "published", " ".join([message, *published.warnings]), price)


def keep_published(day: str, place: Archive, pointer: CurrentRelease, price: float) -> Outcome:
    """Return the outcome of a day with a different published map, complete or damaged.

    The map would now be another request, so a damaged folder cannot be restored from it.
    """
    another = "late records arrived, or the plan changed"
    revision = f"--revise publishes a revision at epsilon {formatting.price(price)}."
    damage = place.find_damage(pointer)
    if damage:
        reason = f"{pointer.path}: {', '.join(damage)}, and cannot be restored here, because"
        message = f"{reason} {another}; restore the folder from a copy, or {revision}"
        return Outcome(day, "failed", message, code=1)
    return Outcome(day, "kept", f"{another}; the published map stands. {revision}")


def check_replayed(planned: PlannedRelease, book: Ledger, request: str, why: str) -> None:
    """Refuse a ledger without the numbers of a release: a restoration never draws noise."""
    stored = book.find(request)
    if planned.plan.epsilon and (stored is None or stored.published is None):
        raise StorageError(
            f"{why}, and the ledger does not have its numbers, so it cannot be restored here; "
            "restore the folder from a copy."
        )


def check_ledger_position(
    published: Release, place: Archive, target: CurrentRelease
) -> LedgerPosition | None:
    """Return the ledger position of a release; refuse a folder with other numbers."""
    booked = published.manifest["ledger"]
    stand = None if booked is None else LedgerPosition(booked["entry"], booked["chain"])
    if place.ledger_position(target) != stand:
        raise StorageError(
            f"{place.address} ({target.path}) holds a release that differs from the ledger's: the "
            "ledger was replaced meanwhile. Restore its newest copy; the published folder stands."
        )
    return stand


def projection(account: dict[str, Any], planned: PlannedRelease) -> str:
    """Return a day's price, and the end of the budget if every day costs as much."""
    epsilon, unit = planned.plan.epsilon, planned.facts.privacy_unit
    price = formatting.price(float(epsilon))
    if not epsilon:
        return "no reading is used: the map costs nothing, and shows only constants."
    spend = receipts.known_spend(account)
    if spend is None and "budget" not in account:
        return f"epsilon {price}; there is no ledger yet, and no budget is set."
    budget = Fraction(str(account["budget"])) if spend is None else spend.budget
    if unit != "user":
        return (
            f"epsilon {price} per {unit}, of a budget of {formatting.number_text(float(budget))}. "
            "Units of other days and weeks have budgets of their own: a vehicle that reports in "
            f"several can lose {price} in each."
        )
    spent = Fraction(0) if spend is None else spend.window
    # Fractions: a float quotient could gain or lose a day.
    days = int(max(budget - spent, Fraction(0)) / epsilon)
    return f"epsilon {price}; at that cost per day the budget ends after {days} days."


# ---- the days: which, and from when on ----

WAIT = "6h"
STEP = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
LONGEST = 3_700
"""Days of one command."""


def requested_days(day: str | None, first_day: str | None, last_day: str | None) -> list[date]:
    """Return the days, oldest first."""
    if (day is None) == (first_day is None) or (first_day is None) != (last_day is None):
        raise InputError("name a day (--date), or the first and the last day (--from and --to).")
    ends = [_date(text) for text in ((day, day) if day is not None else (first_day, last_day))]
    if not ends[0] <= ends[1] or (ends[1] - ends[0]).days >= LONGEST:
        raise InputError(f"--from {ends[0]} --to {ends[1]} must be a span of 1 to {LONGEST} days.")
    return [ends[0] + timedelta(k) for k in range((ends[1] - ends[0]).days + 1)]


def _date(text: str | None) -> date:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        raise InputError(f"a day must be a date such as 2026-11-20, got {text!r}.") from None


@dataclass(frozen=True)
class Outcome:
    """Outcome of one day.

    Attributes
    ----------
    day : str
    state : str
        "published", "published before", "restored" (its folder was damaged), "kept" (late records
        wait), "not ready", "refused", "failed", or "planned" where nothing was to be published.
    message : str
        A sentence.
    epsilon : float
        What it cost the most exposed unit, or would.
    code : int
        Exit code.
    """

    day: str
    state: str
    message: str
    epsilon: float = 0.0
    code: int = 0


@dataclass(frozen=True)
class Series:
    """How days are published.

    Attributes
    ----------
    run : Run
    account : dict
        Arguments of the ledger.
    place : Archive
    clock : ZoneInfo
        By which a day begins.
    wait : timedelta
        After the end of a day, for late records.
    revise, dry_run : bool
    """

    run: Run
    account: dict[str, Any]
    place: Archive
    clock: zoneinfo.ZoneInfo
    wait: timedelta
    revise: bool
    dry_run: bool

    @classmethod
    def of(cls, run: Run, *, revise: bool, dry_run: bool) -> Series:
        """Return the series of a run, checked before records are read."""
        if run.release.out is None:
            raise InputError(
                "out (in [release], or --out) is needed: name the folder for the maps of all days."
            )
        if run.select.dates is not None:
            raise InputError(
                "dates (in [select]) and publish cannot be combined: use --date instead."
            )
        account = arguments.ledger_arguments(run, Ledger)
        shared_steps.check_plan_options(run)
        check_inputs(run)
        place = open_archive(run.release.out, account["dataset"], run.read.scratch)
        if run.cells.timezone is None:
            raise InputError("timezone (in [cells]) is needed: a day begins by a local clock.")
        clock, wait = zone(run.cells.timezone), parse_wait(run.publish.wait or WAIT)
        is_revised = revise or run.publish.late == "revise"
        return cls(run, account, place, clock, wait, is_revised, dry_run)

    def ready_at(self, day: date) -> datetime:
        """Return the time from which a day can be published: its local end plus the wait."""
        # The start of the next day, because a local day has 23 to 25 hours.
        end = datetime.combine(day + timedelta(1), datetime.min.time(), self.clock)
        # Added in UTC: by the local clock it is an hour off on days when clocks change.
        return end.astimezone(UTC) + self.wait


def run_of_day(run: Run, day: str) -> Run:
    """Return the run of one local day; the period of the whole source is not that of the day."""
    run = run.with_fields("catalogue", temporal=None) if run.catalogue.temporal else run
    return run.with_fields("select", dates=(day, day))


def parse_wait(text: str) -> timedelta:
    """Return a time like "30min", "6h" or "2d"."""
    match = re.fullmatch(r"\s*(\d{1,4})\s*(min|h|d)\s*", text)
    if match is None:
        raise InputError(f"wait must be a time such as 30min, 6h or 2d, got {text!r}.")
    return int(match[1]) * STEP[match[2]]
