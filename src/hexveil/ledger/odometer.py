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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.ledger.events import LIFETIME
from hexveil.ledger.tables import balances, totals
from hexveil.ledger.unit_losses import MAX_PICO_EPSILON, Losses

HASHES_PER_QUERY = 10_000
"""Hashes per query, below SQLite's limit of 32,766 parameters."""
ALL_PERIODS = "*"
"""Period of the summary over all periods."""
_BALANCE_COLUMNS = f'{balances.name} (account, "window", unit, spent)'
_UPSERT = 'ON CONFLICT (account, "window", unit) DO UPDATE SET spent = excluded.spent'


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


def read_balances(
    connection: sa.Connection, account: str, window: str, hashes: list[bytes]
) -> Ints:
    """Return the balances of units in a window; 0 for units that the ledger does not know."""
    balances: dict[bytes, int] = {}
    for start in range(0, len(hashes), HASHES_PER_QUERY):
        chunk = hashes[start : start + HASHES_PER_QUERY]
        rows = _balance_rows(connection, account, window, chunk)
        balances.update((bytes(unit), spent) for unit, spent in rows)
    return np.fromiter((balances.get(unit, 0) for unit in hashes), np.int64, len(hashes))


def add(
    connection: sa.Connection,
    account: str,
    window: str,
    losses: Losses,
    old_balances: Ints,
    budget: int | None,
) -> None:
    """Book losses of units with these balances in a window."""
    # Compared without adding: the sum itself could leave 64 bits.
    if (losses.pico_epsilons > MAX_PICO_EPSILON - old_balances).any():
        raise InputError(
            f"units of {account!r} have lost more than a ledger counts; begin a new account."
        )
    new_balances = old_balances + losses.pico_epsilons
    _write_balances(
        connection, account, window, zip(losses.hashes, new_balances.tolist(), strict=True)
    )
    _update_summary(connection, account, window, ALL_PERIODS, old_balances, new_balances, budget)
    # Summaries per period bound the loss of an owner of many unit-days: see `owner_lifetime_bound`.
    if window == LIFETIME and losses.periods != ("",):
        for number, period in enumerate(losses.periods):
            in_period = losses.period == number
            _update_summary(
                connection,
                account,
                window,
                period,
                old_balances[in_period],
                new_balances[in_period],
                None,
            )


def unbook(
    connection: sa.Connection, account: str, window: str, losses: Losses, budget: int | None
) -> None:
    """Undo the booking of losses for which nothing was drawn; recompute the summary."""
    # Balances of now: other releases may have been booked since the one that is undone.
    new_balances = read_balances(connection, account, window, losses.hashes) - losses.pico_epsilons
    _write_balances(
        connection, account, window, zip(losses.hashes, new_balances.tolist(), strict=True)
    )
    recompute_summary(connection, account, window, budget)


def recompute_summary(
    connection: sa.Connection, account: str, window: str, budget: int | None
) -> None:
    """Recompute the summary over all units of a window from its balances.

    Summaries of single periods stay: after a cancelled booking they are upper bounds.
    """
    in_window = (balances.c.account == account) & (balances.c.window == window)
    row = connection.execute(
        sa.select(
            sa.func.coalesce(sa.func.max(balances.c.spent), 0),
            sa.func.count(sa.case((balances.c.spent > 0, 1))),
            sa.func.count(sa.case((balances.c.spent >= _exhaustion_level(budget), 1))),
        ).where(in_window)
    ).one()
    _write_summary(connection, account, window, ALL_PERIODS, WindowSummary(*map(int, row)))


def window_summary(
    connection: sa.Connection, account: str, window: str, period: str = ALL_PERIODS
) -> WindowSummary:
    """Return the summary of a window, over the units of one period or over all."""
    row = connection.execute(
        sa.select(totals.c.largest, totals.c.units, totals.c.exhausted).where(
            (totals.c.account == account)
            & (totals.c.window == window)
            & (totals.c.period == period)
        )
    ).first()
    return WindowSummary() if row is None else WindowSummary(*row)


