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
    """Return an engine for a ledger file, its tables made if they are not there.

    Only SQLite: that a check and a spend are one step rests on its write lock, which another
    database would have to be asked for in its own way.
    """
    try:
        address = _address(url)
        engine = sa.create_engine(address, poolclass=NullPool)
    except (ArgumentError, ImportError) as error:
        raise InputError(
            f"the ledger address is not usable ({type(error).__name__}); "
            "name an SQLite file, for example ledger.sqlite."
        ) from None
    _check_file(Path(str(address.database)))
    _lock_on_begin(engine)
    with transaction(engine) as connection:
        _check_tables(connection)
        metadata.create_all(connection)
    return engine


def _address(url: str | Path) -> sa.URL:
    """Return the URL of an SQLite file, its path made absolute.

    Every transaction opens the file anew, and the working folder may change between them.
    """
    if "://" not in str(url):
        return sa.URL.create("sqlite", database=str(Path(url).absolute()))
    address = sa.make_url(str(url))
    if address.get_backend_name() != "sqlite":
        raise InputError(
            f"a ledger is an SQLite file in this version, not a {address.get_backend_name()} "
            "database; name a file, for example ledger.sqlite."
        )
    name = address.database or ""
    if not name or name.startswith((":memory:", "file:")):
        raise InputError("a ledger must be a file, for memory forgets what was spent; name one.")
    return address.set(database=str(Path(name).absolute()))


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
    """Refuse what cannot be a ledger file before SQLite touches it."""
    try:
        if path.is_dir():
            raise InputError(f"the ledger {path} is a folder; name a file.")
        if not path.parent.is_dir():
            raise InputError(f"the ledger's folder {path.parent} does not exist; make it.")
        if path.exists() and not path.is_file():
            raise InputError(f"the ledger {path} is a device or a pipe; name a file.")
        start = _first_bytes(path) if path.exists() else b""
    except OSError as error:
        raise StorageError(
            f"the ledger {path} cannot be read ({error.strerror}); nothing was published. "
            "Check who may read and write it."
        ) from None
    if start and start != b"SQLite format 3\0":
        raise InputError(f"{path} is not a ledger (an SQLite file); name another file.")


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)


def _check_tables(connection: sa.Connection) -> None:
    """Refuse an SQLite file that belongs to another program."""
    tables = set(sa.inspect(connection).get_table_names())
    if tables and not tables >= set(metadata.tables):
        raise InputError(
            f"{connection.engine.url.database} is the database of another program, not a ledger; "
            "name another file."
        )


def _lock_on_begin(engine: sa.Engine) -> None:
    """Make every SQLite transaction take the write lock at its start."""

    @event.listens_for(engine, "connect")
    def _plain(connection, _record) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {int(WAIT * 1000)}")
        connection.execute("PRAGMA synchronous = EXTRA")  # a booking survives a power cut

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
