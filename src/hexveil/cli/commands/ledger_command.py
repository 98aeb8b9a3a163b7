"""`hexveil ledger`: the book of what was spent, for those who hold it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path  # noqa: TC003  the parser reads annotations
from typing import TYPE_CHECKING, Annotated

import typer

from hexveil.base.errors import InputError
from hexveil.cli import receipts
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting
from hexveil.cli.output import ledger_text as said
from hexveil.config import arguments, load
from hexveil.ledger import Ledger, inspection
from hexveil.ledger import export as exporting
from hexveil.ledger.integrity.verification import verify as verified
from hexveil.ledger.storage.databases import MEMORY
from hexveil.publishing import signing

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


def asked(where: str, **options: str | None) -> Run:
    """Return the run of a file, or of a ledger's address alone, with fields of [ledger] given."""
    given = {("ledger", name): text for name, text in options.items() if text is not None}
    if where.lower().endswith(".toml"):
        run = load(where, given)
    else:
        run = load(None, {("ledger", "url"): where} | given)
    if run.ledger.url is None:
        raise InputError(f"{where} names no ledger; set url in [ledger].")
    if run.ledger.url == MEMORY:
        raise InputError("a ledger in memory ends with its program; name a file or a server.")
    return run


def engine_of(run: Run) -> inspection.Engine:
    """Return the run's ledger, opened to be looked into; it must be there."""
    assert run.ledger.url is not None  # noqa: S101  asked
    with contextlib.chdir(run.folder):
        return inspection.existing(run.ledger.url)


def book_of(run: Run, dataset: str | None) -> Ledger:
    """Return the book of a data set that it knows, to be written to."""
    if dataset is None:
        raise InputError("dataset (in [ledger], or --dataset) is needed: name the data set.")
    assert run.ledger.url is not None  # noqa: S101  asked
    inspection.overview(engine_of(run), dataset)
    with contextlib.chdir(run.folder):
        return Ledger(run.ledger.url, dataset=dataset, key=run.ledger.key)


def tell(lines: list[str], plain: object, *, as_json: bool) -> None:
    """Print lines, or the same for machines."""
    typer.echo(json.dumps(plain, indent=2) if as_json else "\n".join(lines))


@app.command(
    "init", epilog="Example:  hexveil ledger init ledger.sqlite --dataset buses --budget 5"
)
def init(
    where: Where,
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
    as_json: AsJson = False,
) -> None:
    """Open the account of a data set; creates the ledger and its key if necessary."""
    run = asked(
        where, dataset=dataset, budget=budget, window=window, key=key, account=account
    )  # fmt: skip
    with contextlib.chdir(run.folder):
        book = Ledger(**arguments.ledger_arguments(run, Ledger))
    what = (book.account, book.dataset, said.near(book.where), said.near(str(book.key_file)))
    tell(said.opened_lines(*what), said.opened_json(*what), as_json=as_json)


