"""Read access to a ledger for its holder: accounts, events, unresolved releases.

Public facts and sums only: unit hashes and balances of single units stay in the ledger, for with
the key they would reveal who is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from hexveil.base.errors import InputError
from hexveil.ledger import accounts, events, tables
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.databases import Engine, transaction
from hexveil.ledger.events import Event, Head

UNFINISHED = ("reserved", "marked", "measured", "lost")
"""States of requests that can still be completed or abandoned."""
STATES = ("reserved", "marked", "measured", "stored", "committed", "lost", "abandoned")
"""States that are counted, in the order of a release: cancelled bookings are not."""


@dataclass(frozen=True)
class Overview:
    """Summary of a ledger.

    Attributes
    ----------
    head : Head
        Its last event: the number of events, and the last hash of the chain.
    accounts : tuple of AccountStatus
        In the order of their names.
    """

    head: Head
    accounts: tuple[AccountStatus, ...]


@dataclass(frozen=True)
class AccountStatus:
    """An account and its spend.

    Attributes
    ----------
    account : Account
        Its pinned properties.
    spend : Spend
        In this window, and ever.
    releases : dict of str to int
        Number of requests per state: reserved, marked, measured, stored, committed, lost,
        abandoned. States without a request are left out, and so are cancelled bookings.
    """

    account: Account
    spend: Spend
    releases: dict[str, int]


def overview(engine: Engine, dataset: str | None = None) -> Overview:
    """Return a summary of all accounts, or of the one that a data set spends from."""
    # One transaction, so that spends and states are of the same moment.
    with transaction(engine) as connection:
        by_name = accounts.read_accounts(connection)
        selected = None if dataset is None else _account_of(connection, dataset)
        states = [(event.account, event.kind) for event in _last_events(connection)]
        statuses = tuple(
            AccountStatus(
                account,
                accounts.read_spend(connection, account),
                {state: n for state in STATES if (n := states.count((name, state)))},
            )
            for name, account in by_name.items()
            if selected in (None, name)
        )
        return Overview(events.read_head(connection), statuses)


def history(
    engine: Engine, dataset: str | None = None, *, limit: int | None = None
) -> tuple[Event, ...]:
    """Return events, oldest first, without the losses of units; the last few, if limited.

    Of a data set these are its own and those of the account that it spends from.
    """
    query = events.without_units().order_by(tables.events.c.entry.desc())
    with transaction(engine) as connection:
        if dataset is not None:
            columns, account = tables.events.c, _account_of(connection, dataset)
            query = query.where(columns.account == account, columns.dataset.in_(("", dataset)))
        # Sorted from the end, so that a limit takes the last events and not the first.
        rows = connection.execute(query if limit is None else query.limit(limit)).all()
    return tuple(events.parse_event(row) for row in reversed(rows))


def unresolved(engine: Engine, dataset: str | None = None) -> tuple[Event, ...]:
    """Return the last event of each request that can still be completed or abandoned."""
    with transaction(engine) as connection:
        if dataset is not None:
            _account_of(connection, dataset)
        pending = _last_events(connection)
    return tuple(
        event for event in pending if event.kind in UNFINISHED and dataset in (None, event.dataset)
    )


def hash_at(engine: Engine, entry: int) -> str | None:
    """Return the hash of an event, or None if the ledger has no such entry."""
    columns = tables.events.c
    with transaction(engine) as connection:
        query = sa.select(columns.chain).where(columns.entry == entry)
        chain: str | None = connection.execute(query).scalar()
    return chain


def _last_events(connection: sa.Connection) -> tuple[Event, ...]:
    """Return the last event of each request, oldest first."""
    columns = tables.events.c
    latest = sa.select(sa.func.max(columns.entry)).where(columns.request != "")
    latest = latest.group_by(columns.dataset, columns.request)
    query = events.without_units().where(columns.entry.in_(latest)).order_by(columns.entry)
    return tuple(events.parse_event(row) for row in connection.execute(query))


def _account_of(connection: sa.Connection, dataset: str) -> str:
    """Return the name of a data set's account; refuse an unknown data set."""
    account = accounts.find(connection, dataset)
    if account is None:
        by_name = accounts.read_accounts(connection).values()
        datasets = sorted(name for account in by_name for name in account.datasets)
        listing = ", ".join(datasets) or "no data set yet"
        raise InputError(f"the ledger does not know {dataset!r}; it knows {listing}.")
    return account.name


def event_row(event: Event) -> dict[str, Any]:
    """Return an event as plain values, by name, without losses of units."""
    return {name: value for name, value in vars(event).items() if name != "units"}
