"""Text and JSON of `hexveil ledger`: accounts, events and changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.cli.output import formatting
from hexveil.ledger.promises import booked_epsilon
from hexveil.publishing.pinned_unit import PRIVATE

if TYPE_CHECKING:
    from fractions import Fraction

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


def relative_path(path: str) -> str:
    """Return a path relative to the current folder if it lies below it."""
    current = Path.cwd()
    return str(Path(path).relative_to(current)) if Path(path).is_relative_to(current) else path


def opened_lines(account: Account, dataset: str, location: str, key: str) -> list[str]:
    """Return lines about an opened account and its key."""
    text = f"{account.name}, for data set {dataset}: {budget_words(account)}."
    return [
        *formatting.wrapped("Ledger", location),
        *formatting.wrapped("Account", text),
        *formatting.wrapped("Key", f"{key} (fingerprint {account.key}). {KEEP}"),
    ]


def opened_json(account: Account, dataset: str, location: str, key: str) -> dict[str, Any]:
    """Return the same for machines."""
    pinned = account_json(account) | {"dataset": dataset}
    return pinned | {"ledger": location, "key_file": key}


def budget_words(account: Account) -> str:
    """Return a budget, its unit and its window as text."""
    refill = "lifetime" if account.window == "lifetime" else f"refilled every {account.window}"
    return f"epsilon {account.limit.text} per {account.unit or 'unit'}, {refill}"


def new_account_lines(book: Ledger | None) -> list[str]:
    """Return that a command opened an account, with its budget; nothing if it was there."""
    if book is None or not book.opened:
        return []
    text = f"opened {book.account.name!r} with a new budget: {budget_words(book.account)}."
    return formatting.wrapped("Account", text)


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


def overview_lines(summary: Overview, location: str) -> list[str]:
    """Return the overview of a ledger."""
    head = f"{location}: {summary.head.entry:,} events; the last has hash {summary.head.chain}"
    lines = formatting.wrapped("Ledger", head)
    for status in summary.accounts:
        lines += ["", *standing_lines(status)]
    return lines if summary.accounts else [*lines, "", *formatting.wrapped("Account", "none yet")]


def standing_lines(status: AccountStatus) -> list[str]:
    """Return lines about an account; the window's number always with the lifetime's."""
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
        *formatting.wrapped(
            "Account", f"{status.account.name}, for data set {', '.join(status.datasets)}"
        ),
        *formatting.wrapped("Budget", budget_words(status.account)),
        *formatting.wrapped("Spent", f"{loss(spend.window)}{this}, by the most exposed unit"),
        *formatting.wrapped(
            "Left", f"{formatting.at_least(float(spend.remaining))}, for every unit"
        ),
        *formatting.wrapped("Lifetime total", ever),
        *formatting.wrapped("Units", units),
        *formatting.wrapped("Releases", states or "none"),
        *formatting.wrapped("Key", f"fingerprint {status.account.key}"),
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
    number = float(epsilon)
    return f"{formatting.price(number)} (probability factor {formatting.factor(number)})"


def event_line(event: Event) -> str:
    """Return an event on a line."""
    whose = event.dataset or event.account
    return f"{event.entry:>6}  {event.at}  {event.kind:<9}  {whose}  {_about(event)}".rstrip()


def _about(event: Event) -> str:
    """Return the first characters of the request and the details of an event."""
    details = [event.request[:16]] if event.request else []
    if event.kind == "reserved":
        words = formatting.price(float(booked_epsilon(event.body)))
        delta = event.body.get("delta")
        details.append(f"epsilon {words}" + (f" at delta {delta}" if delta else ""))
    if "budget" in event.body:
        details.append(f"epsilon {event.body['budget']}")
    if event.kind == "unit":
        details.append(str(event.body["unit"]))
    return "  ".join(details)


def changed_lines(old_account: Account, new_account: Account, spend: Spend) -> list[str]:
    """Return lines about a changed budget and its consequences."""
    old, new = decimal_text(old_account.budget), decimal_text(new_account.budget)
    text = f"changed from {old} to {new}, on record."
    if new_account.budget > old_account.budget:
        text += (
            " Until now the probability of any outcome differed by a factor of at most "
            f"{formatting.factor(float(old_account.budget))}, from now on by a factor of at most "
            f"{formatting.factor(float(new_account.budget))}. Inform everyone who was promised "
            "less."
        )
    elif spend.exhausted:
        text += f" {spend.exhausted:,} units have reached it: no release can include them now."
    return formatting.wrapped("Budget", text)


def waiting_lines(waiting: tuple[Event, ...]) -> list[str]:
    """Return the unfinished releases and the possible next steps."""
    if not waiting:
        return ["No unfinished release."]
    return [
        *(event_line(event) for event in waiting),
        "",
        *formatting.wrapped("Next step", RUN_AGAIN),
    ]
