"""`hexveil ledger`: manage the privacy ledger."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import typer

from hexveil.base.errors import InputError
from hexveil.base.work_share import LEDGER_CHECK
from hexveil.cli import receipts
from hexveil.cli.output import formatting, ledger_text
from hexveil.config import arguments, load
from hexveil.ledger import Ledger, inspection
from hexveil.ledger.verification import verify as verified
from hexveil.ledger.databases import MEMORY, Engine, connect_existing, describe_address
from hexveil.publishing import signing
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.cli import declarations
    from hexveil.config import Run
    from hexveil.ledger.events import Event


def run_for(location: str, **options: str | None) -> Run:
    """Return the run of a file or of a ledger's address, with fields of [ledger] overridden."""
    overrides = {("ledger", name): text for name, text in options.items() if text is not None}
    if location.lower().endswith(".toml"):
        run = load(location, overrides)
    else:
        run = load(None, {("ledger", "url"): location} | overrides)
    if run.ledger.url is None:
        raise InputError(f"{location} names no ledger; set url in [ledger].")
    if run.ledger.url == MEMORY:
        raise InputError("a ledger in memory ends with its program; name a file or a server.")
    return run


def engine_of(run: Run) -> Engine:
    """Open the run's existing ledger for inspection."""
    assert run.ledger.url is not None  # noqa: S101  asked
    with contextlib.chdir(run.folder):
        return connect_existing(run.ledger.url)


def open_ledger(run: Run, dataset: str | None) -> Ledger:
    """Open the ledger of a registered data set for writing."""
    if dataset is None:
        raise InputError("dataset (in [ledger], or --dataset) is needed: name the data set.")
    assert run.ledger.url is not None  # noqa: S101  asked
    # Refuses an unknown data set: Ledger() would register a mistyped name.
    inspection.overview(engine_of(run), dataset)
    with contextlib.chdir(run.folder):
        return Ledger(run.ledger.url, dataset=dataset, key=run.ledger.key)


def echo(lines: list[str], json_data: object, *, as_json: bool) -> None:
    """Print lines, or the data as JSON."""
    typer.echo(json.dumps(json_data, indent=2) if as_json else "\n".join(lines))


def init(options: declarations.LedgerInitOptions) -> None:
    """Open the account of a data set; creates the ledger and its key if necessary."""
    run = run_for(
        options.location,
        dataset=options.dataset,
        budget=options.budget,
        window=options.window,
        key=options.key,
        account=options.account,
    )
    with contextlib.chdir(run.folder):
        stated = arguments.ledger_arguments(run, Ledger)
        book = Ledger(**stated | ({} if options.delta is None else {"delta": options.delta}))
    opened = (
        book.account,
        book.dataset,
        ledger_text.relative_path(book.address),
        ledger_text.relative_path(str(book.key_file)),
    )
    echo(
        ledger_text.opened_lines(*opened), ledger_text.opened_json(*opened), as_json=options.as_json
    )


def show(options: declarations.LedgerShowOptions) -> None:
    """Show the spent and the remaining budget, of all accounts or of one data set."""
    run = run_for(options.location, dataset=options.dataset)
    engine = engine_of(run)
    summary, name = (
        inspection.overview(engine, run.ledger.dataset),
        ledger_text.relative_path(describe_address(engine)),
    )
    echo(
        ledger_text.overview_lines(summary, name),
        ledger_text.overview_json(summary, name),
        as_json=options.as_json,
    )


def history(options: declarations.LedgerHistoryOptions) -> None:
    """List the events, oldest first; public metadata only."""
    run = run_for(options.location, dataset=options.dataset)
    events = inspection.history(engine_of(run), run.ledger.dataset, limit=options.limit)
    lines = [ledger_text.event_line(event) for event in events] or ["No events yet."]
    echo(lines, [inspection.event_row(event) for event in events], as_json=options.as_json)


