"""Databases of the ledger: an SQLite file, PostgreSQL by URL, or memory for experiments.

Every transaction takes the ledger's one write lock at its start, so that its reads stay
valid until it is committed: SQLite's own (BEGIN IMMEDIATE), or in PostgreSQL an advisory lock of
the transaction. A commit that returned survives a power cut: WAL with full sync in SQLite; in
PostgreSQL synchronous_commit is asked for.
"""

import contextlib
import io
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from hexveil.base import atomic_files
from hexveil.base.errors import HexveilError, InputError, StorageError, is_interruption
from hexveil.ledger.tables import check_file, error_reason, metadata

Engine = sa.Engine
"""Connection to a ledger's database."""

ANSWER = 60.0
"""Seconds within which a server must answer a statement; other writers are waited for half as
long, so that this is reported."""

_SLICE = 0.2
"""Seconds that SQLite itself waits for another writer: meanwhile it hears no interruption."""

_PAUSE = 0.005
"""Seconds between two tries, where SQLite refuses without waiting."""

_WRITE_LOCK = 0x686578_7665696C
"""Number of the advisory lock of a transaction in PostgreSQL: "hexveil" in ASCII."""

_SECRET = ("password", "sslpassword", "passfile")
"""Query parameters of an address that no message may repeat."""

MEMORY = "memory://"
"""A ledger in memory, for experiments; nothing can be released with it."""


def connect(url: str | Path) -> sa.Engine:
    """Connect to a ledger; create its tables if they are missing.

    Raises
    ------
    InputError
        If the address is none, or the database belongs to another program.
    StorageError
        If it cannot be reached or written.
    """
    engine = _engine(url)
    # SQLite itself would make the file with the rights of the umask, often readable by all.
    _make_private(engine)
    with transaction(engine) as connection:
        # Under the write lock, so that two processes do not both create the tables.
        if not _check_tables(connection):
            metadata.create_all(connection)
    return engine


def connect_existing(url: str | Path) -> sa.Engine:
    """Connect to an existing ledger; create nothing.

    Raises
    ------
    InputError
        If there is no ledger, or the address is none.
    StorageError
        If it cannot be reached.
    """
    engine = _engine(url)
    file = Path(engine.url.database or "")
    # Into an empty file SQLite would write its header.
    exists = engine.dialect.name != "sqlite" or (file.is_file() and file.stat().st_size > 0)
    if exists:
        with transaction(engine) as connection:
            exists = _check_tables(connection)
    if not exists:
        raise InputError(
            f"there is no ledger {describe_address(engine)}; hexveil ledger init makes one."
        )
    return engine


def describe_address(engine: sa.Engine) -> str:
    """Return a ledger's name for messages: a file's path, or an address without its password."""
    if engine.dialect.name == "sqlite":
        return str(engine.url.database or "in memory")
    address = engine.url.set(drivername="postgresql").difference_update_query(_SECRET)
    return address.render_as_string(hide_password=True)


def holder_key_file(engine: sa.Engine, key: str | Path | None) -> Path | None:
    """Return the full path of the holder's key; None for a ledger in memory that has its own.

    Raises
    ------
    InputError
        If a server's ledger comes without one.
    """
    if key is not None:
        return Path(key).absolute()
    if engine.dialect.name != "sqlite":
        raise InputError(
            "a ledger on a server needs the file of the holder's key: key (in [ledger], or --set "
            "ledger.key)."
        )
    file = engine.url.database
    return Path(f"{file}.key") if file else None


