"""`hexveil ledger`: manage the privacy ledger."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.base.work_share import LEDGER_CHECK
from hexveil.cli import declarations, receipts
from hexveil.cli.formatting import Row, at_least, budget_words, factor, price, spend_json
from hexveil.cli.formatting import show as print_result
from hexveil.cli.options import Declaration
from hexveil.config import Run, arguments, load
from hexveil.ledger import Ledger, inspection
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.databases import MEMORY, Engine, connect_existing, describe_address
from hexveil.ledger.events import Event
from hexveil.ledger.inspection import UNFINISHED, AccountStatus, Overview
from hexveil.ledger.promises import booked_epsilon
from hexveil.ledger.verification import verify as verified
from hexveil.publishing import signing
from hexveil.publishing.booking import PRIVATE
from hexveil.records.progress import show_progress

KEEP = (
    "Ids are hashed under this key. Keep it, separate from backups of the ledger: anyone with both "
    "can tell which ids are in the ledger. If the key is lost, the spending is unknown, and you "
    "need a new ledger."
)
RUN_AGAIN = (
    "run a release again to finish it, at no further cost. You can give back a reserved one "
    "(--give-back REQUEST), because no noise was drawn. A marked one can only be abandoned "
    "(--abandon REQUEST): its cost stays spent."
)


def run_for(options: declarations.LedgerDeclaration, *names: str) -> Run:
    """Return the run of a file or of a ledger's address, with fields of [ledger] overridden."""
    stated = {("ledger", name): getattr(options, name) for name in names}
    overrides: dict[tuple[str, str], object] = {k: v for k, v in stated.items() if v is not None}
    location = options.location
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
    with contextlib.chdir(run.folder):
        return connect_existing(run.ledger.url)


def open_ledger(run: Run, dataset: str | None) -> Ledger:
    """Open the ledger of a registered data set for writing."""
    if dataset is None:
        raise InputError("dataset (in [ledger], or --dataset) is needed: name the data set.")
    # Refuses an unknown data set: Ledger() would register a mistyped name.
    inspection.overview(engine_of(run), dataset)
    with contextlib.chdir(run.folder):
        return Ledger(run.ledger.url, dataset=dataset, key=run.ledger.key)


def echo(rows: Iterable[Row], content: object, options: Declaration) -> None:
    """Print rows, or the same as JSON."""
    print_result(lambda: rows, lambda: content, as_json=options.as_json)


def relative_path(path: object) -> str:
    """Return a path relative to the current folder if it lies below it."""
    current, text = Path.cwd(), str(path)
    return str(Path(text).relative_to(current)) if Path(text).is_relative_to(current) else text


def init(options: declarations.LedgerInitOptions) -> None:
    """Open the account of a data set; creates the ledger and its key if necessary."""
    run = run_for(options, "dataset", "budget", "window", "key", "account")
    with contextlib.chdir(run.folder):
        stated: dict[str, Any] = arguments.ledger_arguments(run, Ledger)
        book = Ledger(**stated | ({} if options.delta is None else {"delta": options.delta}))
    account, address, key = book.account, relative_path(book.address), relative_path(book.key_file)
    budget = budget_words(account)
    rows = [
        ("Ledger", address),
        ("Account", f"{account.name}, for data set {book.dataset}: {budget}."),
        ("Key", f"{key} (fingerprint {account.key}). {KEEP}"),
    ]
    places = {"dataset": book.dataset, "ledger": address, "key_file": key}
    echo(rows, account_json(account) | places, options)


def show(options: declarations.LedgerShowOptions) -> None:
    """Show the spent and the remaining budget, of all accounts or of one data set."""
    run = run_for(options, "dataset")
    engine = engine_of(run)
    summary = inspection.overview(engine, run.ledger.dataset)
    name = relative_path(describe_address(engine))
    echo(overview_rows(summary, name), overview_json(summary, name), options)


def history(options: declarations.LedgerHistoryOptions) -> None:
    """List the events, oldest first; public metadata only."""
    run = run_for(options, "dataset")
    events = inspection.history(engine_of(run), run.ledger.dataset, limit=options.limit)
    rows = [event_line(event) for event in events] or ["No events yet."]
    echo(rows, [inspection.event_row(event) for event in events], options)


