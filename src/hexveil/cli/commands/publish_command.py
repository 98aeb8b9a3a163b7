"""`hexveil publish`: a day's map, or many days', that a scheduler can ask for again and again.

A day is a request like any other: asked again it is answered from the ledger at no cost, and one
that stopped on the way goes on. A file that was deleted or changed since is noticed, and the folder
written anew from the ledger's numbers. A day is ready when its last hour is over and late records
have had their time (--wait). Records that come later still, and change who reported how often
where, wait: what is published stands, unless --revise pays for a revision.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hexveil.base.errors import BudgetError, HexveilError, InputError, StorageError
from hexveil.cli import interrupts, receipts, shared_steps
from hexveil.cli.commands import release_command
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting
from hexveil.config import Run, arguments
from hexveil.ledger import Ledger, inspection
from hexveil.model.cells import zone
from hexveil.publishing.archive.archive import Archive, archive
from hexveil.publishing.archive.current_release import Pointer, Stand
from hexveil.publishing.manifest import fingerprint, request_of

if TYPE_CHECKING:
    import zoneinfo

    from hexveil.ledger import Spend
    from hexveil.planning import Plan
    from hexveil.publishing import Release
    from hexveil.records import Dataset

LEFT_OUT = ()
"""Sections of a run that this command has no use for: none, [publish] is its own."""

WAIT = "6h"
STEP = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
LONGEST = 3_700
"""Days of one command."""

Day = Annotated[
    str | None, typer.Option("--date", help="Local day, for example 2026-11-20.", metavar="DATE")
]
First = Annotated[str | None, typer.Option("--from", help="First local day.", metavar="DATE")]
Last = Annotated[str | None, typer.Option("--to", help="Last local day.", metavar="DATE")]
Revise = Annotated[bool, typer.Option("--revise", help="Like --late revise, for this run only.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the price; publish and book nothing.")
]


@dataclass(frozen=True)
class Outcome:
    """What became of a day.

    Attributes
    ----------
    day : str
    state : str
        "published", "published before", "restored" (its folder was damaged), "kept" (late records
        wait), "not ready", "refused", "failed", or "planned" where nothing was to be published.
    said : str
        A sentence.
    epsilon : float
        What it cost the most exposed unit, or would.
    code : int
        Exit code.
    """

    day: str
    state: str
    said: str
    epsilon: float = 0.0
    code: int = 0


def publish(
    run: Run,
    *,
    day: Day = None,
    first: First = None,
    last: Last = None,
    revise: Revise = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Publish the maps of local days, each in its own folder below `out`.

    Repeating a day costs nothing, and continues an unfinished one. `latest.json` names the
    official release.
    """
    days = asked(day, first, last)
    if run.release.out is None:
        raise InputError(
            "out (in [release], or --out) is needed: name the folder for the maps of all days."
        )
    if run.select.dates is not None:
        raise InputError("dates (in [select]) and publish cannot be combined: use --date instead.")
    account = arguments.ledger_arguments(run, Ledger)
    shared_steps.price_named(run)
    release_command.signer_of(run)
    place = archive(run.release.out, account["dataset"], run.read.scratch)
    ready = ready_after(run, run.publish.wait or WAIT)
    revise = revise or run.publish.late == "revise"
    found: list[Outcome] = []
    for one in days:
        interrupts.stop_if_asked()
        found.append(attempt(run, one, place, ready, revise=revise, dry_run=dry_run))
        if not as_json:
            typer.echo("\n".join(formatting.wrapped(one.isoformat(), said(found[-1]))))
        if found[-1].code == BudgetError.exit_code:
            break  # later days cost as much
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
    return max(one.code for one in found)


def asked(day: str | None, first: str | None, last: str | None) -> list[date]:
    """Return the days, oldest first."""
    if (day is None) == (first is None) or (first is None) != (last is None):
        raise InputError("name a day (--date), or the first and the last day (--from and --to).")
    ends = [_date(text) for text in ((day, day) if day is not None else (first, last))]
    if not ends[0] <= ends[1] or (ends[1] - ends[0]).days >= LONGEST:
        raise InputError(f"--from {ends[0]} --to {ends[1]} must be a span of 1 to {LONGEST} days.")
    return [ends[0] + timedelta(k) for k in range((ends[1] - ends[0]).days + 1)]