@contextlib.contextmanager
def transaction(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Run one transaction under the write lock; committed when the block ends without error."""
    try:
        with engine.begin() as connection:
            yield connection
    except SQLAlchemyError as error:
        if is_interruption(error):
            raise KeyboardInterrupt from None
        raise StorageError(
            f"the ledger {describe_address(engine)} cannot be used "
            f"({error_reason(error)}); nothing was published. Check that it can be "
            "reached and who else uses it, then try again."
        ) from None
    except HexveilError:
        raise
    except UnicodeDecodeError:
        # The driver's, of a message that quotes a damaged schema.
        raise StorageError(
            f"the ledger {describe_address(engine)} is damaged: its schema is not text; nothing "
            "was published. Restore it from a copy."
        ) from None
    except (LookupError, TypeError, ValueError, ArithmeticError, MemoryError):
        # A damaged row can hold anything; in a sound file the error is the program's own.
        with engine.connect() as connection:
            check_file(connection)
        raise


def _engine(url: str | Path) -> sa.Engine:
    text = str(url)
    if text == MEMORY:
        # One connection for all threads: a second one would be another, empty database.
        return _sqlite(sa.make_url("sqlite://"))
    if "://" not in text:
        # Every transaction opens the file again, and the working folder may change meanwhile.
        path = Path(text).absolute()
        _check_file(path)
        # Made of its parts: an address would be split at signs such as "?".
        return _file(sa.URL.create("sqlite", database=str(path)))
    address = None
    # A ValueError is a port that is no number, or half a pair of brackets.
    with contextlib.suppress(ArgumentError, ValueError):
        address = sa.make_url(text)
    if address is not None and address.get_backend_name() == "postgresql":
        try:
            return _server(address)
        except ModuleNotFoundError:
            raise InputError(
                'a ledger on PostgreSQL needs psycopg: pip install "hexveil[postgres]".'
            ) from None
    raise InputError(
        "the ledger address is not usable; name an SQLite file, for example ledger.sqlite, or a "
        "PostgreSQL database as postgresql://user@host/name."
    )


def _sqlite(address: sa.URL) -> sa.Engine:
    """Return an engine for an SQLite file, or for memory, with a single connection."""
    is_memory = not address.database
    memory = {
        "poolclass": QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": ANSWER / 2,
        "connect_args": {"check_same_thread": False},
    }  # fmt: skip
    engine = sa.create_engine(address, **(memory if is_memory else {"poolclass": NullPool}))

    @event.listens_for(engine, "do_connect")
    def _present(_dialect, _record, _arguments, _parameters) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        # SQLite would make an empty file in place of one that is gone.
        if not (is_memory or Path(str(address.database)).is_file()):
            raise StorageError(
                f"the ledger {address.database} is gone; nothing was published. Put it back, then "
                "try again."
            )

    @event.listens_for(engine, "connect")
    def _durable(connection, _record) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA busy_timeout = {int(_SLICE * 1000)}")
        # Changing to WAL needs the file for itself. Where two processes ask for it at once, SQLite
        # refuses one of them without waiting.
        change = partial(connection.execute, "PRAGMA journal_mode = WAL")
        _retry_while_busy(change, time.monotonic() + ANSWER / 2)
        # Not NORMAL, which some builds take with WAL: it may lose the last commits in a power cut,
        # and with them losses that were paid.
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _lock(connection: sa.Connection) -> None:
        # Under SQLite's write lock, which others may hold for some time.
        begin = partial(connection.exec_driver_sql, "BEGIN IMMEDIATE")
        _retry_while_busy(begin, time.monotonic() + ANSWER / 2)

    return engine


# For an address always the same engine, which has no connection: so a server is asked about itself,
# and statements are compiled, once in a process.
_file = lru_cache(maxsize=8)(_sqlite)


def _retry_while_busy(statement: Callable[[], object], deadline: float) -> None:
    """Run a statement of SQLite, again and again while others have the file, until the deadline."""
    while True:
        try:
            statement()
        except (sqlite3.OperationalError, sa.exc.OperationalError) as error:
            # Extended codes (busy while recovering, busy by a snapshot) have the kind in the low
            # byte.
            code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
            if code & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _make_private(engine: sa.Engine) -> None:
    """Make a new ledger file with rights for its owner alone; SQLite's own beside it follow it."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return
    file = Path(engine.url.database)
    try:
        # Exclusive: a file that is there keeps its rights, which its owner may have chosen.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StorageError(
            f"the ledger {file} cannot be made ({atomic_files.reason(error)}); nothing was "
            "published. Check who may write there."
        ) from None