def set_budget(options: declarations.LedgerSetBudgetOptions) -> None:
    """Change a budget; the old one and the new one stay on record."""
    run = run_for(options, "dataset", "key")
    book = open_ledger(run, run.ledger.dataset)
    old_account = book.account
    book.set_budget(options.budget)
    new_account = book.account
    old_budget = {"before": account_json(old_account)["budget"]}
    row = changed_row(old_account, new_account, book.spend())
    echo([row], account_json(new_account) | old_budget, options)


def verify(options: declarations.LedgerVerifyOptions) -> int:
    """Check that the ledger is consistent: its hash chain, its events, every sum."""
    engine = engine_of(run_for(options))
    with show_progress(LEDGER_CHECK):
        verdict = verified(engine)
    # The chain alone cannot reveal an older copy; a later receipt can.
    problems = [*verdict.problems, *receipts.find_problems(engine, options.receipt or ())]
    text = f"{verdict.entries:,} events are consistent; the last has hash {verdict.head}."
    rows: list[Row] = [("Checked", text)]
    if problems:
        rows = ["The ledger is inconsistent:", *(f"  {problem}" for problem in problems)]
    content = {"entries": verdict.entries, "chain": verdict.head, "problems": problems}
    echo(rows, content, options)
    return 2 if problems else 0


def resolve(options: declarations.LedgerResolveOptions) -> None:
    """List unfinished releases; give back or abandon one."""
    if options.give_back is not None and options.abandon is not None:
        raise InputError("--give-back and --abandon cannot be combined: name one request.")
    run = run_for(options, "dataset", "key")
    waiting = inspection.unresolved(engine_of(run), run.ledger.dataset)
    start = options.give_back if options.abandon is None else options.abandon
    if start is None:
        event_rows = [inspection.event_row(event) for event in waiting]
        echo(waiting_rows(waiting), event_rows, options)
        return
    matches = [event for event in waiting if start and event.request.startswith(start)]
    if len(matches) != 1:
        raise InputError(
            f"{len(matches)} unfinished releases begin with {start!r}, but exactly one must; "
            "resolve without an option lists them."
        )
    (event,) = matches
    book = open_ledger(run, event.dataset)
    if options.abandon is None:
        book.cancel(event.request)
        state, outcome = "returned", "given back: it costs nothing"
    else:
        book.abandon(event.request)
        state, outcome = "abandoned", "abandoned: its cost stays spent"
    content = {"dataset": event.dataset, "request": event.request, "state": state}
    echo([("Release", f"{event.request[:16]} is {outcome}.")], content, options)


def keygen(options: declarations.LedgerKeygenOptions) -> None:
    """Create a key pair for signing release folders."""
    public = signing.generate_key_pair(options.file)
    fingerprint = signing.read_verification_key(public).fingerprint
    rows = [
        ("Private key", f"{options.file}: keep it secret, and store a copy elsewhere."),
        ("Public key", f"{public}: give it to the recipients of releases."),
        ("Fingerprint", f"{fingerprint}: send it to them through another channel."),
    ]
    content = {"private_key": str(options.file), "public_key": str(public)}
    echo(rows, content | {"fingerprint": fingerprint}, options)


# ---- rows and data of accounts, events and changes ----


def account_json(account: Account) -> dict[str, Any]:
    """Return the fixed settings of an account as JSON data."""
    return {
        "account": account.name,
        "unit": account.unit or None,
        "window": account.window,
        "budget": decimal_text(account.budget),
        "delta": decimal_text(account.delta),
        "key": account.key,
    }


def overview_json(summary: Overview, location: str) -> dict[str, Any]:
    """Return the overview of a ledger as JSON data."""
    return {
        "ledger": location,
        "entries": summary.head.entry,
        "chain": summary.head.chain,
        "accounts": [
            account_json(status.account)
            | {"datasets": list(status.account.datasets)}
            | spend_json(status.spend)
            | {"releases": status.releases}
            for status in summary.accounts
        ],
    }


