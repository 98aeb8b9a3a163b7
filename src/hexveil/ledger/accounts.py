"""Accounts: one budget over one population of units, shared by one or more data sets.

What pins an account is stated once, when it is opened, and is checked at each later opening.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

import sqlalchemy as sa

from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.ledger import events
from hexveil.ledger.events import LIFETIME, Window, append, read_head, window_of
from hexveil.ledger.odometer import Odometer, owner_lifetime_bound
from hexveil.ledger.promises import (
    PURE,
    BudgetText,
    affordable_epsilon,
    check_same_promise,
    shown_epsilon,
)
from hexveil.ledger.tables import accounts, datasets, totals
from hexveil.ledger.unit_losses import NORMALISATION, Key

_CODES, _ID_SPACE = "; missing values ", "; ids of "
"""What precedes them in the text of a pinned unit; units of earlier versions lack both."""


def split_pinned(text: str) -> tuple[str, str, str]:
    """Return unit, id space and codes of missing readings from the text of a pinned unit.

    Examples
    --------
    >>> split_pinned("user-day (UTC); missing values -1,9999; ids of bus")
    ('user-day (UTC)', 'bus', '-1,9999')
    >>> split_pinned("user")
    ('user', '', '')
    """
    unit_and_codes, _, id_space = text.partition(_ID_SPACE)
    unit, _, codes = unit_and_codes.partition(_CODES)
    return unit, id_space, codes


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

    @property
    def limit(self) -> BudgetText:
        """The budget with its δ, as it is stored."""
        return BudgetText(self.budget, self.delta)

    @property
    def pico_epsilons(self) -> int:
        """The budget in 10^-12 of ε, or of squares of μ: rounded down, at most the largest loss."""
        return self.limit.parts

    @property
    def pinned(self) -> dict[str, str]:
        """The properties as the event and the table hold them."""
        codes = f"{_CODES}{self.missing_values}" if self.missing_values else ""
        id_space = f"{_ID_SPACE}{self.id_space}" if self.id_space else ""
        return {
            "unit": f"{self.unit}{codes}{id_space}",
            "window": self.window,
            "budget": self.limit.text,
            "key": self.key,
            "ids": self.ids,
        }


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
    delta : Fraction
        0 for an account of pure promises; else every ε here is one at this δ.
    unspent : Fraction
        Under a δ, the ε of one release that every unit can still take part in; else 0.
    """

    budget: Fraction
    kind: str
    label: str
    window: Fraction
    lifetime: Fraction
    units: int
    exhausted: int
    delta: Fraction = PURE
    unspent: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        """Budget that every unit still has in the window, in epsilon; never below zero."""
        if self.delta:
            return self.unspent
        # Negative after a budget was lowered below the spend.
        return max(self.budget - self.window, Fraction(0))


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
        pinned = _select(connection, sa.select(accounts).where(accounts.c.account == name))
        is_new = pinned is None
        _check_names(
            connection, (terms.dataset, name), is_similar=is_new and not accept_similar_name
        )
        if pinned is None:
            pinned = _new_account(connection, name, terms, key)
        check_key(pinned, key)
        append(connection, "joined", account=name, dataset=terms.dataset)
        connection.execute(sa.insert(datasets).values(dataset=terms.dataset, account=name))
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
    # The event first: tables are derived from events, and one transaction holds both.
    append(connection, "opened", account=name, body=account.pinned)
    connection.execute(sa.insert(accounts).values(account=name, **account.pinned))
    return account