@lru_cache(maxsize=8)
def _server(address: sa.URL) -> sa.Engine:
    """Return an engine for PostgreSQL.

    The server's own timeouts end what runs too long or waits for a lock; the connection's end where
    a network drops packets. What was sent last may have happened or not, as after a crash: the next
    run finds out.
    """
    driver = address.set(drivername="postgresql+psycopg")
    # Under a stricter level, which a server may be set to, what is read would date from before the
    # wait for the lock.
    engine = sa.create_engine(driver, poolclass=NullPool, isolation_level="READ COMMITTED")

    @event.listens_for(engine, "do_connect")
    def _patient(_dialect, _record, _arguments, parameters) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        limits = {
            "connect_timeout": math.ceil(ANSWER / 2),
            "keepalives": 1,
            "keepalives_idle": math.ceil(ANSWER / 2),
            "keepalives_interval": math.ceil(ANSWER / 8),
            "keepalives_count": 4,
            # Unacknowledged data, which keepalives do not cover.
            "tcp_user_timeout": math.ceil(1000 * ANSWER),
        }
        # The address may override the limits.
        parameters |= limits | parameters

    @event.listens_for(engine, "begin")
    def _lock(connection: sa.Connection) -> None:
        # A server may be set to answer before a commit is on its disk.
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        # The last is longer: between two statements this process prepares the rows of a large
        # fleet.
        for name, seconds in (
            ("statement_timeout", ANSWER),
            ("lock_timeout", ANSWER / 2),
            ("idle_in_transaction_session_timeout", 10 * ANSWER),
        ):
            connection.exec_driver_sql(f"SET LOCAL {name} = {math.ceil(1000 * seconds)}")
        # An advisory lock: one of a table would wait for the server's own maintenance of it.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")

    return engine


def _check_file(path: Path) -> None:
    """Refuse a path that cannot be a ledger file, before SQLite touches it."""
    try:
        if path.is_dir():
            raise InputError(f"the ledger {path} is a folder; name a file.")
        if not path.parent.is_dir():
            raise InputError(f"the ledger's folder {path.parent} does not exist; make it.")
        if path.exists() and not path.is_file():
            raise InputError(f"the ledger {path} is a device or a pipe; name a file.")
        # SQLite would report another kind of file only when it is queried, as malformed.
        with path.open("rb") if path.exists() else io.BytesIO() as file:
            start = file.read(16)
    except OSError as error:
        raise StorageError(
            f"the ledger {path} cannot be read ({error.strerror}); nothing was published. "
            "Check who may read and write it."
        ) from None
    if start and start != b"SQLite format 3\0":
        raise InputError(f"{path} is not a ledger (an SQLite file); name another file.")


def _check_tables(connection: sa.Connection) -> bool:
    """Return whether the tables are there, or can be made."""
    tables = set(sa.inspect(connection).get_table_names())
    ours = {name for name in tables if name.startswith("hexveil_")}
    old = ours - set(metadata.tables)
    if old:
        raise InputError(
            f"{describe_address(connection.engine)} is the ledger of an earlier version "
            f"({min(old)}); begin a new one, with the budget less the spend of the old one."
        )
    if connection.dialect.name == "sqlite" and tables - ours:
        raise InputError(
            f"{describe_address(connection.engine)} is the database of another program, not a "
            "ledger; name another file."
        )
    missing = set(metadata.tables) - tables if ours else set()
    if missing or (not ours and _has_content(connection)):
        lacks = f"the table {min(missing)}" if missing else "its tables"
        raise StorageError(
            f"the ledger {describe_address(connection.engine)} is damaged: it lacks {lacks}; "
            "nothing was published. Restore it from a copy."
        )
    return bool(ours)


def _has_content(connection: sa.Connection) -> bool:
    """Return whether an SQLite file has more than the one page of a ledger not begun yet."""
    if connection.dialect.name != "sqlite":
        return False
    return int(connection.exec_driver_sql("PRAGMA page_count").scalar_one()) > 1
