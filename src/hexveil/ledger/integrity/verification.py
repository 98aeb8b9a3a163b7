"""Verification of a ledger: its hash chain, the order of its events, every sum derived from them.

All events are read once, and everything derived from them is recomputed beside the tables: budgets,
data sets, the balance of each unit in each window, totals. Differences are reported by entry or by
table; of units, only their number. A ledger that was restored whole to an older state is consistent
in itself: only the receipt of a later event reveals the rollback (`soundness`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from hexveil.base.errors import StorageError
from hexveil.base.work_share import LEDGER_CHECK, tell_share
from hexveil.ledger import events, journal
from hexveil.ledger.integrity import soundness
from hexveil.ledger.integrity.replay import LedgerReplay
from hexveil.ledger.storage import tables
from hexveil.ledger.storage.databases import transaction

EVENTS_SHARE = 0.6
"""Share of a verification that the events take, about."""
BATCH = 200
"""Events read at a time: the losses of a release can be large."""


@dataclass(frozen=True)
class Verdict:
    """Result of a verification.

    Attributes
    ----------
    entries : int
        How many events were read.
    head : str
        Chain hash of the last.
    problems : tuple of str
        A sentence each; empty for a consistent ledger.
    """

    entries: int
    head: str
    problems: tuple[str, ...]


def verify(engine: sa.Engine) -> Verdict:
    """Verify all events and sums of a ledger, which is locked meanwhile.

    Raises
    ------
    StorageError
        If the database cannot be used.
    """
    walk, replay, stored = _ChainWalk(), LedgerReplay(), _StoredRows()
    with transaction(engine) as connection:
        # Asked first: a damaged page explains why the walk below stops early.
        damage = [
            f"The file is damaged: {problem}." for problem in soundness.find_problems(connection)
        ]
        sums: tuple[str, ...] = ()
        try:
            _walk_events(connection, walk, replay, stored)
            sums = (
                *stored.problems(connection),
                *_check_accounts(connection, replay),
                *_check_balances(connection, replay),
                *_check_summaries(connection, replay),
            )
        except _UNREADABLE as error:
            # In a sound file a database error is the connection's, and no verdict on the ledger.
            if not damage and isinstance(error, sa.exc.SQLAlchemyError):
                raise
            damage.append(f"After entry {walk.entry} it cannot be read to its end.")
    return Verdict(walk.entries, walk.chain, (*damage, *walk.problems, *replay.problems, *sums))


_UNREADABLE = (sa.exc.SQLAlchemyError, TypeError, ValueError, KeyError, OverflowError)
"""Errors that a damaged row can raise: its columns may hold anything."""


def _walk_events(
    connection: sa.Connection, walk: _ChainWalk, replay: LedgerReplay, stored: _StoredRows
) -> None:
    """Replay the events, oldest first."""
    final = int(connection.execute(sa.select(sa.func.max(tables.events.c.entry))).scalar() or 1)
    for row in _rows(connection):
        tell_share(LEDGER_CHECK, EVENTS_SHARE * min(walk.entry / final, 1.0))
        walk.step(row)
        body = _body(row)
        if body is None:
            replay.report(row.entry, "is damaged: it cannot be read")
        else:
            replay.apply(row, body)
            stored.follow(row, body)


class _ChainWalk:
    """The chain and the clock along the events; after a break it continues from the stored row."""

    def __init__(self) -> None:
        self.entries, self.entry, self.at, self.chain = 0, 0, "", soundness.GENESIS_HASH
        self.problems: list[str] = []

    def step(self, row: Any) -> None:  # noqa: ANN401  rows have the types of their columns
        """Check that an event follows the one before."""
        if row.entry != self.entry + 1:
            self.problems.append(_gap_text(self.entry, row.entry))
        elif soundness.chain_hash(self.chain, row._asdict()) != row.chain:
            self.problems.append(
                f"Entry {row.entry} is not what was written: its hash does not cover it and the "
                "entry before."
            )
        if row.at < self.at:
            self.problems.append(f"Entry {row.entry} is dated before the entry before it.")
        self.entries += 1
        # The stored hash, not the computed one: each break is reported once.
        self.entry, self.at, self.chain = row.entry, row.at, row.chain


class _StoredRows:
    """Comparison of the results and plans that events name with those in the tables."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, str | None, int]] = {}
        self._plans: set[str] = set()

    def follow(self, row: Any, body: dict[str, Any]) -> None:  # noqa: ANN401  a row of events
        """Note the rows that the next event stores."""
        if row.kind == "marked":
            self._rows[row.entry] = (_to_count(body.get("entries")), None, row.entry)
        elif row.kind == "measured":
            number = _to_count(body.get("row"))
            self._rows[number] = (
                self._rows.get(number, (0, None, 0))[0],
                body.get("digest"),
                row.entry,
            )
        elif row.kind == "reserved":
            self._plans.add(str(body.get("plan")))

    def problems(self, connection: sa.Connection) -> Iterator[str]:
        """Yield rows that are missing or were changed."""
        existing = set(connection.execute(sa.select(tables.journal.c.entry)).scalars())
        numbers = sorted(existing | self._rows.keys())
        for place, number in enumerate(numbers):
            tell_share(LEDGER_CHECK, EVENTS_SHARE + (0.9 - EVENTS_SHARE) * place / len(numbers))
            row, expected = journal.read_row(connection, number), self._rows.get(number)
            if expected is None:
                yield f"The result {number} belongs to no entry."
                continue
            entries, digest, entry = expected
            empty = bytes(journal.ENTRY_BYTES * entries)
            # A row without a result must still be all zero: else a draw was written and not
            # recorded.
            digest = digest or journal.digest(empty)
            if row is None or len(row) != len(empty) or journal.digest(row) != digest:
                yield f"The result of entry {entry} is not what was stored."
        names = set(connection.execute(sa.select(tables.plans.c.digest).distinct()).scalars())
        for name in sorted(names | self._plans):
            try:
                journal.load_plan(connection, name)
            except StorageError:
                yield f"The plan {name[:16]} is not what was booked."


