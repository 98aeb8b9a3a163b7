"""Accounts: one budget over one population of units, shared by one or more data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from hexveil.base.errors import InputError, StorageError
from hexveil.ledger import events, odometer
from hexveil.ledger.events import LIFETIME, append, read_head, window_of
from hexveil.ledger.promises import PURE, BudgetText, affordable_epsilon, shown_epsilon
from hexveil.ledger.storage.tables import accounts, datasets, totals
from hexveil.ledger.unit_losses import FORMER_NORMALISATION, NORMALISATION, Key, former_hashes

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
    id_space, missing_values : str
        Name of what an id names, and codes of missing readings ("none" without any); empty until a
        release says, as in ledgers of earlier versions.
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
    def pinned_unit(self) -> str:
        """The unit with codes of missing readings and id space, as the ledger stores them."""
        codes = f"{_CODES}{self.missing_values}" if self.missing_values else ""
        return f"{self.unit}{codes}" + (f"{_ID_SPACE}{self.id_space}" if self.id_space else "")

    @property
    def limit(self) -> BudgetText:
        """The budget with its δ, as it is stored."""
        return BudgetText(self.budget, self.delta)

    @property
    def pico_epsilons(self) -> int:
        """The budget in 10^-12 of ε, or of squares of μ: rounded down, at most the largest loss."""
        return self.limit.parts


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


def find(connection: sa.Connection, dataset: str) -> Account | None:
    """Return the account that a data set spends from, or None if the ledger does not know it."""
    same_account = datasets.c.account == accounts.c.account
    row = connection.execute(
        sa.select(accounts)
        .select_from(datasets.join(accounts, same_account))
        .where(datasets.c.dataset == dataset)
    ).first()
    return None if row is None else _parse_account(row)


def find_by_name(connection: sa.Connection, name: str) -> Account | None:
    """Return an account by its name."""
    row = connection.execute(sa.select(accounts).where(accounts.c.account == name)).first()
    return None if row is None else _parse_account(row)


def open_account(connection: sa.Connection, account: Account, dataset: str) -> Account:
    """Add a data set to an account, which is opened if it is new; return the account."""
    if find_by_name(connection, account.name) is None:
        # The event first: tables are derived from events, and one transaction holds both.
        append(connection, "opened", account=account.name, body=_pinned(account))
        connection.execute(sa.insert(accounts).values(account=account.name, **_pinned(account)))
    append(connection, "joined", account=account.name, dataset=dataset)
    connection.execute(sa.insert(datasets).values(dataset=dataset, account=account.name))
    return account


def set_budget(connection: sa.Connection, account: Account, budget: Fraction) -> Account:
    """Change an account's budget, recount the exhausted units, and return the account."""
    changed = replace(account, budget=budget)
    stored = changed.limit.text
    append(connection, "budget", account=account.name, body={"budget": stored})
    connection.execute(
        sa.update(accounts).where(accounts.c.account == account.name).values(budget=stored)
    )
    spans = sa.select(totals.c.window).distinct().where(totals.c.account == account.name)
    for window in connection.execute(spans).scalars().all():
        # Only windows of the account's kind have a limit; in others no unit is ever exhausted.
        counted = (
            changed.pico_epsilons
            if (window == LIFETIME) == (account.window == "lifetime")
            else None
        )
        odometer.recompute_summary(connection, account.name, window, counted)
    return changed


def set_unit(connection: sa.Connection, pinned: Account) -> Account:
    """Pin an account's privacy unit and the terms that go with it; return the account."""
    account, body = pinned, {"unit": pinned.pinned_unit}
    append(connection, "unit", account=account.name, body=body)
    connection.execute(sa.update(accounts).where(accounts.c.account == account.name).values(body))
    return pinned


def check_key(account: Account, key: Key) -> None:
    """Refuse a key or a hashing scheme that differs from the pinned one."""
    if account.key != key.fingerprint:
        raise InputError(
            f"the ledger's account {account.name!r} was opened with another key (fingerprint "
            f"{account.key}, this one {key.fingerprint}): under this one all units would look "
            "new. Name the file of the right key."
        )
    if account.ids not in (NORMALISATION, FORMER_NORMALISATION):
        raise InputError(
            f"the ledger's account {account.name!r} spells or hashes ids in another way "
            f"({account.ids}; here: {NORMALISATION}), in which units would look new. Use the "
            "version of hexveil that opened it."
        )


def check_former_units(
    connection: sa.Connection,
    account: Account,
    key: Key,
    ids: Sequence[bytes],
    periods: Sequence[str] | None,
) -> None:
    """Refuse units that an earlier version booked under ids of other spellings."""
    if account.ids == NORMALISATION:
        return
    hashes = former_hashes(ids, key, periods)
    if odometer.read_balances(connection, account.name, LIFETIME, hashes).any():
        raise InputError(
            f"the ledger's account {account.name!r} has bookings of an earlier version, which took "
            "7 and 7.0 for two ids, under such ids of these records: what they spent would be "
            "forgotten. Use another account (account in [ledger], or --set ledger.account)."
        )


def read_spend(connection: sa.Connection, account: Account) -> Spend:
    """Return the losses of an account's units, in the current window and over the lifetime."""
    # The ledger's clock, not the machine's: a clock set back must not show an older window's spend.
    moment = events.next_time(read_head(connection).at)
    window = window_of(account.window, moment)
    total = odometer.window_summary(connection, account.name, window)
    lifetime = odometer.owner_lifetime_bound(connection, account.name)
    return Spend(
        account.budget,
        account.window,
        window,
        shown_epsilon(total.largest, account.delta),
        shown_epsilon(lifetime, account.delta),
        total.units,
        total.exhausted,
        account.delta,
        affordable_epsilon(account.pico_epsilons - total.largest, account.delta)
        if account.delta
        else Fraction(0),
    )


def list_accounts(connection: sa.Connection) -> dict[str, tuple[Account, tuple[str, ...]]]:
    """Return all accounts by name, each with its data sets."""
    by_name: dict[str, tuple[Account, list[str]]] = {
        row.account: (_parse_account(row), []) for row in _sorted_rows(connection, accounts)
    }
    for row in _sorted_rows(connection, datasets):
        by_name[row.account][1].append(row.dataset)
    return {name: (account, tuple(names)) for name, (account, names) in by_name.items()}


def _sorted_rows(connection: sa.Connection, table: sa.Table) -> Sequence[Any]:
    """Return a table's rows in the order of their names."""
    rows = connection.execute(sa.select(table)).all()
    # Sorted here: databases order text by their own collations. str, as a damaged name may be a
    # number.
    return sorted(rows, key=lambda row: str(row[0]))


def _pinned(account: Account) -> dict[str, str]:
    """Return the pinned properties, as the event and the table hold them."""
    return {
        "unit": account.pinned_unit,
        "window": account.window,
        "budget": account.limit.text,
        "key": account.key,
        "ids": account.ids,
    }


def _parse_account(row: sa.Row[tuple[str, ...]]) -> Account:
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
