"""Accounts: one budget over one population of units, shared by one or more data sets.

What pins an account is stated once, when it is opened, and is checked at each later opening.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

import sqlalchemy as sa

from hexveil.accounting.promise import promised
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.ledger import events
from hexveil.ledger.events import Window, append, read_head, window_of
from hexveil.ledger.odometer import Odometer, owner_lifetime_bound
from hexveil.ledger.promises import PURE, affordable_epsilon, check_same_promise, shown_epsilon
from hexveil.ledger.tables import damaged
from hexveil.ledger.unit_losses import MAX_PICO_EPSILON, NORMALISATION, PICO_EPSILON, Key


@dataclass(frozen=True)
class Account:
    """Pinned properties of a population of units.

    Attributes
    ----------
    name : str
    unit : str
        "user", "user-day" or "user-week"; empty until the first release says.
    window : str
        "lifetime", "month" or "day".
    budget : Fraction
        Largest loss of a unit in a window, in epsilon.
    key : str
        Fingerprint of the key under which ids are hashed.
    ids : str
        Scheme that turns an id into a hash.
    delta : Fraction
        0 for an account of pure promises.
    id_space, missing_values : str
        Name of what an id names, and codes of missing readings ("none" without any); empty until a
        release says.
    datasets : tuple of str
        The data sets that spend from it.
    """

    name: str
    unit: str
    window: str
    budget: Fraction
    key: str
    ids: str = NORMALISATION
    delta: Fraction = PURE
    id_space: str = ""
    missing_values: str = ""
    datasets: tuple[str, ...] = ()

    @property
    def budget_text(self) -> str:
        """The budget with its δ."""
        suffix = f" at delta {decimal_text(self.delta)}" if self.delta else ""
        return f"{decimal_text(self.budget)}{suffix}"

    @property
    def pico_epsilons(self) -> int:
        """The budget in 10^-12 of ε, or of squares of μ: rounded down, at most the largest loss."""
        # Down, whereas losses round up: a spend is never allowed that exceeds the exact budget.
        amount = promised(self.budget, self.delta).amount
        return min(int(amount * PICO_EPSILON), MAX_PICO_EPSILON)

    def refuse_other_unit(self, unit: str, id_space: str, missing_values: str) -> None:
        """Refuse a release of another unit, id space or list of codes than the pinned ones.

        Raises
        ------
        InputError
            With what to do.
        """
        releases = f"the ledger's releases of {self.name!r}"
        if self.unit and self.unit != unit:
            raise InputError(
                f"{releases} protect a {self.unit}, this one a {unit}; losses of different units "
                "do not add up: use another account."
            )
        if self.id_space and id_space and self.id_space != id_space:
            raise InputError(
                f"{releases} count ids of {self.id_space!r}, this one ids of {id_space!r}, under "
                "which whoever spent the budget would look unspent; read the ids of "
                f"{self.id_space!r}, or, if both are ids of the same, say so by id_space = "
                f"{self.id_space!r} (in [read], or --set read.id_space); else use another account."
            )
        if self.missing_values and missing_values and self.missing_values != missing_values:
            raise InputError(
                f"{releases} drop the missing-value codes {self.missing_values}, this one "
                f"{missing_values}: counts of dropped records tell exactly how many have such a "
                "value, so that an account takes one list. Select these drop_values (in [select], "
                "or --set select.drop_values), or use another account."
            )

    def body(self, kind: events.Kind) -> dict[str, str]:
        """Return the terms that an event of a kind holds."""
        terms = {name: getattr(self, name) for name in TERMS[kind]}
        return {name: decimal_text(t) if name in _NUMBERS else t for name, t in terms.items()}


PINNED = ("unit", "id_space", "missing_values")
"""Terms that the first release states which has them."""
TERMS = {
    "opened": (*PINNED, "window", "budget", "delta", "key", "ids"),
    "budget": ("budget",),
    "unit": PINNED,
}
"""Terms that an event holds, by its kind."""
_NUMBERS = ("budget", "delta")


def parse_terms(kind: events.Kind, body: Mapping[str, str]) -> dict[str, Any]:
    """Return the terms that an event of a kind holds, as `Account` has them."""
    return {n: Fraction(body[n]) if n in _NUMBERS else body[n] for n in TERMS[kind]}


@dataclass(frozen=True)
class Spend:
    """Losses of an account's units so far.

    Attributes
    ----------
    budget : Fraction
        Largest loss of a unit in a window, in epsilon.
    kind : str
        "lifetime", "month" or "day".
    label : str
        Name of the window, as "2026-11"; empty for a lifetime.
    window : Fraction
        Largest loss of a unit in it.
    lifetime : Fraction
        Upper bound of the loss of an owner of a unit in every period, since the account was opened.
    units : int
        Number of units with a loss in the window.
    exhausted : int
        Number of units at the budget.
    remaining : Fraction
        Epsilon of one release that every unit can still take part in within the window.
    delta : Fraction
        0 for an account of pure promises; else every ε here is one at this δ.
    """

    budget: Fraction
    kind: str
    label: str
    window: Fraction
    lifetime: Fraction
    units: int
    exhausted: int
    remaining: Fraction
    delta: Fraction = PURE


# ---- opening ----


@dataclass(frozen=True)
class Terms:
    """Terms that are stated as a ledger is opened (see `Ledger`); None where the pinned one holds.

    Raises
    ------
    InputError
        On a name that is empty, a budget that is not positive, an unknown window, or a δ that is
        no probability.
    """

    dataset: str
    budget: Fraction | None
    window: str | None
    name: str | None
    delta: Fraction | None

    def __post_init__(self) -> None:
        name = self.dataset if self.name is None else self.name
        for field, text in (("dataset", self.dataset), ("account", name)):
            if not (isinstance(text, str) and text.strip()):
                raise InputError(f"{field} must be a name, under which releases add up.")
        if self.window not in (None, *get_args(Window)):
            choices = ", ".join(get_args(Window))
            raise InputError(f"window must be one of {choices}, got {self.window!r}.")


def open_account(
    connection: sa.Connection, terms: Terms, key: Key, *, accept_similar_name: bool
) -> tuple[Account, bool]:
    """Return the account of a data set, opened if the ledger does not know it; and whether it was.

    Raises
    ------
    InputError
        If the terms differ from the pinned ones, or a new account has no budget.
    """
    pinned, is_new = find(connection, terms.dataset), False
    if pinned is None:
        name = terms.name or terms.dataset
        # Another data set may have opened the account before: then its budget is the shared one.
        pinned = read_accounts(connection).get(name)
        is_new = pinned is None
        _check_names(
            connection, (terms.dataset, name), is_similar=is_new and not accept_similar_name
        )
        if pinned is None:
            pinned = _new_account(connection, name, terms, key)
        append(connection, "joined", account=name, dataset=terms.dataset)
    _check_same(pinned, terms, key)
    return pinned, is_new


def _new_account(connection: sa.Connection, name: str, terms: Terms, key: Key) -> Account:
    """Open an account and return it."""
    if terms.budget is None:
        raise InputError(
            f"the ledger does not know {terms.dataset!r} yet: name its budget, the largest "
            "total loss of one unit over all its releases, in epsilon."
        )
    window, delta = terms.window or "lifetime", terms.delta or PURE
    account = Account(name, "", window, terms.budget, key.fingerprint, delta=delta)
    append(connection, "opened", account=name, body=account.body("opened"))
    return account


def _check_names(connection: sa.Connection, names: Sequence[str], *, is_similar: bool) -> None:
    """Refuse names that only look like those which the ledger knows, with budgets of their own."""
    for new in names:
        if new != new.strip():
            raise InputError(
                f"the name {new!r} begins or ends with a space; name {new.strip()!r} (dataset in "
                "[ledger], or --dataset)."
            )
    name, by_name = names[-1], read_accounts(connection)
    reserved_names = [
        *by_name,
        *(dataset for account in by_name.values() for dataset in account.datasets),
    ]
    for taken in reserved_names if is_similar else ():
        if _folded(taken) == _folded(name):
            raise InputError(
                f"the ledger knows {taken!r}, and {name!r} would have a budget of its own beside "
                f"it; name {taken!r} (dataset in [ledger], or --dataset), or, if these are records "
                "of others, say so by accept_similar_name = true (in [ledger], or --set "
                "ledger.accept_similar_name=true)."
            )


def _folded(name: str) -> str:
    """Return a name without regard to capitals, forms of letters and spaces at its ends."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).strip()