def set_budget(options: declarations.LedgerSetBudgetOptions) -> None:
    """Change a budget; the old one and the new one stay on record."""
    run = run_for(options.location, dataset=options.dataset, key=options.key)
    book = open_ledger(run, run.ledger.dataset)
    old_account = book.account
    book.set_budget(options.budget)
    new_account, spend = book.account, book.spend()
    json_data = ledger_text.account_json(new_account) | {
        "before": ledger_text.account_json(old_account)["budget"]
    }
    echo(
        ledger_text.changed_lines(old_account, new_account, spend),
        json_data,
        as_json=options.as_json,
    )


def verify(options: declarations.LedgerVerifyOptions) -> int:
    """Check that the ledger is consistent: its hash chain, its events, every sum."""
    engine = engine_of(run_for(options.location))
    with show_progress(LEDGER_CHECK):
        verdict = verified(engine)
    # The chain alone cannot reveal an older copy; a later options.receipt can.
    problems = [*verdict.problems, *receipts.find_problems(engine, options.receipt or ())]
    text = f"{verdict.entries:,} events are consistent; the last has hash {verdict.head}."
    lines = formatting.wrapped("Checked", text)
    if problems:
        lines = ["The ledger is inconsistent:", *(f"  {problem}" for problem in problems)]
    json_data = {"entries": verdict.entries, "chain": verdict.head, "problems": problems}
    echo(lines, json_data, as_json=options.as_json)
    return 2 if problems else 0


def resolve(options: declarations.LedgerResolveOptions) -> None:
    """List unfinished releases; give back or abandon one."""
    if options.give_back is not None and options.abandon is not None:
        raise InputError("--give-back and --abandon cannot be combined: name one request.")
    run = run_for(options.location, dataset=options.dataset, key=options.key)
    waiting = inspection.unresolved(engine_of(run), run.ledger.dataset)
    start = options.give_back if options.abandon is None else options.abandon
    if start is None:
        rows = [inspection.event_row(event) for event in waiting]
        echo(ledger_text.waiting_lines(waiting), rows, as_json=options.as_json)
        return
    event = matching_release(waiting, start)
    book = open_ledger(run, event.dataset)
    if options.abandon is None:
        book.cancel(event.request)
        state, outcome = "returned", "given back: it costs nothing"
    else:
        book.abandon(event.request)
        state, outcome = "abandoned", "abandoned: its price stays spent"
    json_data = {"dataset": event.dataset, "request": event.request, "state": state}
    echo(
        formatting.wrapped("Release", f"{event.request[:16]} is {outcome}."),
        json_data,
        as_json=options.as_json,
    )


def matching_release(waiting: tuple[Event, ...], start: str) -> Event:
    """Return the only unfinished release with this request prefix."""
    matches = [event for event in waiting if start and event.request.startswith(start)]
    if len(matches) != 1:
        raise InputError(
            f"{len(matches)} unfinished releases begin with {start!r}, but exactly one must; "
            "resolve without an option lists them."
        )
    return matches[0]


def keygen(options: declarations.LedgerKeygenOptions) -> None:
    """Create a key pair for signing release folders."""
    public = signing.generate_key_pair(options.file)
    fingerprint = signing.read_verification_key(public).fingerprint
    lines = [
        *formatting.wrapped(
            "Private key", f"{options.file}: keep it secret, and store a copy elsewhere."
        ),
        *formatting.wrapped("Public key", f"{public}: give it to the recipients of releases."),
        *formatting.wrapped(
            "Fingerprint", f"{fingerprint}: send it to them through another channel."
        ),
    ]
    json_data = {
        "private_key": str(options.file),
        "public_key": str(public),
        "fingerprint": fingerprint,
    }
    echo(lines, json_data, as_json=options.as_json)


def export(options: declarations.LedgerExportOptions) -> None:
    """Write every event to a file, without the losses of single units."""
    engine = engine_of(run_for(options.location))
    with show_progress("Reading the ledger"):
        events = inspection.history(engine)
    inspection.export(
        options.file, events, results=inspection.results(engine) if options.numbers else None
    )
    json_data = {"file": str(options.file), "events": len(events)}
    echo(
        formatting.wrapped("Written", f"{options.file}: {len(events):,} events."),
        json_data,
        as_json=options.as_json,
    )
