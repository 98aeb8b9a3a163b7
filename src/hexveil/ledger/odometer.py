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

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.ledger.events import LIFETIME
from hexveil.ledger.tables import balances
from hexveil.ledger.unit_losses import MAX_PICO_EPSILON, Losses

HASHES_PER_QUERY = 10_000
"""Hashes per query, below SQLite's limit of 32,766 parameters."""
_READ = (
    f"SELECT unit, spent FROM {balances.name} "
    'WHERE account = {0} AND "window" = {0} AND unit IN ({1})'
)
_WRITE = (
    f'INSERT INTO {balances.name} (account, "window", unit, period, spent) '
    "VALUES ({0}, {0}, {0}, {0}, {0}) "
    'ON CONFLICT (account, "window", unit) DO UPDATE SET spent = excluded.spent'
)


@dataclass(frozen=True)
class Odometer:
    """Balances of an account's units in one window.

    Attributes
    ----------
    connection : Connection
    account, window : str
    """

    connection: sa.Connection
    account: str
    window: str

    def balances(self, hashes: list[bytes]) -> Ints:
        """Return the balances of units; 0 for units that the ledger does not know."""
        spent_by_unit: dict[bytes, int] = {}
        for start in range(0, len(hashes), HASHES_PER_QUERY):
            units = hashes[start : start + HASHES_PER_QUERY]
            query = _READ.format(self._mark, ", ".join([self._mark] * len(units)))
            rows = self.connection.exec_driver_sql(query, (self.account, self.window, *units))
            spent_by_unit.update((bytes(unit), spent) for unit, spent in rows)
        return np.fromiter((spent_by_unit.get(unit, 0) for unit in hashes), np.int64, len(hashes))

    def add(self, losses: Losses) -> None:
        """Book the losses of units."""
        old = self.balances(losses.hashes)
        # Compared without adding: the sum itself could leave 64 bits.
        if (losses.pico_epsilons > MAX_PICO_EPSILON - old).any():
            raise InputError(
                f"units of {self.account!r} have lost more than a ledger counts; begin a new "
                "account."
            )
        self._write(losses, old + losses.pico_epsilons)

    def take_back(self, losses: Losses) -> None:
        """Undo the booking of losses for which nothing was drawn."""
        # Balances of now: other releases may have been booked since the one that is undone.
        self._write(losses, self.balances(losses.hashes) - losses.pico_epsilons)

    def summary(self, budget: int) -> tuple[int, int, int]:
        """Return the largest balance, how many units have one, and how many are at the budget."""
        spent = balances.c.spent
        query = sa.select(
            sa.func.coalesce(sa.func.max(spent), 0),
            sa.func.count(sa.case((spent > 0, 1))),
            sa.func.count(sa.case((spent >= budget, 1))),
        ).where(balances.c.account == self.account, balances.c.window == self.window)
        largest, units, exhausted = self.connection.execute(query).one()
        return int(largest), int(units), int(exhausted)

    def _write(self, losses: Losses, spent: Ints) -> None:
        periods = (losses.periods[number] for number in losses.period.tolist())
        rows = zip(losses.hashes, periods, spent.tolist(), strict=True)
        if values := [(self.account, self.window, *row) for row in rows]:
            self.connection.exec_driver_sql(_WRITE.format(self._mark), values)

    @property
    def _mark(self) -> str:
        """Mark of a parameter in the driver's SQL: SQLAlchemy would treat each of a million."""
        return "?" if self.connection.dialect.name == "sqlite" else "%s"


def owner_lifetime_bound(connection: sa.Connection, account: str) -> int:
    """Return an upper bound of the loss of an owner of a unit in every period, in pico-epsilon.

    The sum over the periods of the largest balance in each; a unit that is a user has one period.
    """
    largest = sa.select(sa.func.max(balances.c.spent).label("loss")).where(
        balances.c.account == account, balances.c.window == LIFETIME
    )
    # The same owner may have had the largest loss in every period, so the sum is the bound.
    by_period = largest.group_by(balances.c.period).subquery()
    return int(connection.execute(sa.select(sa.func.sum(by_period.c.loss))).scalar() or 0)
