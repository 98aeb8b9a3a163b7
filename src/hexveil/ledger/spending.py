"""Losses added to an account's balances, or taken back, within the caller's transaction.

Balances are whole multiples of 10^-12, so losses are rounded up, and three thirds would not fit a
budget of 1. Where only such roundings stand between a unit and its budget, its exact loss decides:
the sum of the exact bounds of its bookings, which reservations state as fractions. If that is
within the budget, the unit is charged what is left of it; the balance, now the budget, is still at
least the exact sum. A reservation says by how much it charged less than the rounded loss.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.ledger import accounts, events, odometer, windows
from hexveil.ledger.bookings import booked_losses, budget_error
from hexveil.ledger.journal import digest
from hexveil.ledger.unit_losses import PICO_EPSILON

if TYPE_CHECKING:
    import sqlalchemy as sa

    from hexveil.base.arrays import Ints
    from hexveil.ledger.accounts import Account
    from hexveil.ledger.events import Event
    from hexveil.ledger.unit_losses import Losses


def pin_unit(
    connection: sa.Connection, account: Account, unit: str, id_space: str, missing_values: str
) -> Account:
    """Return the account with the unit, its id space and missing-value codes pinned.

    Parameters
    ----------
    unit, id_space, missing_values : str
        As `Account` has them; "" where they are not known.

    Raises
    ------
    InputError
        If another unit, id space or list of codes is pinned.
    """
    if account.unit and account.unit != unit:
        raise InputError(
            f"the ledger's releases of {account.name!r} protect a {account.unit}, this one a "
            f"{unit}; losses of different units do not add up: use another account."
        )
    if account.id_space and id_space and account.id_space != id_space:
        raise InputError(
            f"the ledger's releases of {account.name!r} count ids of {account.id_space!r}, this "
            f"one ids of {id_space!r}, under which whoever spent the budget would look unspent; "
            f"read the ids of {account.id_space!r}, or, if both are ids of the same, say so by "
            f"id_space = {account.id_space!r} (in [read], or --set read.id_space); else use "
            "another account."
        )
    if account.missing_values and missing_values and account.missing_values != missing_values:
        raise InputError(
            f"the ledger's releases of {account.name!r} drop the missing-value codes "
            f"{account.missing_values}, this one {missing_values}: counts of dropped records tell "
            "exactly how many have such a value, so that an account takes one list. Select these "
            "drop_values (in [select], or --set select.drop_values), or use another account."
        )
    pinned = replace(
        account,
        unit=unit,
        id_space=account.id_space or id_space,
        missing_values=account.missing_values or missing_values,
    )
    return account if pinned == account else accounts.set_unit(connection, pinned)


def spend_losses(
    connection: sa.Connection, account: Account, losses: Losses, moment: str, *, is_repeated: bool
) -> Losses:
    """Add losses in the window and for the lifetime; return them as they were charged.

    Raises
    ------
    BudgetError
        If a unit would lose more than the budget allows; nothing is added.
    """
    window = windows.label(account.window, moment)
    # Read and added in one transaction under the write lock: no other booking comes between.
    balances = odometer.read_balances(connection, account.name, window, losses.hashes)
    if (balances + losses.pico_epsilons > account.pico_epsilons).any():
        fitted = _fitted(connection, account, losses, balances, window)
        if fitted is None:
            raise budget_error(account, losses, balances, is_repeated=is_repeated)
        losses = fitted
    odometer.add(connection, account.name, window, losses, balances, account.pico_epsilons)
    # Recorded beside a window that is refilled: a spend also states the loss since the account
    # began.
    if window != windows.LIFETIME:
        lifetime = odometer.read_balances(connection, account.name, windows.LIFETIME, losses.hashes)
        odometer.add(connection, account.name, windows.LIFETIME, losses, lifetime, None)
    return losses


def _fitted(
    connection: sa.Connection, account: Account, losses: Losses, balances: Ints, window: str
) -> Losses | None:
    """Return losses that fit exactly, charged with the rest; None if some do not fit."""
    pico_epsilons, budget = losses.pico_epsilons, account.pico_epsilons
    over = np.flatnonzero(balances + pico_epsilons > budget)
    # Each rounding adds less than one part: more of an excess is no matter of roundings.
    excess = int((balances + pico_epsilons)[over].max()) - budget
    if excess > events.read_head(connection).entry or (balances[over] >= budget).any():
        return None
    earlier = events.open_reservations(connection, account.name, window)
    places = {losses.hashes[row]: place for place, row in enumerate(over.tolist())}
    exact = [_exact_loss(int(pico_epsilons[row]), losses.limit, 0) for row in over.tolist()]
    for reserved in earlier:
        booked, body = booked_losses(reserved), reserved.body
        limit = Fraction(body["limit"]) if "limit" in body else None
        for unit, loss in zip(booked.hashes, booked.pico_epsilons.tolist(), strict=True):
            if unit in places:
                exact[places[unit]] += _exact_loss(loss, limit, body.get("spared", 0))
    # Of squares of μ the budget is itself rounded down.
    exact_budget = Fraction(budget, PICO_EPSILON) if account.delta else account.budget
    if max(exact) > exact_budget:
        return None
    charged = pico_epsilons.copy()
    charged[over] = budget - balances[over]
    return replace(losses, pico_epsilons=charged)


def _exact_loss(charged: int, limit: Fraction | None, spared: int) -> Fraction:
    """Return an exact bound on a unit's loss, from the rounded parts charged for it.

    Every loss is at most the limit, and the charge is less than the rounded loss by `spared` at
    most. Only a unit under two spellings of its id is charged more than the limit: for both.
    """
    top = 0 if limit is None else math.ceil(limit * PICO_EPSILON)
    if limit is not None and top - spared <= charged <= top:
        return limit
    return Fraction(charged + spared, PICO_EPSILON)


def exact_fields(losses: Losses, charged: Losses) -> dict[str, str | int]:
    """Return the fields of a reservation on exact losses: nothing where none was rounded."""
    fields: dict[str, str | int] = {}
    if losses.limit is not None and (losses.limit * PICO_EPSILON).denominator > 1:
        fields["limit"] = f"{losses.limit.numerator}/{losses.limit.denominator}"
    spared = int((losses.pico_epsilons - charged.pico_epsilons).max(initial=0))
    return fields | ({"spared": spared, "losses": digest(losses.to_bytes())} if spared else {})


def refund_losses(connection: sa.Connection, account: Account, reserved: Event) -> None:
    """Take the losses of a reservation back, for which nothing was drawn."""
    losses = booked_losses(reserved)
    # A set, for the window of a lifetime account is the lifetime itself. Only the account's own
    # window has a limit.
    for window in {reserved.body["window"], windows.LIFETIME}:
        line = account.pico_epsilons if window == reserved.body["window"] else None
        odometer.unbook(connection, account.name, window, losses, line)