def owner_lifetime_bound(connection: sa.Connection, account: str) -> int:
    """Return an upper bound of the loss of an owner of a unit in every period, in pico-epsilon.

    Where a unit is a user this is the largest balance; where it is a user-day or user-week, the
    sum over the periods of the largest balance in each.
    """
    in_window = (totals.c.account == account) & (totals.c.window == LIFETIME)
    periods = connection.execute(
        sa.select(sa.func.sum(totals.c.largest)).where(in_window & (totals.c.period != ALL_PERIODS))
    ).scalar()
    return (
        # The same owner may have had the largest loss in every period, so the sum is the bound.
        int(periods)
        if periods is not None
        else window_summary(connection, account, LIFETIME).largest
    )


def _write_balances(
    connection: sa.Connection, account: str, window: str, rows: Iterable[tuple[bytes, int]]
) -> None:
    values = list(rows)
    if not values:
        return
    if connection.dialect.name == "sqlite":
        put = f"INSERT INTO {_BALANCE_COLUMNS} VALUES (?, ?, ?, ?) {_UPSERT}"
        connection.exec_driver_sql(put, [(account, window, *value) for value in values])
        return
    # One statement with two arrays: a statement per row would take a round trip each.
    put = f"INSERT INTO {_BALANCE_COLUMNS} SELECT %s, %s, * FROM unnest(%s::bytea[], %s::bigint[])"
    for start in range(0, len(values), HASHES_PER_QUERY):
        units, spent = zip(*values[start : start + HASHES_PER_QUERY], strict=True)
        parameters = (account, window, _array(units), f"{{{','.join(map(str, spent))}}}")
        connection.exec_driver_sql(f"{put} {_UPSERT}", parameters)


def _balance_rows(
    connection: sa.Connection, account: str, window: str, hashes: list[bytes]
) -> Iterable[Any]:
    """Return the balances of units.

    The database's own SQL: of a million parameters SQLAlchemy would treat each by itself. In
    PostgreSQL LIMIT asks for one look into the index per unit: a table that grew since it was
    last analysed would be read whole.
    """
    source = f'FROM {balances.name} WHERE account = {{0}} AND "window" = {{0}} AND unit'
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(hashes))
        query = f"SELECT unit, spent {source.format('?')} IN ({marks})"
        return connection.exec_driver_sql(query, (account, window, *hashes))
    lookup = f"LATERAL (SELECT spent {source.format('%s')} = asked.unit LIMIT 1) AS known"
    query = f"SELECT unit, spent FROM unnest(%s::bytea[]) AS asked(unit), {lookup}"
    return connection.exec_driver_sql(query, (_array(hashes), account, window))


def _array(units: Iterable[bytes]) -> str:
    """Return hashes as PostgreSQL writes an array; the driver would take twice as long."""
    return "{" + ",".join(f'"\\\\x{unit.hex()}"' for unit in units) + "}"


def _update_summary(
    connection: sa.Connection,
    account: str,
    window: str,
    period: str,
    old_balances: Ints,
    new_balances: Ints,
    budget: int | None,
) -> None:
    summary = window_summary(connection, account, window, period)
    line = _exhaustion_level(budget)
    updated = WindowSummary(
        # Balances only grow here; `unbook` recomputes the summary from all of them.
        max(summary.largest, int(new_balances.max(initial=0))),
        summary.units + int(((old_balances == 0) & (new_balances > 0)).sum()),
        summary.exhausted + int(((old_balances < line) & (new_balances >= line)).sum()),
    )
    _write_summary(connection, account, window, period, updated)


def _write_summary(
    connection: sa.Connection, account: str, window: str, period: str, summary: WindowSummary
) -> None:
    insert = _insert(connection, totals)
    values = {"largest": summary.largest, "units": summary.units, "exhausted": summary.exhausted}
    keys = [totals.c.account, totals.c.window, totals.c.period]
    upsert = insert.values(account=account, window=window, period=period, **values)
    connection.execute(upsert.on_conflict_do_update(index_elements=keys, set_=values))


def _exhaustion_level(budget: int | None) -> int:
    """Return the balance at which a unit is exhausted; unreachable without a budget."""
    return 2**63 - 1 if budget is None else budget


def _insert(connection: sa.Connection, table: sa.Table) -> Any:  # noqa: ANN401  a dialect's own
    """Return the database's own INSERT, which can update existing rows."""
    from sqlalchemy.dialects import postgresql, sqlite  # noqa: PLC0415  the one in use

    insert: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    return insert(table)
