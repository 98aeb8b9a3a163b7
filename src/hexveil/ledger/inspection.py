"""What a book says, for those who hold it: its accounts, its events, what stopped on the way.

Public facts and sums only: hashes of units, and balances of single units, stay in the book.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hexveil.base.errors import InputError
from hexveil.ledger import accounts, events, journal
from hexveil.ledger.storage import tables
from hexveil.ledger.storage.databases import Engine, existing, transaction, where

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hexveil.ledger.accounts import Account, Spend
    from hexveil.ledger.events import Event, Head

__all__ = [
    "Engine",
    "Overview",
    "Standing",
    "existing",
    "hash_at",
    "history",
    "overview",
    "results",
    "unresolved",
    "where",
]


@dataclass(frozen=True)
class Overview:
    """A book at a glance.

    Attributes
    ----------
    head : Head
        Its last event: how many there are, and the chain's last hash.
    accounts : tuple of Standing
        In the order of their names.
    """

    head: Head
    accounts: tuple[Standing, ...]


@dataclass(frozen=True)
class Standing:
    """An account, and what was spent of it.

    Attributes
    ----------
    account : Account
        What the book pins.
    datasets : tuple of str
        What spends from it.
    spend : Spend
        In this window, and ever.
    releases : dict of str to int
        How many requests are in each state: reserved, marked, measured, stored, committed, lost,
        abandoned. States that none is in are left out, and so is what was given back.
    """

    account: Account
    datasets: tuple[str, ...]
    spend: Spend
    releases: dict[str, int]


def overview(engine: Engine, dataset: str | None = None) -> Overview:
    """Return what a book says of all accounts, or of the one that a data set spends from."""
    with transaction(engine) as connection:
        known = accounts.every(connection)
        only = None if dataset is None else _account_of(connection, dataset)
        states = events.states(connection)
        found = tuple(
            Standing(one, names, accounts.spend(connection, one), _standing(states.get(name, {})))
            for name, (one, names) in known.items()
            if only in (None, name)
        )
        return Overview(events.head(connection), found)


def history(
    engine: Engine,
    dataset: str | None = None,
    *,
    limit: int | None = None,
) -> tuple[Event, ...]:
    """Return events, oldest first, without the losses of units; the last few, if limited.

    Of a data set these are its own and those of the account that it spends from.
    """
    with transaction(engine) as connection:
        of = None if dataset is None else (_account_of(connection, dataset), dataset)
        return events.listed(connection, of=of, limit=limit)


def results(engine: Engine) -> dict[int, NDArray[np.int64]]:
    """Return the noisy results that are stored, by the entry of the event that stored each.

    Raises
    ------
    StorageError
        If one is not what was stored.
    """
    with transaction(engine) as connection:
        measured = [one for one in events.listed(connection) if one.kind == "measured"]
        return {one.entry: journal.result(connection, one) for one in measured}


def unresolved(engine: Engine, dataset: str | None = None) -> tuple[Event, ...]:
    """Return the last event of each request whose results are not all stored and may be yet."""
    with transaction(engine) as connection:
        if dataset is not None:
            _account_of(connection, dataset)
        found = events.stopped(connection)
    return tuple(one for one in found if dataset in (None, one.dataset))


def hash_at(engine: Engine, entry: int) -> str | None:
    """Return the hash of an event, or None if there is none of this number."""
    of = tables.events
    with transaction(engine) as connection:
        asked = sa.select(of.c.chain).where(of.c.entry == entry)
        found: str | None = connection.execute(asked).scalar()
    return found


def _account_of(connection: sa.Connection, dataset: str) -> str:
    """Return the name of a data set's account; refuse one that the book does not know."""
    found = accounts.find(connection, dataset)
    if found is None:
        known = sorted(n for _, names in accounts.every(connection).values() for n in names)
        said = ", ".join(known) or "no data set yet"
        raise InputError(f"the ledger does not know {dataset!r}; it knows {said}.")
    return found.name


def _standing(many: dict[str, int]) -> dict[str, int]:
    """Return how many requests are in each state, in order; not those given back."""
    order = ("reserved", "marked", "measured", "stored", "committed", "lost", "abandoned")
    return {state: many[state] for state in order if many.get(state)}
