"""Accounts: one budget over one population of units, which one or more data sets spend from."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.ledger import odometer, windows
from hexveil.ledger.events import add, head
from hexveil.ledger.storage.tables import accounts, datasets, totals
from hexveil.ledger.unit_losses import MOST, NORMALISATION, PARTS
from hexveil.ledger.windows import LIFETIME, label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.ledger.unit_losses import Key


@dataclass(frozen=True)
class Account:
    """What a book pins for a population.

    Attributes
    ----------
    name : str
    unit : str
        "user", "user-day" or "user-week"; empty until the first release says.
    window : str
        "lifetime", "month" or "day".
    budget : Fraction
        The most that a unit may lose in a window, in epsilon.
    key : str
        Fingerprint of the key under which ids are hashed.
    ids : str
        How an id becomes a hash.
    """

    name: str
    unit: str
    window: str
    budget: Fraction
    key: str
    ids: str = NORMALISATION

    @property
    def parts(self) -> int:
        """The budget in parts of 10^-12 epsilon, rounded down; at most what a book counts."""
        return min(int(self.budget * PARTS), MOST)


@dataclass(frozen=True)
class Spend:
    """What an account's units have lost.

    Attributes
    ----------
    budget : Fraction
        The most that a unit may lose in a window, in epsilon.
    kind : str
        "lifetime", "month" or "day".
    label : str
        Which window it is, as "2026-11"; empty for a lifetime.
    window : Fraction
        What the most exposed unit has lost in it.
    lifetime : Fraction
        What the owner of a unit in every period has lost since the account was opened, at most.
    units : int
        How many have lost anything in the window.
    exhausted : int
        How many are at the budget.
    """

    budget: Fraction
    kind: str
    label: str
    window: Fraction
    lifetime: Fraction
    units: int
    exhausted: int

    @property
    def left(self) -> Fraction:
        """What every unit may still lose in the window, in epsilon; never below zero."""
        return max(self.budget - self.window, Fraction(0))


def find(connection: sa.Connection, dataset: str) -> Account | None:
    """Return the account that a data set spends from, or None if the book does not know it."""
    both = datasets.c.account == accounts.c.account
    row = connection.execute(
        sa.select(accounts)
        .select_from(datasets.join(accounts, both))
        .where(datasets.c.dataset == dataset)
    ).first()
    return None if row is None else _account(row)


def named(connection: sa.Connection, name: str) -> Account | None:
    """Return an account by its name."""
    row = connection.execute(sa.select(accounts).where(accounts.c.account == name)).first()
    return None if row is None else _account(row)


def open_account(connection: sa.Connection, account: Account, dataset: str) -> Account:
    """Return the account, opened if it is new, with a data set that spends from it."""
    if named(connection, account.name) is None:
        add(connection, "opened", account=account.name, body=_body(account))
        connection.execute(
            sa.insert(accounts).values(
                account=account.name,
                unit=account.unit,
                window=account.window,
                budget=decimal_text(account.budget),
                key=account.key,
                ids=account.ids,
            )
        )
    add(connection, "joined", account=account.name, dataset=dataset)
    connection.execute(sa.insert(datasets).values(dataset=dataset, account=account.name))
    return account


def set_budget(connection: sa.Connection, account: Account, budget: Fraction) -> Account:
    """Return the account with another budget; what is exhausted is counted anew."""
    add(connection, "budget", account=account.name, body={"budget": decimal_text(budget)})
    connection.execute(
        sa.update(accounts)
        .where(accounts.c.account == account.name)
        .values(budget=decimal_text(budget))
    )
    changed = Account(account.name, account.unit, account.window, budget, account.key, account.ids)
    spans = sa.select(totals.c.window).distinct().where(totals.c.account == account.name)
    for window in connection.execute(spans).scalars().all():
        counted = changed.parts if (window == LIFETIME) == (account.window == "lifetime") else None
        odometer.recount(connection, account.name, window, counted)
    return changed


def set_unit(connection: sa.Connection, account: Account, unit: str) -> Account:
    """Return the account with its unit pinned, which the first release decides."""
    add(connection, "unit", account=account.name, body={"unit": unit})
    connection.execute(
        sa.update(accounts).where(accounts.c.account == account.name).values(unit=unit)
    )
    return Account(account.name, unit, account.window, account.budget, account.key, account.ids)


def check_key(account: Account, key: Key) -> None:
    """Refuse another key, or another way to make hashes, than the book pins."""
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


def spend(connection: sa.Connection, account: Account) -> Spend:
    """Return what an account's units have lost, in the window that is now and ever."""
    at = windows.now(head(connection).at)
    window = label(account.window, at)
    total = odometer.total(connection, account.name, window)
    ever = odometer.owners_lifetime(connection, account.name)
    return Spend(
        account.budget,
        account.window,
        window,
        Fraction(total.largest, PARTS),
        Fraction(ever, PARTS),
        total.units,
        total.exhausted,
    )


def every(connection: sa.Connection) -> dict[str, tuple[Account, tuple[str, ...]]]:
    """Return all accounts by name, each with the data sets that spend from it."""
    of: dict[str, tuple[Account, list[str]]] = {
        row.account: (_account(row), []) for row in _sorted(connection, accounts)
    }
    for row in _sorted(connection, datasets):
        of[row.account][1].append(row.dataset)
    return {name: (account, tuple(names)) for name, (account, names) in of.items()}


def _sorted(connection: sa.Connection, table: sa.Table) -> Sequence[Any]:
    """Return a table's rows in the order of their names."""
    rows = connection.execute(sa.select(table)).all()
    return sorted(rows, key=lambda row: str(row[0]))


def _body(account: Account) -> dict[str, str]:
    return {
        "unit": account.unit,
        "window": account.window,
        "budget": decimal_text(account.budget),
        "key": account.key,
        "ids": account.ids,
    }


def _account(row: sa.Row[tuple[str, ...]]) -> Account:
    """Return what a row says; StorageError if no ledger wrote it."""
    try:
        budget = Fraction(row.budget)
    except (TypeError, ValueError, ZeroDivisionError):
        raise StorageError(
            "the ledger's account is damaged: its budget is not a number; nothing was published. "
            "Restore the ledger from a copy."
        ) from None
    return Account(row.account, row.unit, row.window, budget, row.key, row.ids)
