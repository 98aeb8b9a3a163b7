"""The ledger's tables and its transactions; the only module with its SQL."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from hexveil.errors import InputError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT = 30
"""Seconds to wait for another writer."""

metadata = sa.MetaData()

bookings = sa.Table(
    "hexveil_bookings",
    metadata,
    sa.Column("entry", sa.Integer, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("cost", sa.Text, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.UniqueConstraint("dataset", "request"),
)
"""Append-only. `cost` is an exact fraction as text."""

numbers = sa.Table(
    "hexveil_numbers",
    metadata,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("request", sa.Text, primary_key=True),
    sa.Column("numbers", sa.Text, nullable=False),
)
"""Append-only. What was published: noisy whole numbers as JSON."""


def connect(url: str | Path) -> sa.Engine:
    """Return an engine for a ledger file or database URL, its tables made if they are not there."""
    text = str(url)
    if "://" not in text:
        _check_file(Path(text))
        text = f"sqlite:///{Path(text).resolve()}"
    try:
        engine = sa.create_engine(text, poolclass=NullPool)
    except (ArgumentError, ImportError) as error:
        raise InputError(
            f"the ledger address is not usable ({type(error).__name__}); "
            "name an SQLite file, for example ledger.sqlite."
        ) from None
    if engine.dialect.name == "sqlite":
        _lock_on_begin(engine)
    with transaction(engine) as connection:
        metadata.create_all(connection)
    return engine


@contextlib.contextmanager
def transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Run one transaction under the write lock; committed when the block ends without error."""
    try:
        with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or type(error).__name__)
        raise StorageError(
            f"the ledger {engine.url.database} cannot be used ({reason}); nothing was published. "
            "Check the file and who else has it open, then try again."
        ) from None


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"the ledger {path} is a folder; name a file.")
    if not path.resolve().parent.is_dir():
        raise InputError(f"the ledger's folder {path.resolve().parent} does not exist; make it.")
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise InputError(f"{path} is not a ledger (an SQLite file); name another file.")


def _lock_on_begin(engine: sa.Engine) -> None:
    """Make every SQLite transaction take the write lock at its start."""

    @event.listens_for(engine, "connect")
    def _plain(connection, _record) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {WAIT * 1000}")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