def check_key(account: Account, key: Key) -> None:
    """Refuse a key or a hashing scheme that differs from the pinned one."""
    if account.key != key.fingerprint:
        raise InputError(
            f"the ledger's account {account.name!r} was opened with another key (fingerprint "
            f"{account.key}, this one {key.fingerprint}): under this one all units would look "
            "new. Name the file of the right key."
        )
    if account.ids != NORMALISATION:
        raise InputError(
            f"the ledger's account {account.name!r} spells or hashes ids in another way "
            f"({account.ids}; here: {NORMALISATION}), in which units would look new. Use the "
            "version of hexveil that opened it."
        )


def _check_same(pinned: Account, terms: Terms, key: Key) -> None:
    """Refuse terms that differ from the pinned ones."""
    check_key(pinned, key)
    if terms.name not in (None, pinned.name):
        raise InputError(
            f"{terms.dataset!r} spends from the account {pinned.name!r} of this ledger, and not "
            f"from {terms.name!r}; it cannot change."
        )
    if terms.delta is not None:
        check_same_promise(pinned.name, pinned.delta, terms.delta)
    if terms.budget is not None and terms.budget != pinned.budget:
        raise InputError(
            f"the ledger's budget of {pinned.name!r} is {decimal_text(pinned.budget)}, and not "
            f"{decimal_text(terms.budget)}; hexveil ledger set-budget changes it, and is on record."
        )
    if terms.window not in (None, pinned.window):
        raise InputError(
            f"the ledger's budget of {pinned.name!r} is for a {pinned.window}, and not for a "
            f"{terms.window}; that cannot change: begin a new account."
        )


