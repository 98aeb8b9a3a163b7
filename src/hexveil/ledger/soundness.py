"""Soundness of a ledger's file, checked before noise may be drawn.

A damaged index or page can hide a request that was paid for, or part of what happened to it; then
the same request would draw a second table. So every read of a request recomputes the chain hashes
of its events, and a reservation, the one door to a draw, checks the whole file besides: SQLite
compares indexes with tables and accounts for every page (half a second for 10^5 events), and a
server is asked again without its indexes.

Hash chain over the ledger's events: each hash covers its event and the previous hash.

So a change, a removal or a new order of events is detected by whoever holds a later hash: the
ledger itself by recomputing, a recipient through the receipt in a release folder. A ledger that is
restored to an older state is still consistent; only a receipt of a later event proves the rollback.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hexveil.base.errors import StorageError
from hexveil.ledger.tables import events

FIRST_KIND = "reserved"
"""Kind of the first event of every request."""
MAX_PROBLEMS = 20
"""Largest number of problems reported of a file."""
_INDEX_SETTINGS = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")


def check_links(connection: sa.Connection, rows: Sequence[Any]) -> None:
    """Refuse a request's events unless each hash covers its event and the previous one.

    Parameters
    ----------
    rows : sequence
        The events of one request, oldest first.

    Raises
    ------
    StorageError
        If one is not what was written, or the first is missing.
    """
    if not rows:
        return
    if rows[0].kind != FIRST_KIND:
        raise _damaged(f"what happened before entry {rows[0].entry} is missing")
    # SQLite stores any type in any column, whatever the column declares.
    previous = {row.entry - 1 for row in rows if isinstance(row.entry, int)}
    query = sa.select(events.c.entry, events.c.chain).where(events.c.entry.in_(previous))
    # Without the hash before entry 1: that one opens an account, and belongs to no request.
    hashes = {row.entry: row.chain for row in connection.execute(query)}
    for row in rows:
        if not _is_linked(row, hashes):
            raise _damaged(f"entry {row.entry} is not what was written")


def check_request(
    connection: sa.Connection, dataset: str, request: str, indexed: Sequence[int]
) -> None:
    """Refuse to draw if the ledger may contain events of a request that its index does not find.

    Parameters
    ----------
    indexed : sequence of int
        Entries of the events found by the index, oldest first, their hashes checked.

    Raises
    ------
    StorageError
        If the file is damaged, or an index is.
    """
    if connection.dialect.name == "sqlite":
        check_file(connection)
        return
    scanned = _scan_entries(connection, dataset, request)
    if scanned != list(indexed):
        raise _damaged(f"the index {_index()} does not agree with its table; REINDEX mends it")


def check_file(connection: sa.Connection) -> None:
    """Refuse an SQLite file that is damaged.

    Raises
    ------
    StorageError
        If SQLite's own check finds a problem.
    """
    for problem in find_problems(connection, limit=1):
        raise _damaged(problem)


def find_problems(connection: sa.Connection, *, limit: int = MAX_PROBLEMS) -> tuple[str, ...]:
    """Return the problems that SQLite's integrity check finds; none for a server."""
    if connection.dialect.name != "sqlite":
        return ()
    try:
        rows = connection.exec_driver_sql(f"PRAGMA integrity_check({limit})").all()
    except sa.exc.DatabaseError as error:
        return (error_reason(error),)
    # One row can hold several problems, under a heading of asterisks.
    lines = "\n".join(str(row[0]) for row in rows).splitlines()
    return tuple(line.rstrip(".") for line in lines if line != "ok" and not line.startswith("***"))


def error_reason(error: sa.exc.SQLAlchemyError) -> str:
    """Return a database's reason to refuse; of a server its first line, which quotes no row."""
    lines = str(getattr(error, "orig", None) or "").splitlines()
    # PostgreSQL's further lines (DETAIL, CONTEXT) can quote the row with its unit hashes.
    return lines[0] if lines else type(error).__name__


def _is_linked(row: Any, hashes: dict[int, str]) -> bool:  # noqa: ANN401  rows have the types of their columns
    """Return whether a row's hash covers it and the one before; False if it cannot be read."""
    try:
        return bool(chain_hash(hashes[row.entry - 1], row._asdict()) == row.chain)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _scan_entries(connection: sa.Connection, dataset: str, request: str) -> list[int]:
    """Return the entries of a request by a scan of the table, without an index."""
    # For this transaction only: SET LOCAL ends with it, also when the query fails.
    for setting in _INDEX_SETTINGS:
        connection.exec_driver_sql(f"SET LOCAL {setting} = off")
    query = sa.select(events.c.entry).where(
        (events.c.dataset == dataset) & (events.c.request == request)
    )
    # Sorted here: ORDER BY would invite the planner back to an index.
    entries = sorted(connection.execute(query).scalars())
    for setting in _INDEX_SETTINGS:
        connection.exec_driver_sql(f"SET LOCAL {setting} TO DEFAULT")
    return entries


def _index() -> str:
    return next(str(index.name) for index in events.indexes if "request" in index.columns)


def _damaged(problem: str) -> StorageError:
    return StorageError(
        f"the ledger is damaged ({problem}); nothing was published. Run hexveil ledger verify, and "
        "restore the ledger from a copy."
    )


GENESIS_HASH = "0" * 64
"""The hash before the first event."""

HASHED_FIELDS = ("entry", "account", "dataset", "request", "kind", "at", "body")
"""Fields of an event that its hash covers as they are; `units` is covered by its digest."""


def canonical_json(body: Mapping[str, Any]) -> str:
    """Serialize to JSON with sorted keys: equal contents give equal text."""
    # In ASCII: neither the encoding nor the normal form of a text can change the hash.
    return json.dumps(dict(body), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def chain_hash(previous: str, event: Mapping[str, Any]) -> str:
    """Return the hash of an event, chained to the previous hash.

    Parameters
    ----------
    previous : str
        Hash of the previous event, or `GENESIS_HASH`.
    event : mapping
        The fields of `HASHED_FIELDS`, and `units` (bytes or None).
    """
    fields = {name: event[name] for name in HASHED_FIELDS}
    fields["units"] = _digest(event["units"])
    # Unambiguous: a hash has no line break, and JSON names each field.
    return hashlib.sha256(f"{previous}\n{canonical_json(fields)}".encode()).hexdigest()


def _digest(content: bytes | None) -> str | None:
    if content is None:
        return None
    # Not bytes(...), which takes a number for a size; a damaged column may hold one.
    return hashlib.sha256(memoryview(content)).hexdigest()