def _check_names(connection: sa.Connection, names: Sequence[str], *, is_similar: bool) -> None:
    """Refuse names that only look like those which the ledger knows, with budgets of their own."""
    for new in names:
        if new != new.strip():
            raise InputError(
                f"the name {new!r} begins or ends with a space; name {new.strip()!r} (dataset in "
                "[ledger], or --dataset)."
            )
    name, known = names[-1], list_accounts(connection)
    reserved_names = [*known, *(dataset for _, joined in known.values() for dataset in joined)]
    for other in reserved_names if is_similar else ():
        if _folded(other) == _folded(name):
            raise InputError(
                f"the ledger knows {other!r}, and {name!r} would have a budget of its own beside "
                f"it; name {other!r} (dataset in [ledger], or --dataset), or, if these are records "
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


def find(connection: sa.Connection, dataset: str) -> Account | None:
    """Return the account that a data set spends from, or None if the ledger does not know it."""
    joined = datasets.join(accounts, datasets.c.account == accounts.c.account)
    query = sa.select(accounts).select_from(joined).where(datasets.c.dataset == dataset)
    return _select(connection, query)


def set_budget(connection: sa.Connection, account: Account, budget: Fraction) -> None:
    """Change an account's budget, and recount the exhausted units."""
    changed = replace(account, budget=budget)
    change(connection, changed, "budget")
    spans = sa.select(totals.c.window).distinct().where(totals.c.account == account.name)
    for window in connection.execute(spans).scalars().all():
        # Only windows of the account's kind have a limit; in others no unit is ever exhausted.
        is_limited = (window == LIFETIME) == (account.window == "lifetime")
        limit = changed.pico_epsilons if is_limited else None
        Odometer(connection, account.name, window, limit).recompute_summary()


def change(connection: sa.Connection, account: Account, field: events.Kind) -> None:
    """Record a changed property, in an event and in the table."""
    body = {str(field): account.pinned[field]}
    append(connection, field, account=account.name, body=body)
    connection.execute(sa.update(accounts).where(accounts.c.account == account.name).values(body))


def read_spend(connection: sa.Connection, account: Account) -> Spend:
    """Return the losses of an account's units, in the current window and over the lifetime."""
    # The ledger's clock, not the machine's: a clock set back must not show an older window's spend.
    window = window_of(account.window, events.next_time(read_head(connection).at))
    total = Odometer(connection, account.name, window).summary()
    lifetime = owner_lifetime_bound(connection, account.name)
    rest = account.pico_epsilons - total.largest
    return Spend(
        account.budget,
        account.window,
        window,
        shown_epsilon(total.largest, account.delta),
        shown_epsilon(lifetime, account.delta),
        total.units,
        total.exhausted,
        account.delta,
        affordable_epsilon(rest, account.delta) if account.delta else Fraction(0),
    )


def list_accounts(connection: sa.Connection) -> dict[str, tuple[Account, tuple[str, ...]]]:
    """Return all accounts by name, each with its data sets, both in the order of their names."""
    # Sorted here: databases order text by their own collations. str, as a damaged name may be a
    # number.
    every = sorted(connection.execute(sa.select(accounts)), key=lambda row: str(row.account))
    joined: dict[str, list[str]] = {row.account: [] for row in every}
    for row in sorted(connection.execute(sa.select(datasets)), key=lambda row: str(row.dataset)):
        joined[row.account].append(row.dataset)
    return {row.account: (_parse_account(row), tuple(joined[row.account])) for row in every}


def _select(connection: sa.Connection, query: sa.Select[Any]) -> Account | None:
    row = connection.execute(query).first()
    return None if row is None else _parse_account(row)


def _parse_account(row: Any) -> Account:  # noqa: ANN401  rows have the types of their columns
    """Return the account of a row; StorageError if no ledger wrote it."""
    try:
        budget = BudgetText.parse(row.budget)
    except (TypeError, ValueError, ZeroDivisionError, AttributeError):
        raise StorageError(
            "the ledger's account is damaged: its budget is not a number; nothing was published. "
            "Restore the ledger from a copy."
        ) from None
    unit, id_space, codes = split_pinned(row.unit)
    terms = (row.window, budget.epsilon, row.key, row.ids, budget.delta)
    return Account(row.account, unit, *terms, id_space, codes)
