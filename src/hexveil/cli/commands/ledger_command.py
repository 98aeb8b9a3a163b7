"""`hexveil ledger`: manage the privacy ledger."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path  # noqa: TC003  the parser reads annotations
from typing import TYPE_CHECKING, Annotated

import typer

from hexveil.base.errors import InputError
from hexveil.base.work_share import LEDGER_CHECK
from hexveil.cli import receipts
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting, ledger_text
from hexveil.config import arguments, load
from hexveil.ledger import Ledger, inspection
from hexveil.ledger import export as exporting
from hexveil.ledger.integrity.verification import verify as verified
from hexveil.ledger.storage.databases import MEMORY
from hexveil.publishing import signing
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from hexveil.config import Run
    from hexveil.ledger.events import Event

app = typer.Typer(add_completion=False)

Where = Annotated[
    str,
    typer.Argument(help="A ledger, or a run file (.toml) that names one.", metavar="LEDGER"),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset", help="Name of the data set. Default: the run file's.", metavar="TEXT"
    ),
]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Key file. Default: beside the ledger file.", metavar="FILE"),
]


@app.callback(invoke_without_command=True)
def _top(context: typer.Context) -> None:
    """Manage the privacy ledger: create, show, verify."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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


def engine_of(run: Run) -> inspection.Engine:
    """Open the run's existing ledger for inspection."""
    assert run.ledger.url is not None  # noqa: S101  asked
    with contextlib.chdir(run.folder):
        return inspection.connect_existing(run.ledger.url)


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


