"""Whether what a release rests on is what was written: checked before noise may be drawn.

A damaged index or page can hide a request that was paid for, or part of what happened to it; then
the same request would draw a second table. So every look at a request recomputes the chain hashes
of its events, and a reservation, the one door to a draw, checks the whole file besides: SQLite
compares indexes with tables and accounts for every page (half a second for 10^5 events), and a
server is asked again without its indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hexveil.base.errors import StorageError
from hexveil.ledger.integrity import hash_chain
from hexveil.ledger.storage.tables import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexveil.ledger.events import Event

FIRST = "reserved"
"""Kind of every request's first event."""
MOST = 20
"""Problems of one file that are told."""
_BY_INDEX = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")


def check_links(connection: sa.Connection, rows: Sequence[Any]) -> None:
    """Refuse a request's events whose hashes do not cover them and the events before them.

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
    if rows[0].kind != FIRST:
        raise _damaged(f"what happened before entry {rows[0].entry} is missing")
    before = {row.entry - 1 for row in rows if isinstance(row.entry, int)}
    asked = sa.select(events.c.entry, events.c.chain).where(events.c.entry.in_(before))
    hashes = {0: hash_chain.START} | {row.entry: row.chain for row in connection.execute(asked)}
    for row in rows:
        if not _linked(row, hashes):
            raise _damaged(f"entry {row.entry} is not what was written")


def check(connection: sa.Connection, dataset: str, request: str, known: Iterable[Event]) -> None:
    """Refuse to draw where the ledger may hold more of a request than was found by its index.

    Parameters
    ----------
    known : iterable of Event
        What was found, its hashes checked.

    Raises
    ------
    StorageError
        If the file is damaged, or an index is.
    """
    if connection.dialect.name == "sqlite":
        check_file(connection)
        return
    found = _scanned(connection, dataset, request)
    if found != [event.entry for event in known]:
        raise _damaged(f"the index {_index()} does not agree with its table; REINDEX mends it")


def check_file(connection: sa.Connection) -> None:
    """Refuse an SQLite file that is damaged.

    Raises
    ------
    StorageError
        If SQLite's own check finds a problem.
    """
    for problem in problems(connection, most=1):
        raise _damaged(problem)


def problems(connection: sa.Connection, *, most: int = MOST) -> tuple[str, ...]:
    """Return what SQLite's own check finds wrong with a ledger's file; nothing of a server's."""
    if connection.dialect.name != "sqlite":
        return ()
    try:
        rows = connection.exec_driver_sql(f"PRAGMA integrity_check({most})").all()
    except sa.exc.DatabaseError as error:
        return (reason(error),)
    told = "\n".join(str(row[0]) for row in rows).splitlines()
    return tuple(line.rstrip(".") for line in told if line != "ok" and not line.startswith("***"))


def reason(error: sa.exc.SQLAlchemyError) -> str:
    """Return why a database refused; of a server's words only the first line, which quotes none."""
    lines = str(getattr(error, "orig", None) or "").splitlines()
    return lines[0] if lines else type(error).__name__


def _linked(row: Any, hashes: dict[int, str]) -> bool:  # noqa: ANN401  rows have the types of their columns
    """Return whether a row's hash covers it and the one before; False if it cannot be read."""
    try:
        return bool(hash_chain.link(hashes[row.entry - 1], row._asdict()) == row.chain)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


def _scanned(connection: sa.Connection, dataset: str, request: str) -> list[int]:
    """Return the entries of a request, found without an index."""
    for setting in _BY_INDEX:
        connection.exec_driver_sql(f"SET LOCAL {setting} = off")
    asked = sa.select(events.c.entry).where(
        (events.c.dataset == dataset) & (events.c.request == request)
    )
    found = sorted(connection.execute(asked).scalars())
    for setting in _BY_INDEX:
        connection.exec_driver_sql(f"SET LOCAL {setting} TO DEFAULT")
    return found


def _index() -> str:
    return next(str(one.name) for one in events.indexes if "request" in one.columns)


def _damaged(what: str) -> StorageError:
    return StorageError(
        f"the ledger is damaged ({what}); nothing was published. Run hexveil ledger verify, and "
        "restore the ledger from a copy."
    )
