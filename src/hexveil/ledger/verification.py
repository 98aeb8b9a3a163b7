"""Verification of a ledger: its hash chain, the order of its events, every sum derived from them.

All events are read once, and everything derived from them is recomputed beside the tables by plain
arithmetic, an independent check of the odometer: budgets, data sets, the balance of each unit in
each window, totals. Differences are reported by entry or by table; of units, only their number. A
ledger that was restored whole to an older state is consistent in itself: only the receipt of a
later event reveals the rollback (`events`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from hexveil.base.errors import StorageError
from hexveil.ledger import drawing, events, tables
from hexveil.ledger.accounts import PINNED, Account, parse_terms
from hexveil.ledger.databases import transaction
from hexveil.ledger.unit_losses import Losses, losses_from_bytes

BATCH = 200
"""Events read at a time: the losses of a release can be large."""

_UNREADABLE = (sa.exc.SQLAlchemyError, TypeError, ValueError, KeyError, OverflowError)
"""Errors that a damaged row can raise: its columns may hold anything."""


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
    replay = Replay()
    with transaction(engine) as connection:
        # Asked first: a damaged page explains why the walk below stops early.
        damage = [
            f"The file is damaged: {problem}." for problem in tables.find_problems(connection)
        ]
        differences: list[str] = []
        try:
            # The losses of a release can be large, so few events at a time, oldest first.
            query = sa.select(tables.events).order_by(tables.events.c.entry)
            for row in connection.execute(query.execution_options(yield_per=BATCH)):
                replay.step(row)
            differences += _stored_rows(connection, replay)
            differences += _sums(connection, replay)
        except _UNREADABLE as error:
            # In a sound file a database error is the connection's, and no verdict on the ledger.
            if not damage and isinstance(error, sa.exc.SQLAlchemyError):
                raise
            damage.append(f"After entry {replay.entry} it cannot be read to its end.")
    problems = (*damage, *replay.broken_links, *replay.problems, *differences)
    return Verdict(replay.entries, replay.chain, problems)


# ---- replay ----


@dataclass
class _ReplayedRequest:
    """State of a request; its reservation until the first draw, since only that can be returned."""

    state: str = ""
    reserved: tuple[str, Losses] | None = None
    begun: dict[str, int] = field(default_factory=dict)


class Replay:
    """State of the ledger after the events so far.

    Attributes
    ----------
    entries, entry : int
        How many events were read, and the number of the last.
    at, chain : str
        Time and hash of the last, as they stand there.
    broken_links, problems : list of str
        Sentences on entries that were not written so, and that cannot be.
    accounts : dict of str to Account
    datasets : dict of str to str
    balances : dict of (account, window) to dict of bytes to int
        Balance of each unit in pico-epsilon.
    periods : dict of bytes to str
        Period of each unit.
    rows : dict of int to tuple
        Length and digest of each result, and the entry that names them.
    plans : set of str
    """

    def __init__(self) -> None:
        self.entries, self.entry, self.at, self.chain = 0, 0, "", events.GENESIS_HASH
        self.broken_links: list[str] = []
        self.problems: list[str] = []
        self.accounts: dict[str, Account] = {}
        self.datasets: dict[str, str] = {}
        self.balances: dict[tuple[str, str], dict[bytes, int]] = defaultdict(dict)
        self.periods: dict[bytes, str] = {}
        self.roundings = 0
        """Bookings of exact losses that were rounded up, each by less than a part."""
        self.rows: dict[int, tuple[int, str | None, int]] = {}
        self.plans: set[str] = set()
        self._requests: dict[tuple[str, str], _ReplayedRequest] = defaultdict(_ReplayedRequest)

    def step(self, row: Any) -> None:  # noqa: ANN401  rows have the types of their columns
        """Check that an event follows the one before, and apply it."""
        if row.entry != self.entry + 1:
            self.broken_links.append(f"Entry {row.entry} does not follow entry {self.entry}.")
        elif events.chain_hash(self.chain, row._asdict()) != row.chain:
            self.broken_links.append(
                f"Entry {row.entry} is not what was written: its hash does not cover it and the "
                "entry before."
            )
        if row.at < self.at:
            self.broken_links.append(f"Entry {row.entry} is dated before the entry before it.")
        self.entries += 1
        # The stored hash, not the computed one: each break is reported once.
        self.entry, self.at, self.chain = row.entry, row.at, row.chain
        try:
            body = json.loads(row.body)
        except (TypeError, ValueError):
            body = None
        if not isinstance(body, dict):
            self._report(row, "is damaged: it cannot be read")
            return
        # A damaged body can hold anything; the replay goes on, to report all such entries at once.
        try:
            self._apply(row, body)
        except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError):
            self._report(row, f"does not hold what an entry {row.kind!r} needs")
        self._follow(row, body)

    def _report(self, row: Any, problem: str) -> None:  # noqa: ANN401  as above
        self.problems.append(f"Entry {row.entry} {problem}.")

    def _apply(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        if row.kind == "opened":
            if row.account in self.accounts:
                self._report(row, f"opens the account {row.account!r} a second time")
                return
            self.accounts[row.account] = Account(row.account, **parse_terms(row.kind, body))
        elif row.kind == "joined":
            if row.dataset in self.datasets or row.account not in self.accounts:
                self._report(row, f"lets {row.dataset!r} join where it cannot")
                return
            self.datasets[row.dataset] = row.account
        elif row.kind in ("budget", "unit"):
            self._change(row, body)
        elif row.kind in events.TRANSITIONS:
            self._advance(row, body)
        else:
            self._report(row, f"is of an unknown kind, {row.kind!r}")

    def _change(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        old = self.accounts[row.account]
        new = replace(old, **parse_terms(row.kind, body))
        # A first release pins less than a later one may add.
        pinned = {name: getattr(old, name) or getattr(new, name) for name in PINNED}
        if new != replace(old, budget=new.budget, **pinned):
            self._report(row, f"changes the terms of {row.account!r}")
        self.accounts[row.account] = new

    def _advance(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        """Apply an event of a request."""
        request = self._requests[row.dataset, row.request]
        if row.kind not in events.TRANSITIONS[request.state]:
            was = f"was {request.state}" if request.state else "was not in the ledger"
            self._report(row, f"says {row.kind}, of a request that {was}")
        # Set even after a forbidden step: else one damaged event would make all later ones look
        # wrong.
        request.state = row.kind
        if self.datasets.get(row.dataset) != row.account:
            self._report(row, "spends from another account than its data set's")
        if row.kind == "reserved":
            request.begun = {}
            request.reserved = self._reserve(row, body)
        elif row.kind == "returned" and request.reserved is not None:
            window, losses = request.reserved
            request.reserved = None
            for name in {window, events.LIFETIME}:
                self._add(row.account, name, losses, -1)
        elif row.kind == "marked":
            request.reserved = None  # spent for good
            if body["stage"] in request.begun:
                self._report(row, "draws a stage a second time under one booking")
            request.begun[body["stage"]] = row.entry
        elif row.kind == "measured" and request.begun[body["stage"]] != body["row"]:
            self._report(row, "stores a result that it did not draw")

    def _reserve(self, row: Any, body: Mapping[str, Any]) -> tuple[str, Losses]:  # noqa: ANN401
        """Book the losses of a reservation, and return them with their window."""
        account, window = self.accounts[row.account], body["window"]
        losses = losses_from_bytes(row.units or b"", body["periods"])
        self.roundings += "limit" in body
        if body["cost"] != losses.largest:
            self._report(row, "names another cost than its units have")
        if Fraction(body["delta"]) != account.delta:
            self._report(row, "mixes pure and approximate privacy in one account")
        # A loss booked in a past window would leave this window's budget untouched.
        if window != events.window_of(account.window, row.at):
            self._report(row, "was booked in another window than its time's")
        balances = self._add(row.account, window, losses, 1)
        # Where the window is the lifetime, a second addition would count the losses twice.
        if window != events.LIFETIME:
            self._add(row.account, events.LIFETIME, losses, 1)
        numbers = zip(losses.hashes, losses.period.tolist(), strict=True)
        self.periods |= {unit: losses.periods[number] for unit, number in numbers}
        # Where exact losses fit, their roundings may not.
        limit = account.pico_epsilons + self.roundings
        if over := sum(spent > limit for spent in balances):
            self._report(row, f"took {over:,} units above the budget of its time")
        return window, losses

    def _add(self, account: str, window: str, losses: Losses, sign: int) -> list[int]:
        """Add losses, or subtract them, and return the new balances of their units."""
        spent = self.balances[account, window]
        for unit, loss in zip(losses.hashes, losses.pico_epsilons.tolist(), strict=True):
            spent[unit] = spent.get(unit, 0) + sign * loss
        return [spent[unit] for unit in losses.hashes]

    def _follow(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        """Note the rows of other tables that an event names."""
        if row.kind == "marked":
            self.rows[row.entry] = (_to_count(body.get("entries")), None, row.entry)
        elif row.kind == "measured":
            number = _to_count(body.get("row"))
            entries = self.rows.get(number, (0, None, 0))[0]
            self.rows[number] = (entries, body.get("digest"), row.entry)
        elif row.kind == "reserved":
            self.plans.add(str(body.get("plan")))


def _to_count(value: object) -> int:
    """Return a number that an event names; zero where it is none."""
    return max(value, 0) if isinstance(value, int) else 0


# ---- the tables beside it ----


def _stored_rows(connection: sa.Connection, replay: Replay) -> Iterator[str]:
    """Yield results and plans that are missing or were changed."""
    existing = set(connection.execute(sa.select(tables.journal.c.entry)).scalars())
    numbers = sorted(existing | replay.rows.keys())
    for number in numbers:
        row, expected = drawing.read_row(connection, number), replay.rows.get(number)
        if expected is None:
            yield f"The result {number} belongs to no entry."
            continue
        entries, digest, entry = expected
        empty = bytes(drawing.ENTRY_BYTES * entries)
        # A row without a result must still be all zero: else a draw was written and not recorded.
        digest = digest or drawing.digest(empty)
        if row is None or len(row) != len(empty) or drawing.digest(row) != digest:
            yield f"The result of entry {entry} is not what was stored."
    names = set(connection.execute(sa.select(tables.plans.c.digest).distinct()).scalars())
    for name in sorted(names | replay.plans):
        try:
            drawing.load_plan(connection, name)
        except StorageError:
            yield f"The plan {name[:16]} is not what was booked."


def _sums(connection: sa.Connection, replay: Replay) -> Iterator[str]:
    """Yield accounts and windows with other balances than those of the bookings."""
    n_wrong: Counter[tuple[str, str]] = Counter()
    for row in connection.execute(sa.select(tables.balances)):
        unit = bytes(memoryview(row.unit))
        # A cancelled booking leaves a row of zero, which says the same as no row.
        booked = replay.balances[row.account, row.window].pop(unit, 0)
        is_right = row.spent == booked and (not booked or row.period == replay.periods[unit])
        n_wrong[row.account, row.window] += not is_right
    for place, missing in replay.balances.items():
        n_wrong[place] += sum(balance != 0 for balance in missing.values())
    for (account, window), count in sorted(n_wrong.items()):
        if count:
            when = "for ever" if window == events.LIFETIME else f"in {window}"
            yield (
                f"Balances of {account!r} {when} are not the sum of what was booked "
                f"({count:,} of them)."
            )