@app.command(
    "init", epilog="Example:  hexveil ledger init ledger.sqlite --dataset buses --budget 5"
)
def init(  # noqa: PLR0913  its options
    location: Where,
    *,
    dataset: Dataset = None,
    budget: Annotated[
        str | None, typer.Option(help="Largest loss of a unit, in epsilon.", metavar="NUMBER")
    ] = None,
    window: Annotated[
        str | None, typer.Option(help='"lifetime", "month" or "day".', metavar="TEXT")
    ] = None,
    key: Key = None,
    account: Annotated[
        str | None,
        typer.Option(help="Account whose budget several data sets share.", metavar="TEXT"),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(help="Promise (epsilon, delta) at this delta, for good.", metavar="NUMBER"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Open the account of a data set; creates the ledger and its key if necessary."""
    run = run_for(
        location, dataset=dataset, budget=budget, window=window, key=key, account=account
    )  # fmt: skip
    with contextlib.chdir(run.folder):
        given = arguments.ledger_arguments(run, Ledger)
        book = Ledger(**given | ({} if delta is None else {"delta": delta}))
    opened = (
        book.account,
        book.dataset,
        ledger_text.relative_path(book.address),
        ledger_text.relative_path(str(book.key_file)),
    )
    echo(ledger_text.opened_lines(*opened), ledger_text.opened_json(*opened), as_json=as_json)


@app.command("show", epilog="Example:  hexveil ledger show ledger.sqlite --dataset buses")
def show(location: Where, *, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """Show the spent and the remaining budget, of all accounts or of one data set.

    For this window, and for the lifetime of an owner present throughout.
    """
    run = run_for(location, dataset=dataset)
    engine = engine_of(run)
    summary, name = (
        inspection.overview(engine, run.ledger.dataset),
        ledger_text.relative_path(inspection.describe_address(engine)),
    )
    echo(
        ledger_text.overview_lines(summary, name),
        ledger_text.overview_json(summary, name),
        as_json=as_json,
    )


@app.command("history", epilog="Example:  hexveil ledger history ledger.sqlite --limit 20")
def history(
    location: Where,
    *,
    dataset: Dataset = None,
    limit: Annotated[
        int, typer.Option(help="Number of latest events.", metavar="NUMBER", min=1)
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List the events, oldest first; public metadata only."""
    run = run_for(location, dataset=dataset)
    events = inspection.history(engine_of(run), run.ledger.dataset, limit=limit)
    lines = [ledger_text.event_line(event) for event in events] or ["No events yet."]
    echo(lines, [exporting.event_row(event) for event in events], as_json=as_json)


@app.command(
    "set-budget", epilog="Example:  hexveil ledger set-budget ledger.sqlite 8 --dataset buses"
)
def set_budget(
    location: Where,
    budget: Annotated[str, typer.Argument(help="New budget, in epsilon.", metavar="NUMBER")],
    *,
    dataset: Dataset = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Change a budget; the old one and the new one stay on record."""
    run = run_for(location, dataset=dataset, key=key)
    book = open_ledger(run, run.ledger.dataset)
    old_account = book.account
    book.set_budget(budget)
    new_account, spend = book.account, book.spend()
    json_data = ledger_text.account_json(new_account) | {
        "before": ledger_text.account_json(old_account)["budget"]
    }
    echo(ledger_text.changed_lines(old_account, new_account, spend), json_data, as_json=as_json)


@app.command("verify", epilog="Example:  hexveil ledger verify ledger.sqlite --receipt map")
def verify(
    location: Where,
    *,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            help="Release folder whose entry must be in the ledger; repeatable.", metavar="FOLDER"
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check that the ledger is consistent: its hash chain, its events, every sum.

    With a receipt, also that the ledger is not an older copy. Exit 0 if consistent, 2 if not.
    """
    engine = engine_of(run_for(location))
    with show_progress(LEDGER_CHECK):
        verdict = verified(engine)
    # The chain alone cannot reveal an older copy; a later receipt can.
    problems = [*verdict.problems, *receipts.find_problems(engine, receipt or ())]
    text = f"{verdict.entries:,} events are consistent; the last has hash {verdict.head}."
    lines = formatting.wrapped("Checked", text)
    if problems:
        lines = ["The ledger is inconsistent:", *(f"  {problem}" for problem in problems)]
    json_data = {"entries": verdict.entries, "chain": verdict.head, "problems": problems}
    echo(lines, json_data, as_json=as_json)
    return 2 if problems else 0


@app.command("resolve", epilog="Example:  hexveil ledger resolve ledger.sqlite")
def resolve(
    location: Where,
    *,
    give_back: Annotated[
        str | None, typer.Option(help="Reserved request to give back.", metavar="REQUEST")
    ] = None,
    abandon: Annotated[
        str | None,
        typer.Option(help="Marked request to abandon: its draw began.", metavar="REQUEST"),
    ] = None,
    dataset: Dataset = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List unfinished releases; give back or abandon one.

    Running a release again finishes it. The first characters of a request are enough.
    """
    if give_back is not None and abandon is not None:
        raise InputError("--give-back and --abandon cannot be combined: name one request.")
    run = run_for(location, dataset=dataset, key=key)
    waiting = inspection.unresolved(engine_of(run), run.ledger.dataset)
    start = give_back if abandon is None else abandon
    if start is None:
        rows = [exporting.event_row(event) for event in waiting]
        echo(ledger_text.waiting_lines(waiting), rows, as_json=as_json)
        return
    event = matching_release(waiting, start)
    book = open_ledger(run, event.dataset)
    if abandon is None:
        book.cancel(event.request)
        state, outcome = "returned", "given back: it costs nothing"
    else:
        book.abandon(event.request)
        state, outcome = "abandoned", "abandoned: its price stays spent"
    json_data = {"dataset": event.dataset, "request": event.request, "state": state}
    echo(
        formatting.wrapped("Release", f"{event.request[:16]} is {outcome}."),
        json_data,
        as_json=as_json,
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


@app.command("keygen", epilog="Example:  hexveil ledger keygen signing.pem")
def keygen(
    file: Annotated[Path, typer.Argument(help="New file for the private key.", metavar="FILE")],
    *,
    as_json: AsJson = False,
) -> None:
    """Create a key pair for signing release folders.

    A run signs with the private key that sign (or --sign) names. Recipients check a folder with
    hexveil verify --key FILE.pub.
    """
    public = signing.generate_key_pair(file)
    fingerprint = signing.read_verification_key(public).fingerprint
    lines = [
        *formatting.wrapped("Private key", f"{file}: keep it secret, and store a copy elsewhere."),
        *formatting.wrapped("Public key", f"{public}: give it to the recipients of releases."),
        *formatting.wrapped(
            "Fingerprint", f"{fingerprint}: send it to them through another channel."
        ),
    ]
    json_data = {"private_key": str(file), "public_key": str(public), "fingerprint": fingerprint}
    echo(lines, json_data, as_json=as_json)


@app.command("export", epilog="Example:  hexveil ledger export ledger.sqlite events.csv")
def export(
    location: Where,
    file: Annotated[
        Path, typer.Argument(help="New file: .json, .csv or .parquet.", metavar="FILE")
    ],
    *,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Include the published numbers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write every event to a file, without the losses of single units."""
    engine = engine_of(run_for(location))
    with show_progress("Reading the ledger"):
        events = inspection.history(engine)
    exporting.write(file, events, results=inspection.results(engine) if numbers else None)
    json_data = {"file": str(file), "events": len(events)}
    echo(
        formatting.wrapped("Written", f"{file}: {len(events):,} events."),
        json_data,
        as_json=as_json,
    )
