"""What each unit has spent: read, checked against the budget, added to.

Everything here runs inside a transaction that holds the book's one write lock (`engines`), so that
check and booking are one step over all units of a release.

Why the sum of a unit's losses is its loss. The noise of a release is drawn after its losses are
booked, with scales fixed by its plan, which depends on the public occupancy and at most on earlier
outputs. For any unit and two neighbouring sets of its values the ratio of the densities of all
outputs is the product of the ratios of each given those before, and each is at most exp(the unit's
loss in that release). So the whole is at most exp(the sum of the unit's booked losses), whatever
chose the plans: fully adaptive composition of pure ε-differential privacy, of which this running
sum is the odometer. No noise is drawn for a release that would bring a sum above the budget. What
touches no value of a unit costs it nothing, so the spend of a data set is the largest sum of a
unit, not the sum of the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from hexveil.base.errors import InputError
from hexveil.ledger.storage.tables import balances, totals
from hexveil.ledger.unit_losses import MOST
from hexveil.ledger.windows import LIFETIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hexveil.ledger.unit_losses import Losses

    Parts = NDArray[np.int64]

CHUNK = 10_000
"""Hashes of one question to the database."""
EVERY = "*"
"""The total over all periods."""
_BALANCES = f'{balances.name} (account, "window", unit, spent)'
_REPLACED = 'ON CONFLICT (account, "window", unit) DO UPDATE SET spent = excluded.spent'


@dataclass(frozen=True)
class Total:
    """What was spent in a window, in parts of 10^-12 epsilon.

    Attributes
    ----------
    largest : int
        Of any unit.
    units : int
        How many have spent anything.
    exhausted : int
        How many are at the budget.
    """

    largest: int = 0
    units: int = 0
    exhausted: int = 0


def spent(connection: sa.Connection, account: str, window: str, hashes: list[bytes]) -> Parts:
    """Return what units have spent in a window, 0 for those that are not in the book."""
    known: dict[bytes, int] = {}
    for start in range(0, len(hashes), CHUNK):
        asked = hashes[start : start + CHUNK]
        rows = _rows_of(connection, account, window, asked)
        known.update((bytes(unit), parts) for unit, parts in rows)
    return np.fromiter((known.get(one, 0) for one in hashes), np.int64, len(hashes))


def add(
    connection: sa.Connection,
    account: str,
    window: str,
    losses: Losses,
    before: Parts,
    budget: int | None,
) -> None:
    """Book losses (in parts) of units that had spent `before` in this window."""
    if (losses.parts > MOST - before).any():
        raise InputError(
            f"units of {account!r} have lost more than a ledger counts; begin a new account."
        )
    after = before + losses.parts
    _put_balances(connection, account, window, zip(losses.hashes, after.tolist(), strict=True))
    _put_total(connection, account, window, EVERY, before, after, budget)
    if window == LIFETIME and losses.periods != ("",):
        for number, period in enumerate(losses.periods):
            of = losses.period == number
            _put_total(connection, account, window, period, before[of], after[of], None)


def take_back(
    connection: sa.Connection, account: str, window: str, losses: Losses, budget: int | None
) -> None:
    """Undo the booking of losses for which nothing was drawn, and count the totals anew."""
    after = spent(connection, account, window, losses.hashes) - losses.parts
    _put_balances(connection, account, window, zip(losses.hashes, after.tolist(), strict=True))
    recount(connection, account, window, budget)


def recount(connection: sa.Connection, account: str, window: str, budget: int | None) -> None:
    """Set the total over all units of a window from its balances.

    Totals of single periods stay: after a booking was given back they are an upper bound.
    """
    of = (balances.c.account == account) & (balances.c.window == window)
    row = connection.execute(
        sa.select(
            sa.func.coalesce(sa.func.max(balances.c.spent), 0),
            sa.func.count(sa.case((balances.c.spent > 0, 1))),
            sa.func.count(sa.case((balances.c.spent >= _line(budget), 1))),
        ).where(of)
    ).one()
    _put(connection, account, window, EVERY, Total(*map(int, row)))


def total(connection: sa.Connection, account: str, window: str, period: str = EVERY) -> Total:
    """Return what was spent in a window, by units of one period or by all."""
    row = connection.execute(
        sa.select(totals.c.largest, totals.c.units, totals.c.exhausted).where(
            (totals.c.account == account)
            & (totals.c.window == window)
            & (totals.c.period == period)
        )
    ).first()
    return Total() if row is None else Total(*row)


def owners_lifetime(connection: sa.Connection, account: str) -> int:
    """Return the most that the owner of a unit in every period has lost, in parts.

    Where a unit is a user this is the largest balance; where it is a user-day or user-week, the
    sum over the periods of the largest balance in each.
    """
    of = (totals.c.account == account) & (totals.c.window == LIFETIME)
    periods = connection.execute(
        sa.select(sa.func.sum(totals.c.largest)).where(of & (totals.c.period != EVERY))
    ).scalar()
    return int(periods) if periods is not None else total(connection, account, LIFETIME).largest


def _put_balances(
    connection: sa.Connection, account: str, window: str, rows: Iterable[tuple[bytes, int]]
) -> None:
    values = list(rows)
    if not values:
        return
    if connection.dialect.name == "sqlite":
        put = f"INSERT INTO {_BALANCES} VALUES (?, ?, ?, ?) {_REPLACED}"
        connection.exec_driver_sql(put, [(account, window, *value) for value in values])
        return
    put = f"INSERT INTO {_BALANCES} SELECT %s, %s, * FROM unnest(%s::bytea[], %s::bigint[])"
    for start in range(0, len(values), CHUNK):
        units, parts = zip(*values[start : start + CHUNK], strict=True)
        each = (account, window, _array(units), f"{{{','.join(map(str, parts))}}}")
        connection.exec_driver_sql(f"{put} {_REPLACED}", each)


def _rows_of(
    connection: sa.Connection, account: str, window: str, asked: list[bytes]
) -> Iterable[Any]:
    """Return the balances of units.

    The database's own SQL: of a million parameters SQLAlchemy would treat each by itself. In
    PostgreSQL LIMIT asks for one look into the index per unit: a table that grew since it was
    last analysed would be read whole.
    """
    of = f'FROM {balances.name} WHERE account = {{0}} AND "window" = {{0}} AND unit'
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(asked))
        query = f"SELECT unit, spent {of.format('?')} IN ({marks})"
        return connection.exec_driver_sql(query, (account, window, *asked))
    each = f"LATERAL (SELECT spent {of.format('%s')} = asked.unit LIMIT 1) AS known"
    query = f"SELECT unit, spent FROM unnest(%s::bytea[]) AS asked(unit), {each}"
    return connection.exec_driver_sql(query, (_array(asked), account, window))


def _array(units: Iterable[bytes]) -> str:
    """Return hashes as PostgreSQL writes an array; the driver would take twice as long."""
    return "{" + ",".join(f'"\\\\x{unit.hex()}"' for unit in units) + "}"


def _put_total(
    connection: sa.Connection,
    account: str,
    window: str,
    period: str,
    before: Parts,
    after: Parts,
    budget: int | None,
) -> None:
    known = total(connection, account, window, period)
    line = _line(budget)
    more = Total(
        max(known.largest, int(after.max(initial=0))),
        known.units + int(((before == 0) & (after > 0)).sum()),
        known.exhausted + int(((before < line) & (after >= line)).sum()),
    )
    _put(connection, account, window, period, more)


def _put(connection: sa.Connection, account: str, window: str, period: str, what: Total) -> None:
    made = _insert(connection, totals)
    values = {"largest": what.largest, "units": what.units, "exhausted": what.exhausted}
    keys = [totals.c.account, totals.c.window, totals.c.period]
    put = made.values(account=account, window=window, period=period, **values)
    connection.execute(put.on_conflict_do_update(index_elements=keys, set_=values))


def _line(budget: int | None) -> int:
    """Return the balance at which a unit is exhausted; none is without a budget."""
    return 2**63 - 1 if budget is None else budget


def _insert(connection: sa.Connection, table: sa.Table) -> Any:  # noqa: ANN401  a dialect's own
    """Return the database's insert that can update what is there."""
    from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415  the one in use

    made: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    return made(table)
