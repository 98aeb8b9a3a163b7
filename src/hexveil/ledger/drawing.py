"""Exclusive draws: one process at a time draws noise for the requests of a ledger.

The lock is released when its process ends, however it ends. So if the holder of the lock sees a
stage that began and has no result, the process that began it is gone and its draw is lost. The lock
avoids a second payment; it is not needed for privacy: a result is stored only by the booking that
began it. For the same reason `publishing.booking` defers interrupts during a draw.

Journal of private stages: their noisy results, and the booked plans, to resume a release. A row is
created when a draw begins, all zero and as long as its result, which then replaces it. So neither
the success nor the size of storing a result depends on the drawn numbers: integers of 8 bytes each,
whatever their value.

Disk space for a stage's result, reserved from before its draw until it is stored.

Otherwise a disk, a quota or a limit on file sizes could have space for the event that begins a
draw, but not for its result: the draw would be lost for its size alone, and paid for twice.
"""

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from hexveil.base.arrays import Ints
from hexveil.base.atomic_files import exclusive_lock
from hexveil.base.errors import StorageError
from hexveil.ledger.databases import describe_address
from hexveil.ledger.events import Event
from hexveil.ledger.tables import journal, plans

_DRAW_LOCK = 0x686578_64726177
"""Number of the advisory lock of a draw in PostgreSQL: "hexdraw" in ASCII."""
_IN_MEMORY = threading.RLock()


@contextlib.contextmanager
def exclusive_draw(engine: sa.Engine) -> Iterator[None]:
    """Hold the ledger's draw lock, after waiting for whoever has it."""
    lock: contextlib.AbstractContextManager[Any] = _IN_MEMORY
    if engine.dialect.name == "postgresql":
        lock = _server_lock(engine)
    elif engine.url.database:
        lock = _file_lock(Path(f"{Path(engine.url.database).resolve()}.lock"))
    with lock:
        yield


@contextlib.contextmanager
def _file_lock(name: Path) -> Iterator[None]:
    """Hold the lock on a file beside an SQLite ledger; none where the system has no such locks."""
    with contextlib.ExitStack() as stack:
        try:
            # A file of its own: closing any handle of the ledger file would drop SQLite's own locks
            # on it.
            name.touch(mode=0o600)
            # Some network disks lock only what may be written.
            stack.enter_context(exclusive_lock(name, os.O_RDWR))
        except OSError as error:
            raise StorageError(
                f"the lock {name} of the ledger cannot be made ({error.strerror}); "
                "nothing was drawn."
            ) from None
        yield


@contextlib.contextmanager
def _server_lock(engine: sa.Engine) -> Iterator[None]:
    """Hold an advisory lock of a session of its own, which ends with it."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  loaded by the engine

    dialect: Any = engine.dialect
    with contextlib.ExitStack() as stack:
        try:
            session = engine.raw_connection()
            # Closed, not returned: an advisory lock lives as long as its session.
            stack.callback(session.invalidate)
            driver: Any = session.driver_connection
            # No open transaction: the server would end a session that idles in one while noise is
            # drawn.
            driver.autocommit = True
            driver.execute("SET lock_timeout = 0; SET statement_timeout = 0")
            driver.execute(f"SELECT pg_advisory_lock({_DRAW_LOCK})")
        except (SQLAlchemyError, dialect.loaded_dbapi.Error) as error:
            raise StorageError(
                f"the ledger {describe_address(engine)} cannot be used ({type(error).__name__}); "
                "nothing was published. Check that it can be reached, then try again."
            ) from None
        yield


MARGIN = 2**18
"""Bytes for events and their indexes, whose pages may split."""
_BLOCK = bytes(2**20)


def reserve_space(engine: sa.Engine, entries: int) -> int | None:
    """Return the descriptor of an unnamed file that reserves space beside an SQLite ledger.

    It is as large as SQLite's log can get, which takes the row twice, empty and filled, and begins
    behind what could not be moved into the ledger before. None elsewhere.

    Raises
    ------
    StorageError
        If the disk has no such space.
    """
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return None
    ledger = Path(engine.url.database).resolve()  # where SQLite has its log
    log = ledger.with_name(f"{ledger.name}-wal")
    row = ENTRY_BYTES * entries
    try:
        missing = 2 * (row + row // 50) + MARGIN + (log.stat().st_size if log.exists() else 0)
        with tempfile.TemporaryFile(dir=ledger.parent, buffering=0) as file:
            while missing > 0:  # written out: a sparse file reserves nothing
                missing -= file.write(_BLOCK[:missing])
            # The file has no name already: with its last descriptor its space is free, even after a
            # kill.
            return os.dup(file.fileno())
    except OSError as error:
        raise StorageError(
            f"the disk of the ledger {describe_address(engine)} has no space for the result of a "
            f"draw ({error.strerror}), so nothing was drawn. Free space, then try again; it costs "
            "nothing more."
        ) from None


# ---- the journal ----

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
    results: dict[str, Ints] = {}
    for event in history:
        if event.kind == "reserved":
            results = {}
        elif event.kind == "measured":
            results[str(event.body["stage"])] = load_result(connection, event)
    return results


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