@app.command("show", epilog="Example:  hexveil ledger show ledger.sqlite --dataset buses")
def show(where: Where, *, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """Show the spent and the remaining budget, of all accounts or of one data set.

    For this window, and for the lifetime of an owner present throughout.
    """
    run = asked(where, dataset=dataset)
    engine = engine_of(run)
    found, name = (
        inspection.overview(engine, run.ledger.dataset),
        said.near(inspection.where(engine)),
    )
    tell(said.overview_lines(found, name), said.overview_json(found, name), as_json=as_json)


@app.command("history", epilog="Example:  hexveil ledger history ledger.sqlite --limit 20")
def history(
    where: Where,
    *,
    dataset: Dataset = None,
    limit: Annotated[
        int, typer.Option(help="Number of latest events.", metavar="NUMBER", min=1)
    ] = 100,
    as_json: AsJson = False,
) -> None:
    """List the events, oldest first; public metadata only."""
    run = asked(where, dataset=dataset)
    found = inspection.history(engine_of(run), run.ledger.dataset, limit=limit)
    lines = [said.event_line(one) for one in found] or ["No events yet."]
    tell(lines, [exporting.row(one) for one in found], as_json=as_json)


@app.command(
    "set-budget", epilog="Example:  hexveil ledger set-budget ledger.sqlite 8 --dataset buses"
)
def set_budget(
    where: Where,
    budget: Annotated[str, typer.Argument(help="New budget, in epsilon.", metavar="NUMBER")],
    *,
    dataset: Dataset = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Change a budget; the old one and the new one stay on record."""
    run = asked(where, dataset=dataset, key=key)
    book = book_of(run, run.ledger.dataset)
    before = book.account
    book.set_budget(budget)
    after, spend = book.account, book.spend()
    plain = said.account_json(after) | {"before": said.account_json(before)["budget"]}
    tell(said.changed_lines(before, after, spend), plain, as_json=as_json)


@app.command("verify", epilog="Example:  hexveil ledger verify ledger.sqlite --receipt map")
def verify(
    where: Where,
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
    engine = engine_of(asked(where))
    verdict = verified(engine)
    problems = [*verdict.problems, *receipts.problems(engine, receipt or ())]
    text = f"{verdict.entries:,} events are consistent; the last has hash {verdict.head}."
    lines = formatting.wrapped("Checked", text)
    if problems:
        lines = ["The ledger is inconsistent:", *(f"  {one}" for one in problems)]
    plain = {"entries": verdict.entries, "chain": verdict.head, "problems": problems}
    tell(lines, plain, as_json=as_json)
    return 2 if problems else 0


@app.command("resolve", epilog="Example:  hexveil ledger resolve ledger.sqlite")
def resolve(
    where: Where,
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
    run = asked(where, dataset=dataset, key=key)
    waiting = inspection.unresolved(engine_of(run), run.ledger.dataset)
    start = give_back if abandon is None else abandon
    if start is None:
        tell(
            said.waiting_lines(waiting), [exporting.row(one) for one in waiting], as_json=as_json
        )  # fmt: skip
        return
    one = the_one(waiting, start)
    book = book_of(run, one.dataset)
    if abandon is None:
        book.give_back(one.request)
        state, done = "returned", "given back: it costs nothing"
    else:
        book.abandon(one.request)
        state, done = "abandoned", "abandoned: its price stays spent"
    plain = {"dataset": one.dataset, "request": one.request, "state": state}
    tell(formatting.wrapped("Release", f"{one.request[:16]} is {done}."), plain, as_json=as_json)


def the_one(waiting: tuple[Event, ...], start: str) -> Event:
    """Return the waiting release whose request begins so."""
    found = [one for one in waiting if start and one.request.startswith(start)]
    if len(found) != 1:
        raise InputError(
            f"{len(found)} unfinished releases begin with {start!r}, but exactly one must; "
            "resolve without an option lists them."
        )
    return found[0]


@app.command("keygen", epilog="Example:  hexveil ledger keygen signing.pem")
def keygen(
    file: Annotated[Path, typer.Argument(help="New file for the private key.", metavar="FILE")],
    *,
    as_json: AsJson = False,
) -> None:
    """Create a key pair for signing release folders.

    A run signs with the private key if [release] has sign = FILE. Recipients check a folder with
    hexveil verify --key FILE.pub.
    """
    public = signing.generate(file)
    found = signing.reader(public).fingerprint
    lines = [
        *formatting.wrapped("Private key", f"{file}: keep it secret, and store a copy elsewhere."),
        *formatting.wrapped("Public key", f"{public}: give it to the recipients of releases."),
        *formatting.wrapped("Fingerprint", f"{found}: send it to them through another channel."),
    ]
    plain = {"private_key": str(file), "public_key": str(public), "fingerprint": found}
    tell(lines, plain, as_json=as_json)


@app.command("export", epilog="Example:  hexveil ledger export ledger.sqlite events.csv")
def export(
    where: Where,
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
    engine = engine_of(asked(where))
    found = inspection.history(engine)
    exporting.write(file, found, results=inspection.results(engine) if numbers else None)
    plain = {"file": str(file), "events": len(found)}
    tell(formatting.wrapped("Written", f"{file}: {len(found):,} events."), plain, as_json=as_json)
