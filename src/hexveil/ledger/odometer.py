"""Odometer: the loss of each unit so far, checked against its budget.

Everything here runs inside a transaction that holds the ledger's one write lock, so that a
check and its booking are one step over all units of a release.

Why the sum of a unit's losses is its loss. The noise of a release is drawn after its losses are
booked, with scales fixed by its plan, which depends on the public occupancy and at most on earlier
outputs. For any unit and two neighbouring sets of its values the ratio of the densities of all
outputs is the product of the ratios of each given those before, and each is at most exp(the unit's
loss in that release). So the whole is at most exp(the sum of the unit's booked losses), whatever
chose the plans: fully adaptive composition of pure ε-differential privacy, of which this running
sum is the odometer. No noise is drawn for a release that would bring a sum above the budget. A
release that touches no value of a unit costs it nothing, so the spend of a data set is the largest
sum of a unit, not the sum of the largest losses. In an account with a δ the sums are of squares of
μ, for which the same holds (`accounting.gaussian_composition`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.ledger.events import LIFETIME
from hexveil.ledger.tables import balances, totals
from hexveil.ledger.unit_losses import MAX_PICO_EPSILON, Losses

HASHES_PER_QUERY = 10_000
"""Hashes per query, below SQLite's limit of 32,766 parameters."""
ALL_PERIODS = "*"
"""Period of the summary over all periods."""
_READ = (
    f"SELECT unit, spent FROM {balances.name} "
    'WHERE account = {0} AND "window" = {0} AND unit IN ({1})'
)
_WRITE = (
    f'INSERT INTO {balances.name} (account, "window", unit, spent) '
    "VALUES ({0}, {0}, {0}, {0}) "
    'ON CONFLICT (account, "window", unit) DO UPDATE SET spent = excluded.spent'
)


@dataclass(frozen=True)
class WindowSummary:
    """Balances of a window in summary, in pico-epsilon.

    Attributes
    ----------
    largest : int
        Largest balance of a unit.
    units : int
        Number of units with a balance above zero.
    exhausted : int
        Number of units at the budget.
    """

    largest: int = 0
    units: int = 0
    exhausted: int = 0


@dataclass(frozen=True)
class Odometer:
    """Balances of an account's units in one window.

    Attributes
    ----------
    connection : Connection
    account, window : str
    budget : int or None
        Balance at which a unit is exhausted, if the window has one.
    """

    connection: sa.Connection
    account: str
    window: str
    budget: int | None = None

    def balances(self, hashes: list[bytes]) -> Ints:
        """Return the balances of units; 0 for units that the ledger does not know."""
        known: dict[bytes, int] = {}
        for start in range(0, len(hashes), HASHES_PER_QUERY):
            units = hashes[start : start + HASHES_PER_QUERY]
            query = _READ.format(self._mark, ", ".join([self._mark] * len(units)))
            rows = self.connection.exec_driver_sql(query, (self.account, self.window, *units))
            known.update((bytes(unit), spent) for unit, spent in rows)
        return np.fromiter((known.get(unit, 0) for unit in hashes), np.int64, len(hashes))

    def add(self, losses: Losses, old_balances: Ints) -> None:
        """Book losses of units with these balances."""
        # Compared without adding: the sum itself could leave 64 bits.
        if (losses.pico_epsilons > MAX_PICO_EPSILON - old_balances).any():
            raise InputError(
                f"units of {self.account!r} have lost more than a ledger counts; begin a new "
                "account."
            )
        new_balances = old_balances + losses.pico_epsilons
        self._write(losses.hashes, new_balances)
        self._raise_summary(ALL_PERIODS, old_balances, new_balances)
        # Summaries per period bound the loss of an owner of many unit-days: see
        # `owner_lifetime_bound`.
        if self.window == LIFETIME and losses.periods != ("",):
            for number, period in enumerate(losses.periods):
                inside = losses.period == number
                self._raise_summary(period, old_balances[inside], new_balances[inside])

    def take_back(self, losses: Losses) -> None:
        """Undo the booking of losses for which nothing was drawn; recompute the summary."""
        # Balances of now: other releases may have been booked since the one that is undone.
        self._write(losses.hashes, self.balances(losses.hashes) - losses.pico_epsilons)
        self.recompute_summary()

    def recompute_summary(self) -> None:
        """Recompute the summary over all units from their balances.

        Summaries of single periods stay: after a cancelled booking they are upper bounds.
        """
        spent = balances.c.spent
        query = sa.select(
            sa.func.coalesce(sa.func.max(spent), 0),
            sa.func.count(sa.case((spent > 0, 1))),
            sa.func.count(sa.case((spent >= self._level, 1))),
        ).where(balances.c.account == self.account, balances.c.window == self.window)
        summary = WindowSummary(*map(int, self.connection.execute(query).one()))
        self._write_summary(ALL_PERIODS, summary)

    def summary(self, period: str = ALL_PERIODS) -> WindowSummary:
        """Return the summary over the units of one period, or over all."""
        query = sa.select(totals.c.largest, totals.c.units, totals.c.exhausted).where(
            totals.c.account == self.account,
            totals.c.window == self.window,
            totals.c.period == period,
        )
        row = self.connection.execute(query).first()
        return WindowSummary() if row is None else WindowSummary(*row)

    @property
    def _level(self) -> int:
        """Balance at which a unit is exhausted; unreachable without a budget."""
        return 2**63 - 1 if self.budget is None else self.budget

    def _write(self, hashes: list[bytes], spent: Ints) -> None:
        rows = zip(hashes, spent.tolist(), strict=True)
        if values := [(self.account, self.window, *row) for row in rows]:
            self.connection.exec_driver_sql(_WRITE.format(self._mark), values)

    @property
    def _mark(self) -> str:
        """Mark of a parameter in the driver's SQL: SQLAlchemy would treat each of a million."""
        return "?" if self.connection.dialect.name == "sqlite" else "%s"

    def _raise_summary(self, period: str, old: Ints, new: Ints) -> None:
        """Add grown balances to a summary; one period's has no budget."""
        before, level = self.summary(period), self._level if period == ALL_PERIODS else 2**63 - 1
        updated = WindowSummary(
            max(before.largest, int(new.max(initial=0))),
            before.units + int(((old == 0) & (new > 0)).sum()),
            before.exhausted + int(((old < level) & (new >= level)).sum()),
        )
        self._write_summary(period, updated)

    def _write_summary(self, period: str, summary: WindowSummary) -> None:
        is_server = self.connection.dialect.name == "postgresql"
        # The database's own INSERT, which can update existing rows.
        insert: Any = postgresql.insert if is_server else sqlite.insert
        keys = {"account": self.account, "window": self.window, "period": period}
        upsert = insert(totals).values(**keys, **asdict(summary))
        self.connection.execute(
            upsert.on_conflict_do_update(index_elements=[*keys], set_=asdict(summary))
        )


def owner_lifetime_bound(connection: sa.Connection, account: str) -> int:
    """Return an upper bound of the loss of an owner of a unit in every period, in pico-epsilon.

    Where a unit is a user this is the largest balance; where it is a user-day or user-week, the
    sum over the periods of the largest balance in each.
    """
    query = sa.select(sa.func.sum(totals.c.largest)).where(
        totals.c.account == account, totals.c.window == LIFETIME, totals.c.period != ALL_PERIODS
    )
    # The same owner may have had the largest loss in every period, so the sum is the bound.
    periods = connection.execute(query).scalar()
    lifetime = Odometer(connection, account, LIFETIME)
    return lifetime.summary().largest if periods is None else int(periods)
