"""Losses added to an account's balances, or taken back, within the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.ledger import accounts, odometer, windows
from hexveil.ledger.bookings import booked_losses, budget_error

if TYPE_CHECKING:
    import sqlalchemy as sa

    from hexveil.ledger.accounts import Account
    from hexveil.ledger.events import Event
    from hexveil.ledger.unit_losses import Losses


def pin_unit(connection: sa.Connection, account: Account, unit: str, id_space: str) -> Account:
    """Return the account with its privacy unit and id space pinned; "" where that is not known.

    Raises
    ------
    InputError
        If another unit or id space is pinned.
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
            f"id_space = {account.id_space!r} (in [read], or --id-space); else use another account."
        )
    if not account.unit or (id_space and not account.id_space):
        return accounts.set_unit(connection, account, unit, account.id_space or id_space)
    return account


def spend_losses(
    connection: sa.Connection, account: Account, losses: Losses, moment: str, *, is_repeated: bool
) -> None:
    """Add losses in the window and for the lifetime.

    Raises
    ------
    BudgetError
        If a unit would lose more than the budget allows; nothing is added.
    """
    window = windows.label(account.window, moment)
    # Read and added in one transaction under the write lock: no other booking comes between.
    balances = odometer.read_balances(connection, account.name, window, losses.hashes)
    if (balances + losses.pico_epsilons > account.pico_epsilons).any():
        raise budget_error(account, losses, balances, is_repeated=is_repeated)
    odometer.add(connection, account.name, window, losses, balances, account.pico_epsilons)
    # Recorded beside a window that is refilled: a spend also states the loss since the account
    # began.
    if window != windows.LIFETIME:
        lifetime = odometer.read_balances(connection, account.name, windows.LIFETIME, losses.hashes)
        odometer.add(connection, account.name, windows.LIFETIME, losses, lifetime, None)


def refund_losses(connection: sa.Connection, account: Account, reserved: Event) -> None:
    """Take the losses of a reservation back, for which nothing was drawn."""
    losses = booked_losses(reserved)
    # A set, for the window of a lifetime account is the lifetime itself. Only the account's own
    # window has a limit.
    for window in {reserved.body["window"], windows.LIFETIME}:
        line = account.pico_epsilons if window == reserved.body["window"] else None
        odometer.unbook(connection, account.name, window, losses, line)