def _date(text: str | None) -> date:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        raise InputError(f"a day must look like 2026-11-20, got {text!r}.") from None


def ready_after(run: Run, wait: str) -> dict[str, Any]:
    """Return the clock and the delay by which a day is ready."""
    if run.cells.timezone is None:
        raise InputError("timezone (in [cells]) is needed: a day begins by a local clock.")
    return {"clock": zone(run.cells.timezone), "wait": waiting(wait)}


def waiting(text: str) -> timedelta:
    """Return a time like "30min", "6h" or "2d"."""
    parts = re.fullmatch(r"\s*(\d{1,4})\s*(min|h|d)\s*", text)
    if parts is None:
        raise InputError(f"wait must be a time such as 30min, 6h or 2d, got {text!r}.")
    return int(parts[1]) * STEP[parts[2]]


def ready_at(day: date, *, clock: zoneinfo.ZoneInfo, wait: timedelta) -> datetime:
    """Return from when on a day can be published: its end by the local clock, and the wait."""
    end = datetime.combine(day + timedelta(1), datetime.min.time(), clock)
    return end.astimezone(UTC) + wait


def now() -> datetime:
    """Return the time; tests put another clock in its place."""
    return datetime.now(UTC)


def attempt(
    run: Run, day: date, place: Archive, ready: dict[str, Any], *, revise: bool, dry_run: bool
) -> Outcome:
    """Return what became of a day; an error of one day is its outcome, not the command's end."""
    name, at = day.isoformat(), ready_at(day, **ready)
    if now() < at and not dry_run:
        return Outcome(name, "not ready", f"ready at {at:%Y-%m-%d %H:%M} UTC.", code=2)
    try:
        return _attempt(run, name, place, revise=revise, dry_run=dry_run)
    except HexveilError as error:
        interrupts.stop_if_asked()  # it may be what a library made of an interruption
        state = "refused" if isinstance(error, BudgetError) else "failed"
        return Outcome(name, state, str(error), code=error.exit_code)


def _attempt(run: Run, day: str, place: Archive, *, revise: bool, dry_run: bool) -> Outcome:
    select = run.select.model_copy(update={"dates": (day, day)})
    of_day = run.model_copy(update={"select": select}).standing_in(run.folder)
    account = arguments.ledger_arguments(run, Ledger)
    dataset = shared_steps.read(of_day)
    made, _ = release_command.supported(of_day, dataset)
    request = fingerprint(request_of(account["dataset"], dataset.public, made))
    price = float(made.epsilon)
    if dry_run:
        return Outcome(day, "planned", projection(account, dataset, made, day), price)
    pointer, asked_for = place.pointer(day), Pointer.to(day, request)
    receipts.check_behind(account["url"], place, pointer, place.pointer(), asked_for)
    if pointer is not None and pointer.request != request and not revise:
        return kept(day, place, pointer, price)
    return _published(of_day, dataset, made, request, place, pointer)


def _published(
    run: Run, dataset: Dataset, made: Plan, request: str, place: Archive, pointer: Pointer | None
) -> Outcome:
    """Return the outcome of a day that is published now, or was before."""
    assert run.select.dates is not None  # noqa: S101  the day's own
    day = str(run.select.dates[0])
    account = arguments.ledger_arguments(run, Ledger)
    book = Ledger(**account)
    found = Pointer.to(day, request)
    if pointer is not None and pointer.request == request and place.there(pointer):
        damage = place.damage(pointer, release_command.signer_of(run))
        if damage:
            published = answered(run, dataset, made, book, lost(pointer, damage))
            place.restore(
                pointer, lambda folder: published.write(folder, **release_command.beside(run))
            )
        place.advance(pointer)  # if a crash came between the two pointers
        if damage:
            told = f"{lost(pointer, damage)}; restored from the ledger's numbers, at no cost."
            return Outcome(day, "restored", told)
        return Outcome(day, "published before", f"{place.where}: the same request, at no cost.")
    place.check(found)
    published = release_command.publish(run, dataset, made, book)
    place.put(found, lambda folder: published.write(folder, **release_command.beside(run)))
    stand = rested(published, place, found)
    if stand is not None:
        book.commit(request)
        place.note(stand)
    place.point(found)
    price = 0.0 if published.replayed else float(made.epsilon)
    cost = "no further cost" if published.replayed else f"epsilon {formatting.price(price)}"
    return Outcome(
        day, "published", f"{found.path} at {cost}; {formatting.spent(book.spend())}", price
    )


