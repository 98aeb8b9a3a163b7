"""What `hexveil ledger` says: accounts, events and changes, in words and for machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.rational import decimal_text
from hexveil.cli.output import formatting
from hexveil.ledger.unit_losses import PARTS

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.ledger.accounts import Account, Spend
    from hexveil.ledger.events import Event
    from hexveil.ledger.inspection import Overview, Standing

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


def near(path: str) -> str:
    """Return a path below the current folder as it is reached from here, another as it is."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def opened_lines(account: Account, dataset: str, where: str, key: str) -> list[str]:
    """Return what was opened, and where the key is."""
    text = f"{account.name}, for data set {dataset}: {budget_words(account)}."
    return [
        *formatting.wrapped("Ledger", where),
        *formatting.wrapped("Account", text),
        *formatting.wrapped("Key", f"{key} (fingerprint {account.key}). {KEEP}"),
    ]


def opened_json(account: Account, dataset: str, where: str, key: str) -> dict[str, Any]:
    """Return the same for machines."""
    pinned = account_json(account) | {"dataset": dataset}
    return pinned | {"ledger": where, "key_file": key}


def budget_words(account: Account) -> str:
    """Return a budget, of what and for how long."""
    refill = "lifetime" if account.window == "lifetime" else f"refilled every {account.window}"
    return f"epsilon {decimal_text(account.budget)} per {account.unit or 'unit'}, {refill}"


def account_json(account: Account) -> dict[str, Any]:
    """Return what a book pins, for machines."""
    return {
        "account": account.name,
        "unit": account.unit or None,
        "window": account.window,
        "budget": decimal_text(account.budget),
        "key": account.key,
    }


def spend_json(spend: Spend) -> dict[str, Any]:
    """Return what was spent, in this window and ever, for machines: exact numbers as text."""
    return {
        "budget": decimal_text(spend.budget),
        "window": spend.kind,
        "in": spend.label or "lifetime",
        "spent": decimal_text(spend.window),
        "left": decimal_text(spend.left),
        "lifetime": decimal_text(spend.lifetime),
        "units": spend.units,
        "exhausted": spend.exhausted,
    }


def overview_json(found: Overview, where: str) -> dict[str, Any]:
    """Return a book at a glance, for machines."""
    return {
        "ledger": where,
        "entries": found.head.entry,
        "chain": found.head.chain,
        "accounts": [
            account_json(one.account)
            | {"datasets": list(one.datasets)}
            | spend_json(one.spend)
            | {"releases": one.releases}
            for one in found.accounts
        ],
    }


def overview_lines(found: Overview, where: str) -> list[str]:
    """Return a book at a glance."""
    head = f"{where}: {found.head.entry:,} events; the last has hash {found.head.chain}"
    lines = formatting.wrapped("Ledger", head)
    for one in found.accounts:
        lines += ["", *standing_lines(one)]
    return lines if found.accounts else [*lines, "", *formatting.wrapped("Account", "none yet")]


def standing_lines(one: Standing) -> list[str]:
    """Return an account in words; the window's number never without the lifetime's."""
    spend, this = one.spend, f" in {one.spend.label}" if one.spend.label else ""
    states = ", ".join(f"{many:,} {state}" for state, many in one.releases.items())
    units = f"{spend.units:,} with a privacy loss{this}, {spend.exhausted:,} exhausted"
    ever = f"{loss(spend.lifetime)}, for an owner present throughout"
    return [
        *formatting.wrapped(
            "Account", f"{one.account.name}, for data set {', '.join(one.datasets)}"
        ),
        *formatting.wrapped("Budget", budget_words(one.account)),
        *formatting.wrapped("Spent", f"{loss(spend.window)}{this}, by the most exposed unit"),
        *formatting.wrapped("Left", f"{formatting.at_least(float(spend.left))}, for every unit"),
        *formatting.wrapped("Lifetime total", ever),
        *formatting.wrapped("Units", units),
        *formatting.wrapped("Releases", states or "none"),
        *formatting.wrapped("Key", f"fingerprint {one.account.key}"),
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


def event_line(one: Event) -> str:
    """Return an event on a line."""
    whose = one.dataset or one.account
    return f"{one.entry:>6}  {one.at}  {one.kind:<9}  {whose}  {_about(one)}".rstrip()


def _about(one: Event) -> str:
    """Return the beginning of the request, and what the event says beside its kind."""
    said = [one.request[:16]] if one.request else []
    if "parts" in one.body:
        said.append(f"epsilon {formatting.price(one.body['parts'] / PARTS)}")
    if "budget" in one.body:
        said.append(f"epsilon {one.body['budget']}")
    if one.kind == "unit":
        said.append(str(one.body["unit"]))
    return "  ".join(said)


def changed_lines(before: Account, after: Account, spend: Spend) -> list[str]:
    """Return what a change of budget means."""
    text = f"changed from {decimal_text(before.budget)} to {decimal_text(after.budget)}, on record."
    if after.budget > before.budget:
        text += (
            " Until now the probability of any outcome differed by a factor of at most "
            f"{formatting.factor(float(before.budget))}, from now on by a factor of at most "
            f"{formatting.factor(float(after.budget))}. Inform everyone who was promised less."
        )
    elif spend.exhausted:
        text += f" {spend.exhausted:,} units have reached it: no release can include them now."
    return formatting.wrapped("Budget", text)


def waiting_lines(waiting: tuple[Event, ...]) -> list[str]:
    """Return the releases that stopped on the way, and what can be done."""
    if not waiting:
        return ["No unfinished release."]
    return [*(event_line(one) for one in waiting), "", *formatting.wrapped("Next step", RUN_AGAIN)]
