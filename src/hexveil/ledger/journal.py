"""Journal of private stages: their noisy results, and the booked plans, to resume a release.

A row is created when a draw begins, all zero and as long as its result, which then replaces it. So
neither the success nor the size of storing a result depends on the drawn numbers: integers of 8
bytes each, whatever their value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa

from hexveil.base.arrays import Ints
from hexveil.base.errors import StorageError
from hexveil.ledger.events import Event
from hexveil.ledger.tables import journal, plans

ENTRY_BYTES = 8
"""Bytes of an integer, whatever its value: a length that varied would reveal something of it."""
PLAN_CHUNK_BYTES = 2**25
"""Bytes of a chunk of a plan, below what every database accepts in one value."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of a row or a plan."""
    return hashlib.sha256(content).hexdigest()


def create_row(connection: sa.Connection, entry: int, entries: int) -> None:
    """Create the row of the stage that this event begins."""
    # All zero, and of full length: a disk without room fails here, before anything is drawn.
    connection.execute(sa.insert(journal).values(entry=entry, row=bytes(ENTRY_BYTES * entries)))


def store_result(connection: sa.Connection, marked: Event, result: Ints) -> str:
    """Store a stage's result in its row and return its digest; StorageError if it does not fit."""
    # Little-endian on every machine, for the digest and for whoever moves the ledger.
    row = np.ascontiguousarray(result, dtype="<i8").tobytes()
    # An UPDATE of equal length: neither success nor time depends on the drawn numbers.
    if len(row) != ENTRY_BYTES * int(marked.body["entries"]):
        raise StorageError("the result of a private stage has another size than was announced.")
    own_row = journal.c.entry == marked.entry
    connection.execute(sa.update(journal).where(own_row).values(row=row))
    return digest(row)


def load_results(connection: sa.Connection, history: Sequence[Event]) -> dict[str, Ints]:
    """Return the results of the stages of a request's last booking, in order.

    Raises
    ------
    StorageError
        If one was changed after it was stored.
    """
    return {
        str(event.body["stage"]): load_result(connection, event)
        for event in last_booking_events(history)
        if event.kind == "measured"
    }


def load_result(connection: sa.Connection, measured: Event) -> Ints:
    """Return the result that an event stored; StorageError if it was changed since."""
    row = read_row(connection, int(measured.body["row"]))
    if row is None or digest(row) != measured.body["digest"]:
        raise StorageError(
            f"the result of entry {measured.entry} of the ledger was changed by something else; "
            "nothing was published. Restore the ledger from a copy."
        )
    # A copy in the machine's order: frombuffer is read-only and keeps the row alive.
    return np.frombuffer(row, "<i8").astype(np.int64)


def last_booking_events(history: Sequence[Event]) -> Sequence[Event]:
    """Return a request's events from its last reservation on."""
    booked = [k for k, event in enumerate(history) if event.kind == "reserved"]
    return history[booked[-1] :] if booked else ()


def read_row(connection: sa.Connection, entry: int) -> bytes | None:
    """Return a row's bytes, or None."""
    row = connection.execute(sa.select(journal.c.row).where(journal.c.entry == entry)).scalar()
    return None if row is None else _to_bytes(row)


def store_plan(connection: sa.Connection, content: bytes) -> str:
    """Store a plan unless it is stored already, and return its digest."""
    name = digest(content)
    # One transaction wrote all chunks of a plan, so that one chunk stands for all.
    existing = sa.select(plans.c.part).where(plans.c.digest == name).limit(1)
    if connection.execute(existing).first() is None:
        for number, start in enumerate(range(0, len(content), PLAN_CHUNK_BYTES)):
            chunk = content[start : start + PLAN_CHUNK_BYTES]
            connection.execute(sa.insert(plans).values(digest=name, part=number, content=chunk))
    return name


def load_plan(connection: sa.Connection, name: str) -> bytes:
    """Return a stored plan; StorageError if it was changed since."""
    query = sa.select(plans.c.content).where(plans.c.digest == name).order_by(plans.c.part)
    content = b"".join(_to_bytes(chunk) for chunk in connection.execute(query).scalars())
    if digest(content) != name:
        raise StorageError(
            "the plan that the ledger keeps for this request was changed by something else; "
            "nothing was published. Restore the ledger from a copy."
        )
    return content


def _to_bytes(stored: object) -> bytes:
    """Return stored bytes; none for another type, which SQLite takes in any column."""
    return bytes(stored) if isinstance(stored, (bytes, memoryview)) else b""
