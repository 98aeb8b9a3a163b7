"""One process at a time draws from a ledger; whoever waits then finds what was drawn.

The lock goes when its process ends, however it ends. So a stage that was begun and has no result,
seen by the holder of the lock, was begun by a process that is gone, and its draw is lost. The lock
spares a second payment and guards nothing: a result is stored only by the booking that began it.
Interrupts wait until a draw that was begun is stored, for the same reason.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import StorageError
from hexveil.ledger.storage.databases import where

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

if sys.platform != "win32":
    import fcntl

PATIENCE = 900.0
"""Seconds to wait for another process's draw."""
_LOOK = 0.02
_LOCK = 0x686578_64726177
"""Number of the advisory lock in PostgreSQL."""
_TOO_LONG = "55P03"
"""What PostgreSQL calls a lock that was not to be had in time."""
_IN_MEMORY = threading.RLock()
_DEFERRED = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def alone(engine: sa.Engine) -> Iterator[None]:
    """Hold the ledger's lock on drawing.

    Raises
    ------
    StorageError
        If another process holds it for too long.
    """
    held: contextlib.AbstractContextManager[Any] = _IN_MEMORY
    if engine.dialect.name == "postgresql":
        held = _server_lock(engine)
    elif engine.url.database:
        held = _file_lock(f"{Path(engine.url.database).resolve()}.lock")
    with held:
        yield


@contextlib.contextmanager
def _file_lock(name: str) -> Iterator[None]:
    """Hold the lock on a file beside an SQLite ledger; none where the system has no such locks."""
    try:
        number = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StorageError(
            f"the lock {name} of the ledger cannot be made ({error.strerror}); nothing was drawn."
        ) from None
    try:
        if sys.platform != "win32":
            _wait_for(number, name)
        yield
    finally:
        os.close(number)


def _wait_for(number: int, name: str) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise _busy(name) from None
            time.sleep(_LOOK)
        except OSError:  # a disk without locks
            return
        else:
            return


@contextlib.contextmanager
def _server_lock(engine: sa.Engine) -> Iterator[None]:
    """Hold an advisory lock of a session of its own, which ends with it."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  loaded by the engine

    try:
        session = engine.raw_connection()
    except SQLAlchemyError as error:
        raise _unusable(engine, error) from None
    driver: Any = session.driver_connection
    dialect: Any = engine.dialect
    try:
        try:
            driver.autocommit = True
            driver.execute(f"SET lock_timeout = '{int(PATIENCE)}s'")
            driver.execute("SET statement_timeout = 0")
            driver.execute(f"SELECT pg_advisory_lock({_LOCK})")
        except dialect.loaded_dbapi.Error as error:
            if getattr(error, "sqlstate", None) == _TOO_LONG:
                raise _busy(where(engine)) from None
            raise _unusable(engine, error) from None
        yield
    finally:
        with contextlib.suppress(Exception):
            driver.close()
        session.invalidate()


def _unusable(engine: sa.Engine, error: Exception) -> StorageError:
    return StorageError(
        f"the ledger {where(engine)} cannot be used ({type(error).__name__}); nothing was "
        "published. Check that it can be reached, then try again."
    )


def _busy(name: str) -> StorageError:
    return StorageError(
        f"another process has been drawing from the ledger {name} for {PATIENCE / 60:.0f} minutes; "
        "nothing was drawn here. Wait until it ends, then try again."
    )


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let interrupts wait until the body is done; they are then delivered."""
    if threading.current_thread() is not threading.main_thread():
        yield  # interrupts reach the main thread alone
        return
    waiting: list[int] = []
    before: dict[int, Any] = {}
    try:
        for number in _deferrable():
            before[number] = signal.getsignal(number)
            signal.signal(number, lambda n, _: waiting.append(n))
        yield
    finally:
        _restored(list(before.items()), waiting)


def _deferrable() -> list[int]:
    """Return the signals to defer, without those that are handled outside of Python."""
    numbers = [getattr(signal, name) for name in _DEFERRED if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) is not None]


def _restored(before: list[tuple[int, Any]], waiting: list[int]) -> None:
    """Put handlers back and deliver what waited, each once, though a handler raises."""
    if before:
        number, handler = before.pop()
        try:
            signal.signal(number, handler)
            if number in waiting:
                signal.raise_signal(number)
        finally:
            _restored(before, waiting)
