"""Results of private stages, and the plans they belong to: what a release goes on from.

A row is made when a draw begins, all zero and as long as its result will be; the result takes its
place. So neither whether a result can be stored nor how much room it needs depends on what was
drawn: whole numbers of 8 bytes each, whatever their size.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from hexveil.base.errors import StorageError
from hexveil.ledger.storage.tables import journal, plans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.ledger.events import Event

    Ints = NDArray[np.int64]

WIDTH = 8
"""Bytes of a whole number."""
PART = 2**25
"""Bytes of a plan's part."""


def digest(content: bytes) -> str:
    """Return the SHA-256 of a row or a plan."""
    return hashlib.sha256(content).hexdigest()


def begin(connection: sa.Connection, entry: int, entries: int) -> None:
    """Make the row of a stage that began with this event."""
    connection.execute(sa.insert(journal).values(entry=entry, row=bytes(WIDTH * entries)))


def fill(connection: sa.Connection, marked: Event, result: Ints) -> str:
    """Put a stage's result into its row and return its digest; StorageError if it does not fit."""
    row = np.ascontiguousarray(result, dtype="<i8").tobytes()
    if len(row) != WIDTH * int(marked.body["entries"]):
        raise StorageError("the result of a private stage has another size than was announced.")
    of = journal.c.entry == marked.entry
    connection.execute(sa.update(journal).where(of).values(row=row))
    return digest(row)


def results(connection: sa.Connection, history: Sequence[Event]) -> dict[str, Ints]:
    """Return the results of the stages of a request's last booking, in order.

    Raises
    ------
    StorageError
        If one is not what was stored.
    """
    return {
        str(event.body["stage"]): result(connection, event)
        for event in of_last_booking(history)
        if event.kind == "measured"
    }


def result(connection: sa.Connection, measured: Event) -> Ints:
    """Return the result that an event stored; StorageError if it is not what was stored."""
    row = row_of(connection, int(measured.body["row"]))
    if row is None or digest(row) != measured.body["digest"]:
        raise StorageError(
            f"the result of entry {measured.entry} of the ledger was changed by something else; "
            "nothing was published. Restore the ledger from a copy."
        )
    return np.frombuffer(row, "<i8").astype(np.int64)


def of_last_booking(history: Sequence[Event]) -> Sequence[Event]:
    """Return a request's events from its last reservation on."""
    booked = [k for k, event in enumerate(history) if event.kind == "reserved"]
    return history[booked[-1] :] if booked else ()


def row_of(connection: sa.Connection, entry: int) -> bytes | None:
    """Return a row as it stands."""
    found = connection.execute(sa.select(journal.c.row).where(journal.c.entry == entry)).scalar()
    return None if found is None else bytes(found)


def keep_plan(connection: sa.Connection, content: bytes) -> str:
    """Keep a plan unless it is there, and return its digest."""
    name = digest(content)
    there = sa.select(plans.c.part).where(plans.c.digest == name).limit(1)
    if connection.execute(there).first() is None:
        for number, start in enumerate(range(0, len(content), PART)):
            part = content[start : start + PART]
            connection.execute(sa.insert(plans).values(digest=name, part=number, content=part))
    return name


def plan(connection: sa.Connection, name: str) -> bytes:
    """Return a plan that was kept; StorageError if it is not what was."""
    asked = sa.select(plans.c.content).where(plans.c.digest == name).order_by(plans.c.part)
    content = b"".join(bytes(part) for part in connection.execute(asked).scalars())
    if digest(content) != name:
        raise StorageError(
            "the plan that the ledger keeps for this request was changed by something else; "
            "nothing was published. Restore the ledger from a copy."
        )
    return content
