"""Tables of the ledger. Events are append-only; all other tables can be recomputed from them.

Column names are those of SQL; `hexveil.ledger.events` explains the events.

Timeouts of a ledger's database: for other writers, and for any answer.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import sqlalchemy as sa

from hexveil.base.errors import InputError

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
    sa.Index("hexveil_events_of_account", "account", "kind", "entry"),
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

accounts = sa.Table(
    "hexveil_accounts",
    metadata,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("window", sa.Text, nullable=False),
    sa.Column("budget", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("ids", sa.Text, nullable=False),
)
"""One budget over one population of units; `key` and `ids` pin how ids become hashes."""

datasets = sa.Table(
    "hexveil_datasets",
    metadata,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, nullable=False),
)

balances = sa.Table(
    "hexveil_balances",
    metadata,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("window", sa.Text, primary_key=True),
    sa.Column("unit", sa.LargeBinary, primary_key=True),
    sa.Column("spent", sa.BigInteger, nullable=False),
    # The key is the row: a hidden number and a second index would double the largest table.
    sqlite_with_rowid=False,
)
"""Sum of each unit's losses in a window; the empty window is the lifetime."""

totals = sa.Table(
    "hexveil_totals",
    metadata,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("window", sa.Text, primary_key=True),
    sa.Column("period", sa.Text, primary_key=True),
    sa.Column("largest", sa.BigInteger, nullable=False),
    sa.Column("units", sa.BigInteger, nullable=False),
    sa.Column("exhausted", sa.BigInteger, nullable=False),
)
"""Per window and period: the largest balance, how many units have one, and are at the budget."""


VARIABLE = "HEXVEIL_LEDGER_TIMEOUT"
"""Environment variable with the seconds within which a server must answer."""
DEFAULT_TIMEOUT = 60.0
MAX_TIMEOUT = 86_400.0


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait.

    Attributes
    ----------
    answer : float
        For the answer to one statement, which the server itself is told.
    """

    answer: float = DEFAULT_TIMEOUT

    @property
    def lock(self) -> float:
        """For other writers and a connection; shorter than `answer`, so that it is reported."""
        return self.answer / 2

    @property
    def silence(self) -> float:
        """For a silent server: longer than it takes the server to report its own timeout."""
        return self.answer * 1.25

    @property
    def connection_parameters(self) -> dict[str, str | int]:
        """Parameters of a connection to PostgreSQL, in seconds or milliseconds."""
        return {
            "connect_timeout": math.ceil(self.lock),
            "keepalives": 1,
            # Half the patience of silence, then four probes in the other half.
            "keepalives_idle": math.ceil(self.answer / 2),
            "keepalives_interval": math.ceil(self.answer / 8),
            "keepalives_count": 4,
            # Unacknowledged data, which keepalives do not cover.
            "tcp_user_timeout": math.ceil(1000 * self.answer),
        }

    @property
    def statement_limits(self) -> dict[str, int]:
        """The server's own timeouts of a transaction, in milliseconds."""
        limits = {
            "statement_timeout": self.answer,
            "lock_timeout": self.lock,
            # Longer: between two statements this process prepares the rows of a large fleet.
            "idle_in_transaction_session_timeout": 10 * self.answer,
        }
        return {name: math.ceil(1000 * seconds) for name, seconds in limits.items()}


def read_timeouts() -> Timeouts:
    """Return the timeouts that HEXVEIL_LEDGER_TIMEOUT sets.

    Raises
    ------
    InputError
        If it is not a number of seconds.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return Timeouts()
    try:
        seconds = float(text)
    except ValueError:
        # Fails the comparison below, as the text "nan" does.
        seconds = math.nan
    if not 0 < seconds <= MAX_TIMEOUT:
        raise InputError(
            f"{VARIABLE} must be a number of seconds above 0 and at most {MAX_TIMEOUT:.0f}, got "
            f"{text!r}."
        )
    return Timeouts(seconds)