def kept(day: str, place: Archive, pointer: Pointer, price: float) -> Outcome:
    """Return the outcome of a day whose published map stands, whole or damaged, though it differs.

    What would be published now is another request, so that a damaged folder cannot be made of it.
    """
    another = "late records arrived, or the plan changed"
    revision = f"--revise publishes a revision at epsilon {formatting.price(price)}."
    damage = place.damage(pointer)
    if damage:
        told = f"{lost(pointer, damage)}, and cannot be restored here, because {another}; restore"
        return Outcome(day, "failed", f"{told} the folder from a copy, or {revision}", code=1)
    return Outcome(day, "kept", f"{another}; the published map stands. {revision}")


def lost(pointer: Pointer, damage: tuple[str, ...]) -> str:
    """Return what is wrong with a published folder, in words."""
    return f"{pointer.path}: {', '.join(damage)}"


def answered(run: Run, dataset: Dataset, made: Plan, book: Ledger, why: str) -> Release:
    """Return a release from the numbers that the ledger has; refuse to draw any for a restoration.

    Raises
    ------
    StorageError
        If the ledger does not have them.
    """
    request = fingerprint(request_of(book.dataset, dataset.public, made))
    known = book.find(request)
    if made.epsilon and (known is None or known.published is None):
        raise StorageError(
            f"{why}, and the ledger does not have its numbers, so it cannot be restored here; "
            "restore the folder from a copy."
        )
    return release_command.publish(run, dataset, made, book)


def rested(published: Release, place: Archive, found: Pointer) -> Stand | None:
    """Return what a release rests on; refuse a folder of its name that holds other numbers."""
    own = published.manifest["ledger"]
    stand = None if own is None else Stand(own["entry"], own["chain"])
    if place.stand(found) != stand:
        raise StorageError(
            f"{place.where} ({found.path}) holds a release that differs from the ledger's: the "
            "ledger was replaced meanwhile. Restore its newest copy; the published folder stands."
        )
    return stand


def said(one: Outcome) -> str:
    """Return an outcome in words."""
    return f"{one.state}: {one.said}"


def projection(account: dict[str, Any], dataset: Dataset, made: Plan, day: str) -> str:
    """Return a day's price and when a budget would be gone if every day cost as much."""
    price = formatting.price(float(made.epsilon))
    if not made.epsilon:
        return "no reading is used: the map costs nothing, and shows only constants."
    spend = _known_spend(account)
    if spend is None and "budget" not in account:
        return f"epsilon {price}; there is no ledger yet, and no budget is set."
    budget = Fraction(str(account["budget"])) if spend is None else spend.budget
    if dataset.public.privacy_unit != "user":
        each = "week" if dataset.public.privacy_unit == "user-week" else "day"
        return (
            f"epsilon {price} per {dataset.public.privacy_unit}, of a budget of "
            f"{formatting.plain(float(budget))}. Each {each} has its own units, so other {each}s "
            f"do not use up the budget; the owner of a unit on every {each} loses {price} per "
            f"{each}."
        )
    spent = Fraction(0) if spend is None else spend.window
    days = int(max(budget - spent, Fraction(0)) / made.epsilon)
    if spend is not None and spend.kind != "lifetime":
        return f"epsilon {price}; at that price this {spend.kind}'s budget lasts {days} more days."
    gone = date.fromisoformat(day) + timedelta(days)
    return f"epsilon {price}; at that price per day the budget ends on {gone}, after {days} days."


def _known_spend(account: dict[str, Any]) -> Spend | None:
    """Return what a ledger says that is there and knows the data set; a dry run makes none."""
    try:
        engine = inspection.existing(account["url"])
        (found,) = inspection.overview(engine, account["dataset"]).accounts
    except InputError:
        return None
    return found.spend
