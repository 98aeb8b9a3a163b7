"""`hexveil publish`: the maps of one or many days, safe to repeat from a scheduler.

A day is a request like any other: a repeated request is answered from the ledger at no cost, and
an unfinished one continues. If a file was deleted or changed, the folder is restored from the
ledger's numbers. A day is ready when its last hour is over and the waiting time for late records
has passed. If later records change the occupancy, the published map stands, unless --revise pays
for a revision.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.errors import BudgetError, HexveilError, StorageError
from hexveil.base.work_share import PLANNING, READING, RELEASING, WRITING, ShownWork
from hexveil.cli import endings, formatting, receipts
from hexveil.cli.day_series import Outcome, Series, requested_days, run_of_day
from hexveil.cli.formatting import budget_words
from hexveil.cli.planned_release import PlannedRelease, folder_extras, plan_release, signer_of
from hexveil.config import Run, arguments, load
from hexveil.config.run_file import Key
from hexveil.ledger import Ledger
from hexveil.planning.feasibility.recommendation import USABLE_GRID
from hexveil.publishing.archive.archive import Archive
from hexveil.publishing.archive.archive_listing import CurrentRelease, LedgerPosition
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.cli import declarations
    from hexveil.publishing import Release

PARTS_OF_DAY = {
    READING: (0.0, 0.5),
    PLANNING: (0.5, 0.6),
    USABLE_GRID: (0.6, 0.7),
    RELEASING: (0.7, 0.9),
    WRITING: (0.9, 1.0),
}
"""Where each step of a day begins and ends in it, about: for the time that is left."""


def publish(run: Run, options: declarations.PublishOptions) -> int:
    """Publish the maps of local days, each in its own folder below `out`."""
    days = requested_days(options.date, options.first_day, options.last_day)

    def tell(outcome: Outcome) -> None:
        if not options.as_json:
            formatting.print_rows([(outcome.day, f"{outcome.state}: {outcome.message}")])

    series = Series.of(run, revise=options.revise, dry_run=options.dry_run)
    outcomes, n_listed = publish_days(series, days, tell)
    if options.as_json:
        typer.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
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
    began = time.monotonic()
    for number, day in enumerate(days):
        endings.stop_if_asked()
        with show_progress(work_of_day(day, number, len(days), began)):
            outcomes.append(attempt(series, day))
        tell(outcomes[-1])
        if outcomes[-1].code == BudgetError.exit_code:
            break  # later days cost as much
    with show_progress("Listing the days"):
        return outcomes, 0 if series.dry_run else series.place.update_catalogue()


def work_of_day(day: date, number: int, days: int, began: float) -> ShownWork:
    """Return the work of a day, counted from 0, with its steps, as the progress line shows it.

    Examples
    --------
    >>> work = work_of_day(date(2026, 11, 20), 1, 4, began=0.0)
    >>> work.text(10.0)
    'Publishing 2026-11-20, day 2 of 4 ... 25%, about 30 s left'
    """
    of_all = f", day {number + 1} of {days}" if days > 1 else ""
    steps = {
        step: ((number + begin) / days, (number + end) / days)
        for step, (begin, end) in PARTS_OF_DAY.items()
    }
    return ShownWork(f"Publishing {day}{of_all}", began, number / days, steps)


def now() -> datetime:
    """Return the current time; tests replace this clock."""
    return datetime.now(UTC)


def attempt(series: Series, day: date) -> Outcome:
    """Publish one day; an error is its outcome and does not stop the command."""
    name, ready_time = day.isoformat(), series.ready_at(day)
    # A dry run shows the price of any day, over or not.
    if now() < ready_time and not series.dry_run:
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
        return Outcome(day, "planned", projection(account, planned, day), price)
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


def projection(account: dict[str, Any], planned: PlannedRelease, day: str) -> str:
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
        period = "week" if unit == "user-week" else "day"
        return (
            f"epsilon {price} per {unit}, of a budget of "
            f"{formatting.number_text(float(budget))}. Each {period} has its own units, so other "
            f"{period}s do not use up the budget; the owner of a unit on every {period} loses "
            f"{price} per {period}."
        )
    spent = Fraction(0) if spend is None else spend.window
    # Fractions: a float quotient could gain or lose a day.
    days = int(max(budget - spent, Fraction(0)) / epsilon)
    if spend is not None and spend.kind != "lifetime":
        return f"epsilon {price}; at that cost this {spend.kind}'s budget lasts {days} more days."
    gone = date.fromisoformat(day) + timedelta(days)
    return f"epsilon {price}; at that cost per day the budget ends on {gone}, after {days} days."
