"""Tables of the ledger. Events are append-only; balances can be recomputed from them.

Column names are those of SQL; `hexveil.ledger.events` explains the events.

Soundness of the file: a damaged index or page can hide a request that was paid for, or part of what
happened to it; then the same request would draw a second table. So a reservation, the one door to a
draw, checks the whole file: SQLite compares indexes with tables and accounts for every page (half a
second for 10^5 events), and a server is asked again without its indexes.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from hexveil.base.errors import StorageError

metadata = sa.MetaData()

events = sa.Table(
    "hexveil_events",
    metadata,
    # Numbered by the ledger: a database's own counter leaves gaps after a rollback.
    sa.Column("entry", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    # All losses of a reservation as one value: as rows, each would need a link of the chain.
    sa.Column("units", sa.LargeBinary),
    sa.Column("chain", sa.Text, nullable=False),
    sa.Index("hexveil_events_of_request", "dataset", "request", "entry"),
    sa.Index("hexveil_events_of_kind", "kind", "entry"),
)
"""Append-only and chained. `body` is canonical JSON, `request` empty where there is none."""

journal = sa.Table(
    "hexveil_journal",
    metadata,
    sa.Column("entry", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("row", sa.LargeBinary, nullable=False),
)
"""Results of private stages, by the entry of the event "marked" that began each: whole numbers of 8
bytes, all zero until they are drawn."""

plans = sa.Table(
    "hexveil_plans",
    metadata,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("part", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""Booked plans by their SHA-256, split into chunks that every database accepts."""

balances = sa.Table(
    "hexveil_balances",
    metadata,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("window", sa.Text, primary_key=True),
    sa.Column("unit", sa.LargeBinary, primary_key=True),
    sa.Column("period", sa.Text, nullable=False),
    sa.Column("spent", sa.BigInteger, nullable=False),
    # The key is the row: a hidden number and a second index would double the largest table.
    sqlite_with_rowid=False,
)
"""Sum of each unit's losses in a window; the empty window is the lifetime. `period` is the day or
week that a unit is of, empty where it is a user."""


# ---- soundness of the file ----

MAX_PROBLEMS = 20
"""Largest number of problems reported of a file."""
_INDEX_SETTINGS = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")


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
        raise damaged(
            "the index hexveil_events_of_request does not agree with its table; REINDEX mends it"
        )


def check_file(connection: sa.Connection) -> None:
    """Refuse an SQLite file that is damaged.

    Raises
    ------
    StorageError
        If SQLite's own check finds a problem.
    """
    for problem in find_problems(connection, limit=1):
        raise damaged(problem)


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


def damaged(problem: str) -> StorageError:
    """Return the error of a damaged ledger."""
    return StorageError(
        f"the ledger is damaged ({problem}); nothing was published. Run hexveil ledger verify, and "
        "restore the ledger from a copy."
    )
