"""Rows and JSON of accounts, events and changes of a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.cli.output.formatting import at_least, factor, price
from hexveil.ledger.promises import booked_epsilon
from hexveil.publishing.pinned_unit import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from hexveil.cli.output.formatting import Row
    from hexveil.ledger import Ledger
    from hexveil.ledger.accounts import Account, Spend
    from hexveil.ledger.events import Event
    from hexveil.ledger.inspection import AccountStatus, Overview

KEEP = (
    "Ids are hashed under this key. Keep it, separate from backups of the ledger: anyone with both "
    "can tell which ids are in the ledger. If the key is lost, the spending is unknown, and you "
    "need a new ledger."
)
RUN_AGAIN = (
    "run a release again to finish it, at no further cost. You can give back a reserved one "
    "(--give-back REQUEST), because no noise was drawn. A marked one can only be abandoned "
    "(--abandon REQUEST): its price stays spent."
)


def budget_words(account: Account) -> str:
    """Return a budget, its unit and its window as text."""
    refill = "lifetime" if account.window == "lifetime" else f"refilled every {account.window}"
    return f"epsilon {account.limit.text} per {account.unit or 'unit'}, {refill}"


def new_account_row(book: Ledger | None) -> Row:
    """Return that a command opened an account, with its budget; an empty row if it was there."""
    if book is None or not book.opened:
        return ("Account", None)
    budget = budget_words(book.account)
    return ("Account", f"opened {book.account.name!r} with a new budget: {budget}.")


def account_json(account: Account) -> dict[str, Any]:
    """Return the fixed settings of an account as JSON data."""
    return {
        "account": account.name,
        "unit": account.unit or None,
        "window": account.window,
        "budget": decimal_text(account.budget),
        **_delta_json(account.delta),
        "key": account.key,
    }


def spend_json(spend: Spend) -> dict[str, Any]:
    """Return the spending of window and lifetime as JSON data, with exact numbers as text."""
    return {
        "budget": decimal_text(spend.budget),
        **_delta_json(spend.delta),
        "window": spend.kind,
        "in": spend.label or "lifetime",
        "spent": decimal_text(spend.window),
        "left": decimal_text(spend.remaining),
        "lifetime": decimal_text(spend.lifetime),
        "units": spend.units,
        "exhausted": spend.exhausted,
    }


def _delta_json(delta: Fraction) -> dict[str, str]:
    """Return the δ of an account as JSON data; nothing of a pure one."""
    return {"delta": decimal_text(delta)} if delta else {}


def overview_json(summary: Overview, location: str) -> dict[str, Any]:
    """Return the overview of a ledger as JSON data."""
    return {
        "ledger": location,
        "entries": summary.head.entry,
        "chain": summary.head.chain,
        "accounts": [
            account_json(status.account)
            | {"datasets": list(status.datasets)}
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
        rows += ["", *_account_rows(status)]
    return rows if summary.accounts else [*rows, "", ("Account", "none yet")]


def _account_rows(status: AccountStatus) -> list[Row]:
    """Return rows about an account; the window's number always with the lifetime's."""
    spend, this = status.spend, f" in {status.spend.label}" if status.spend.label else ""
    states = ", ".join(f"{many:,} {state}" for state, many in status.releases.items())
    units = f"{spend.units:,} with a privacy loss{this}, {spend.exhausted:,} exhausted"
    if PRIVATE in status.account.unit:
        units = "any unit, present or not: one balance for all, since which units exist is private"
    # The sum over all units of one owner: what user-day accounts do not limit.
    ever = f"{loss(spend.lifetime)}, for an owner present throughout"
    if spend.delta:
        ever += (
            f"; each epsilon is one at delta {decimal_text(spend.delta)}, and they do not add up"
        )
    return [
        ("Account", f"{status.account.name}, for data set {', '.join(status.datasets)}"),
        ("Budget", budget_words(status.account)),
        ("Spent", f"{loss(spend.window)}{this}, by the most exposed unit"),
        ("Left", f"{at_least(float(spend.remaining))}, for every unit"),
        ("Lifetime total", ever),
        ("Units", units),
        ("Releases", states or "none"),
        ("Key", f"fingerprint {status.account.key}"),
    ]


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
    """Return an event on a line: whose it is, the beginning of its request, and its details."""
    details = [event.request[:16]] if event.request else []
    if event.kind == "reserved":
        delta = event.body.get("delta")
        words = price(float(booked_epsilon(event.body)))
        details.append(f"epsilon {words}" + (f" at delta {delta}" if delta else ""))
    if "budget" in event.body:
        details.append(f"epsilon {event.body['budget']}")
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