def overview_rows(summary: Overview, location: str) -> list[Row]:
    """Return the overview of a ledger."""
    head, chain = summary.head.entry, summary.head.chain
    rows: list[Row] = [("Ledger", f"{location}: {head:,} events; the last has hash {chain}")]
    for status in summary.accounts:
        rows += ["", *account_rows(status)]
    return rows if summary.accounts else [*rows, "", ("Account", "none yet")]


def account_rows(status: AccountStatus) -> list[Row]:
    """Return rows about an account; the window's number always with the lifetime's."""
    account, spend = status.account, status.spend
    this = f" in {spend.label}" if spend.label else ""
    units = f"{spend.units:,} with a privacy loss{this}, {spend.exhausted:,} exhausted"
    if PRIVATE in account.unit:
        units = "any unit, present or not: one balance for all, since which units exist is private"
    # The sum over all units of one owner: what user-day accounts do not limit.
    ever = f"{loss(spend.lifetime)}, for an owner present throughout"
    if spend.delta:
        ever += (
            f"; each epsilon is one at delta {decimal_text(spend.delta)}, and they do not add up"
        )
    return [
        ("Account", f"{account.name}, for data set {', '.join(account.datasets)}"),
        ("Budget", budget_words(account)),
        ("Spent", f"{loss(spend.window)}{this}, by the most exposed unit"),
        ("Left", f"{at_least(float(spend.remaining))} or more, for each unit"),
        ("Lifetime total", ever),
        ("Units", units),
        ("Releases", releases_text(status.releases)),
        ("Key", f"fingerprint {account.key}"),
    ]


def releases_text(states: Mapping[str, int]) -> str:
    """Return how many releases are complete, unfinished and abandoned.

    Examples
    --------
    >>> releases_text({"marked": 1, "stored": 1, "committed": 2})
    '3 complete, 1 unfinished (hexveil ledger resolve lists them)'
    """
    kinds = {"complete": ("stored", "committed"), "unfinished": UNFINISHED}
    kinds["abandoned"] = ("abandoned",)
    counts = {kind: sum(states.get(state, 0) for state in names) for kind, names in kinds.items()}
    texts = [f"{count:,} {kind}" for kind, count in counts.items() if count]
    hint = " (hexveil ledger resolve lists them)"
    return ", ".join(t + hint * t.endswith("unfinished") for t in texts) or "none"


def loss(epsilon: Fraction | int) -> str:
    """Return a loss, and the factor by which probabilities of outcomes differ at most.

    Examples
    --------
    >>> loss(1), loss(0)
    ('1 (probability factor 2.72)', '0 (probability factor 1)')
    >>> loss(30)
    '30 (probability factor more than a million)'
    """
    return f"{price(float(epsilon))} (probability factor {factor(float(epsilon))})"


def event_line(event: Event) -> str:
    """Return an event on a line: owner, beginning of its request, details."""
    details = [event.request[:16]] if event.request else []
    suffix = f" at delta {event.body['delta']}" if event.body.get("delta", "0") != "0" else ""
    if event.kind == "reserved":
        details.append(f"epsilon {price(float(booked_epsilon(event.body)))}{suffix}")
    if "budget" in event.body:
        details.append(f"epsilon {event.body['budget']}{suffix}")
    if event.kind == "unit":
        details.append(str(event.body["unit"]))
    whose, about = event.dataset or event.account, "  ".join(details)
    return f"{event.entry:>6}  {event.at}  {event.kind:<9}  {whose}  {about}".rstrip()


def changed_row(old_account: Account, new_account: Account, spend: Spend) -> Row:
    """Return a changed budget and its consequences."""
    old, new = old_account.budget, new_account.budget
    text = f"changed from {decimal_text(old)} to {decimal_text(new)}, on record."
    if new > old:
        text += (
            " Until now the probability of any outcome differed by a factor of at most "
            f"{factor(float(old))}, from now on by a factor of at most {factor(float(new))}. "
            "Inform everyone who was promised less."
        )
    elif spend.exhausted:
        text += f" {spend.exhausted:,} units have reached it: no release can include them now."
    return ("Budget", text)


def waiting_rows(waiting: Sequence[Event]) -> list[Row]:
    """Return the unfinished releases and the possible next steps."""
    if not waiting:
        return ["No unfinished release."]
    return [*map(event_line, waiting), "", ("Next step", RUN_AGAIN)]