# ---- the account of a data set ----


def read_accounts(connection: sa.Connection) -> dict[str, Account]:
    """Return all accounts by name, in the order of their names, as their events say.

    Raises
    ------
    StorageError
        If an event is not what was written.
    """
    by_name: dict[str, Account] = {}
    for event in events.account_events(connection):
        name = event.account
        try:
            if event.kind == "opened":
                by_name[name] = Account(name, **parse_terms(event.kind, event.body))
            elif event.kind == "joined":
                names = (*by_name[name].datasets, event.dataset)
                by_name[name] = replace(by_name[name], datasets=tuple(sorted(names)))
            else:
                by_name[name] = replace(by_name[name], **parse_terms(event.kind, event.body))
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            raise damaged(f"entry {event.entry} is not what was written") from None
    return dict(sorted(by_name.items()))


def find(connection: sa.Connection, dataset: str) -> Account | None:
    """Return the account that a data set spends from, or None if the ledger does not know it."""
    return next((a for a in read_accounts(connection).values() if dataset in a.datasets), None)


def change(connection: sa.Connection, account: Account, kind: events.Kind) -> Account:
    """Record changed terms of an account, and return it."""
    append(connection, kind, account=account.name, body=account.body(kind))
    return account


def read_spend(connection: sa.Connection, account: Account) -> Spend:
    """Return the losses of an account's units, in the current window and over the lifetime."""
    # The ledger's clock, not the machine's: a clock set back must not show an older window's spend.
    window = window_of(account.window, events.next_time(read_head(connection).at))
    limit, delta = account.pico_epsilons, account.delta
    largest, units, exhausted = Odometer(connection, account.name, window).summary(limit)
    return Spend(
        account.budget,
        account.window,
        window,
        shown_epsilon(largest, delta),
        shown_epsilon(owner_lifetime_bound(connection, account.name), delta),
        units,
        exhausted,
        affordable_epsilon(limit - largest, delta),
        delta,
    )
