"""Read access to a ledger for its holder: accounts, events, unresolved releases.

Public facts and sums only: unit hashes and balances of single units stay in the ledger.

Export of a ledger's events to a file, for use with other tools.

Unit losses and their hashes are left out: with the key they would reveal who is in the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import sqlalchemy as sa
from numpy.typing import NDArray

from hexveil.base import atomic_files
from hexveil.base.arrays import Ints
from hexveil.base.arrow_tables import write_csv
from hexveil.base.errors import InputError, StorageError
from hexveil.ledger import accounts, events, journal, soundness, tables
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.databases import Engine, transaction
from hexveil.ledger.events import Event, Head


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
    """An account, its data sets and its spend.

    Attributes
    ----------
    account : Account
        Its pinned properties.
    datasets : tuple of str
        The data sets that spend from it.
    spend : Spend
        In this window, and ever.
    releases : dict of str to int
        Number of requests per state: reserved, marked, measured, stored, committed, lost,
        abandoned. States without a request are left out, and so are cancelled bookings.
    """

    account: Account
    datasets: tuple[str, ...]
    spend: Spend
    releases: dict[str, int]


def overview(engine: Engine, dataset: str | None = None) -> Overview:
    """Return a summary of all accounts, or of the one that a data set spends from."""
    # One transaction, so that spends and states are of the same moment.
    with transaction(engine) as connection:
        by_name = accounts.list_accounts(connection)
        selected = None if dataset is None else _account_of(connection, dataset)
        states = events.count_states(connection)
        statuses = tuple(
            AccountStatus(
                account,
                names,
                accounts.read_spend(connection, account),
                _nonzero_states(states.get(name, {})),
            )
            for name, (account, names) in by_name.items()
            if selected in (None, name)
        )
        return Overview(events.read_head(connection), statuses)


def history(
    engine: Engine, dataset: str | None = None, *, limit: int | None = None
) -> tuple[Event, ...]:
    """Return events, oldest first, without the losses of units; the last few, if limited.

    Of a data set these are its own and those of the account that it spends from.
    """
    with transaction(engine) as connection:
        account_and_dataset = (
            None if dataset is None else (_account_of(connection, dataset), dataset)
        )
        return events.list_events(connection, account_and_dataset=account_and_dataset, limit=limit)


def results(engine: Engine) -> dict[int, NDArray[np.int64]]:
    """Return the noisy results that are stored, by the entry of the event that stored each.

    Raises
    ------
    StorageError
        If one was changed after it was stored.
    """
    with transaction(engine) as connection:
        # Also of lost or abandoned requests: each stored result was paid for, and is public.
        measured = [event for event in events.list_events(connection) if event.kind == "measured"]
        return {event.entry: journal.load_result(connection, event) for event in measured}


def unresolved(engine: Engine, dataset: str | None = None) -> tuple[Event, ...]:
    """Return the last event of each request that can still be completed or abandoned."""
    with transaction(engine) as connection:
        if dataset is not None:
            _account_of(connection, dataset)
        pending = events.unresolved_events(connection)
    return tuple(event for event in pending if dataset in (None, event.dataset))


def hash_at(engine: Engine, entry: int) -> str | None:
    """Return the hash of an event, or None if the ledger has no such entry."""
    events = tables.events
    with transaction(engine) as connection:
        query = sa.select(events.c.chain).where(events.c.entry == entry)
        chain: str | None = connection.execute(query).scalar()
    return chain


def _account_of(connection: sa.Connection, dataset: str) -> str:
    """Return the name of a data set's account; refuse an unknown data set."""
    account = accounts.find(connection, dataset)
    if account is None:
        by_name = accounts.list_accounts(connection)
        datasets = sorted(name for _, names in by_name.values() for name in names)
        listing = ", ".join(datasets) or "no data set yet"
        raise InputError(f"the ledger does not know {dataset!r}; it knows {listing}.")
    return account.name


def _nonzero_states(counts: dict[str, int]) -> dict[str, int]:
    """Return the states with requests, in the order of a release; cancelled ones left out."""
    order = ("reserved", "marked", "measured", "stored", "committed", "lost", "abandoned")
    return {state: counts[state] for state in order if counts.get(state)}


FIELDS = ("entry", "at", "account", "dataset", "request", "kind", "body", "chain")


def export(
    path: Path, events: Sequence[Event], *, results: Mapping[int, Ints] | None = None
) -> None:
    """Write events to a new file; its suffix .json, .csv or .parquet sets the format.

    `results` are the noisy results by entry, if they are wanted, as the column `numbers`. In JSON
    `body` and `numbers` are as they are; in the tables they are JSON as text. In CSV an apostrophe
    stands before a name that a spreadsheet would take for a formula.

    Raises
    ------
    InputError
        If the name ends in something else, or there is such a file.
    StorageError
        If it cannot be written.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError(f"{path} must end in one of {', '.join(_WRITERS)}.")
    try:
        if path.exists():
            raise InputError(f"{path} exists; name a new file.")
        # Whole or not at all: half an export would look like a ledger with fewer events.
        atomic_files.write(path, writer([event_row(event, results) for event in events]))
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({atomic_files.reason(error)}).") from None


def event_row(event: Event, results: Mapping[int, Ints] | None = None) -> dict[str, Any]:
    """Return an event as plain values, by name; its result, if results are given."""
    fields = {name: getattr(event, name) for name in FIELDS} | {"body": dict(event.body)}
    if results is not None:
        numbers = results.get(event.entry)
        fields["numbers"] = None if numbers is None else numbers.tolist()
    return fields


def _json(rows: list[dict[str, Any]]) -> bytes:
    return f"{json.dumps(rows, indent=2)}\n".encode()


def _csv(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    write_csv(_table(rows), sink)
    return bytes(sink.getvalue())


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(_table(rows), sink)
    return bytes(sink.getvalue())


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    names = list(rows[0]) if rows else list(FIELDS)
    # Stated, since a column of nulls alone would have no type.
    schema = pa.schema([(name, pa.int64() if name == "entry" else pa.string()) for name in names])
    long = ("body", "numbers")
    flat = [
        {n: _json_text(v) if n in long and v is not None else v for n, v in row.items()}
        for row in rows
    ]
    return pa.Table.from_pylist(flat, schema)


def _json_text(value: Any) -> str:  # noqa: ANN401  a body, or a list of whole numbers
    return soundness.canonical_json(value) if isinstance(value, dict) else json.dumps(value)


_WRITERS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