def _to_count(value: object) -> int:
    """Return a number that an event names; zero where it is none."""
    return max(value, 0) if isinstance(value, int) else 0


def _gap_text(previous: int, following: int) -> str:
    start, end = previous + 1, following - 1
    if start > end:
        return f"Entry {following} does not follow entry {previous}."
    if start == end:
        return f"Entry {start} is missing."
    return f"Entries {start} to {end} are missing."


def _rows(connection: sa.Connection) -> Iterator[Any]:
    """Yield the stored events, oldest first, in batches."""
    events, position = tables.events, None
    while True:
        query = sa.select(events).order_by(events.c.entry).limit(BATCH)
        rows = connection.execute(
            # By position: OFFSET would read all earlier rows again for each batch.
            query if position is None else query.where(events.c.entry > position)
        ).all()
        if not rows:
            return
        yield from rows
        position = rows[-1].entry


def _body(row: Any) -> dict[str, Any] | None:  # noqa: ANN401  rows have the types of their columns
    """Return the body of an event, or None if it is none."""
    try:
        body = json.loads(row.body)
    except (TypeError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def _check_accounts(connection: sa.Connection, replay: LedgerReplay) -> Iterator[str]:
    """Yield accounts and data sets that differ from the events."""
    stand = {row.account: row._asdict() for row in connection.execute(sa.select(tables.accounts))}
    expected = {
        name: {"account": name} | account.facts for name, account in replay.accounts.items()
    }
    for name in sorted(stand.keys() | expected.keys()):
        if stand.get(name, {}) != expected.get(name, {}):
            yield f"The account {name!r} is not what the events say."
    joined = {row.dataset: row.account for row in connection.execute(sa.select(tables.datasets))}
    for name in sorted(joined.keys() | replay.datasets.keys()):
        if joined.get(name) != replay.datasets.get(name):
            yield f"The data set {name!r} does not spend from the account that the events say."


def _check_balances(connection: sa.Connection, replay: LedgerReplay) -> Iterator[str]:
    """Yield the number of balances, per account and window, that differ from the bookings."""
    table = tables.balances
    # Ordered for groupby, which joins neighbours alone.
    rows = connection.execute(sa.select(table).order_by(table.c.account, table.c.window))
    n_wrong: dict[tuple[str, str], int] = {}
    n_present: dict[tuple[str, str], int] = {}
    for place, group in groupby(rows, key=lambda row: (row.account, row.window)):
        booked = replay.balances(*place)
        for row in group:
            expected = booked.get(bytes(memoryview(row.unit)))
            n_present[place] = n_present.get(place, 0) + (expected is not None)
            # A cancelled booking leaves a row of zero, which says the same as no row.
            n_wrong[place] = n_wrong.get(place, 0) + (row.spent != (expected or 0))
    for account, replayed in replay.accounts.items():
        for window, booked in replayed.balances.items():
            place = (account, window)
            # Balances that the events require and the table lacks.
            n_wrong[place] = n_wrong.get(place, 0) + len(booked) - n_present.get(place, 0)
    for (account, window), count in sorted(n_wrong.items()):
        if count:
            yield (
                f"Balances of {account!r} {_window(window)} are not the sum of what was booked "
                f"({count:,} of them)."
            )


def _check_summaries(connection: sa.Connection, replay: LedgerReplay) -> Iterator[str]:
    """Yield windows with totals that differ from their balances."""
    stand = {
        (row.account, row.window, row.period): (row.largest, row.units, row.exhausted)
        for row in connection.execute(sa.select(tables.totals))
    }
    expected = replay.totals()
    nothing = (0, 0, 0)
    differing = {
        place[:2]
        for place in stand.keys() | expected.keys()
        # A row of zeros says the same as no row, as for balances.
        if stand.get(place, nothing) != expected.get(place, nothing)
    }
    for account, window in sorted(differing):
        yield f"The totals of {account!r} {_window(window)} are not those of the balances."


def _window(window: str) -> str:
    return "for ever" if window == events.LIFETIME else f"in {window}"
