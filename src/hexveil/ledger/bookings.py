"""Bookings of requests: their state, derived from events, and reasons to refuse one.

Losses added to an account's balances, or taken back, within the caller's transaction.

Balances are whole multiples of 10^-12, so losses are rounded up, and three thirds would not fit a
budget of 1. Where only such roundings stand between a unit and its budget, its exact loss decides:
the sum of the exact bounds of its bookings, which reservations state as fractions. If that is
within the budget, the booking is made, and the balance exceeds the budget by roundings alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import sqlalchemy as sa

from hexveil.base.arrays import Ints
from hexveil.base.errors import BudgetError, InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.ledger import accounts, drawing, events
from hexveil.ledger.accounts import Account
from hexveil.ledger.events import Event
from hexveil.ledger.odometer import Odometer
from hexveil.ledger.promises import affordable_epsilon, booked_epsilon, shown_epsilon
from hexveil.ledger.unit_losses import PICO_EPSILON, Losses, losses_from_bytes

MAX_LOST_DRAWS = 1
"""Number of lost draws after which a request is no longer booked again automatically."""


@dataclass(frozen=True, repr=False)
class Booking:
    """A booked request. Public facts only.

    Attributes
    ----------
    request : str
        Fingerprint of the public request.
    state : str
        "reserved", "marked" (a stage began), "measured" (its result is stored), "stored" (all
        results are), or "committed".
    cost : Fraction
        Largest loss of a unit, in epsilon.
    facts : mapping of str to str
        The request in words.
    plan : str
        Digest of the plan that was booked.
    stages : mapping of str to tuple of int
        The noisy results of its private stages so far.
    entry, chain : int and str
        Number and hash of the event that stored the numbers, or of the last one before that.
    """

    request: str
    state: str
    cost: Fraction
    facts: Mapping[str, str]
    plan: str
    stages: Mapping[str, tuple[int, ...]]
    entry: int
    chain: str

    @property
    def complete(self) -> bool:
        """Whether all results are stored."""
        return self.state in ("stored", "committed")

    @property
    def published(self) -> Mapping[str, tuple[int, ...]] | None:
        """The noisy results, once all of them are stored."""
        return self.stages if self.complete else None

    def __repr__(self) -> str:
        return f"Booking({self.request[:16]!r}, {self.state!r}, cost={float(self.cost):.6g})"


def last_reservation(history: Sequence[Event]) -> Event:
    """Return the last reservation of a request."""
    return next(event for event in reversed(history) if event.kind == "reserved")


def to_booking(connection: sa.Connection, history: tuple[Event, ...]) -> Booking | None:
    """Return the booking that a request's events amount to; None if nothing is booked."""
    state = events.state(history)
    if state not in ("reserved", "marked", "measured", "stored", "committed"):
        return None
    reserved = last_reservation(history)
    # A receipt names the event that stored the numbers, so that it is the same after a later
    # commit.
    latest = next((event for event in history if event.kind == "stored"), history[-1])
    results = drawing.load_results(connection, history)
    return Booking(
        reserved.request,
        state,
        # The cost as booked, rounded up to a pico-epsilon: what the units really lost is at most
        # this.
        booked_epsilon(reserved.body),
        reserved.body["facts"],
        reserved.body["plan"],
        {stage: tuple(result.tolist()) for stage, result in results.items()},
        latest.entry,
        latest.chain,
    )


def check_same_booking(history: Sequence[Event], losses: Losses, plan: bytes) -> None:
    """Refuse to draw under a booking that was made for other units, or for another plan."""
    reserved = last_reservation(history)
    booked = booked_losses(reserved)
    # Unit by unit: an equal total could hide a unit that loses more than was booked for it.
    is_more = booked.hashes != losses.hashes or losses.pico_epsilons > booked.pico_epsilons
    if np.any(is_more):
        raise InputError(
            "this release was booked, and stopped, for other vehicles with the same counts; "
            "nothing was drawn for these. Release the records it was booked for, or declare a new "
            "version of them."
        )
    if reserved.body["plan"] != drawing.digest(plan):
        raise InputError("this release was booked with another plan; nothing was drawn.")


def check_rebookable(history: Sequence[Event]) -> None:
    """Refuse to book an abandoned request again, or one that lost too many draws."""
    if events.state(tuple(history)) == "abandoned":
        raise InputError(
            "this release was abandoned after noise may have been drawn for it; what it cost stays "
            "spent. Declare a new version of the records, or give the plan an edition, to publish "
            "again."
        )
    # A process that dies at the same step each time would spend the whole budget on nothing.
    n_lost = sum(event.kind == "lost" for event in history)
    if n_lost > MAX_LOST_DRAWS:
        raise InputError(
            f"noise was drawn for this release {n_lost} times and lost each time before it was "
            "stored; nothing of it was shown, and each booking stays spent. Find out what ends the "
            "process while it draws (often too little memory), then give the plan an edition to "
            "pay once more."
        )


def booked_losses(reserved: Event) -> Losses:
    """Return the losses that a reservation booked."""
    try:
        return losses_from_bytes(reserved.units or b"", reserved.body["periods"])
    except (KeyError, ValueError):
        raise StorageError(
            f"entry {reserved.entry} of the ledger is damaged; restore the ledger from a copy."
        ) from None


def _format_epsilon(rounding: Callable[[Fraction], int], epsilon: Fraction) -> str:
    """Return ε with three digits, rounded up or down."""
    unit = Fraction(1, 10 ** max(2 - math.floor(math.log10(epsilon or 1)), 0))
    # Losses are booked rounded up: three thirds are 1, not 1.01. What is left stays a lower bound.
    forgiven = Fraction(1, 10**8) if rounding is math.ceil else 0
    return decimal_text(rounding(epsilon / unit - forgiven) * unit)


def budget_error(
    account: Account, losses: Losses, balances: Ints, *, is_repeated: bool
) -> BudgetError:
    """Return the error that states the requested, the spent and the remaining budget."""
    cost = shown_epsilon(losses.largest, account.delta)
    largest = shown_epsilon(int(balances.max()), account.delta)
    # Over the units of this release alone: others do not limit it.
    remaining = affordable_epsilon(int((account.pico_epsilons - balances).min()), account.delta)
    over = int((balances + losses.pico_epsilons > account.pico_epsilons).sum())
    period = "" if account.window == "lifetime" else f" this {account.window}"
    # Rounded down: a plan with exactly this epsilon must be accepted.
    largest_fit = _format_epsilon(math.floor, remaining)
    within = f"Plan with at most {largest_fit}, which every unit has left"
    if 1000 * remaining < cost:
        within = "Some have nothing left, or almost nothing: publish records without them"
    prefix = "a draw of it was lost when its process ended, so it must be paid once more; "
    return BudgetError(
        f"{prefix if is_repeated else ''}{over:,} of {balances.size:,} units would exceed the "
        f"budget {account.budget_text} of {account.name!r}: this release costs epsilon "
        f"{_format_epsilon(math.ceil, cost)}, and units have spent up to "
        f"{_format_epsilon(math.ceil, largest)}{period}. {within}, or raise the budget with "
        "`hexveil ledger set-budget`.",
        requested=cost,
        remaining=remaining,
    )


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
    account.refuse_other_unit(unit, id_space, missing_values)
    pinned = replace(
        account,
        unit=unit,
        id_space=account.id_space or id_space,
        missing_values=account.missing_values or missing_values,
    )
    return account if pinned == account else accounts.change(connection, pinned, "unit")


def spend_losses(
    connection: sa.Connection, account: Account, losses: Losses, moment: str, *, is_repeated: bool
) -> None:
    """Add losses in the window and for the lifetime.

    Raises
    ------
    BudgetError
        If a unit would lose more than the budget allows; nothing is added.
    """
    window = events.window_of(account.window, moment)
    odometer = Odometer(connection, account.name, window)
    # Read and added in one transaction under the write lock: no other booking comes between.
    balances = odometer.balances(losses.hashes)
    over = np.flatnonzero(balances + losses.pico_epsilons > account.pico_epsilons)
    if over.size and not _fits_exactly(connection, account, losses, balances, over, window):
        raise budget_error(account, losses, balances, is_repeated=is_repeated)
    odometer.add(losses)
    # Recorded beside a window that is refilled: a spend also states the loss since the account
    # began.
    if window != events.LIFETIME:
        Odometer(connection, account.name, events.LIFETIME).add(losses)


def _fits_exactly(
    connection: sa.Connection,
    account: Account,
    losses: Losses,
    balances: Ints,
    over: Ints,
    window: str,
) -> bool:
    """Return whether only roundings bring the units at these places above the budget."""
    budget = account.pico_epsilons
    # Each rounding adds less than one part: more of an excess is no matter of roundings.
    excess = int((balances + losses.pico_epsilons)[over].max()) - budget
    if excess > events.read_head(connection).entry:
        return False
    exact = {
        losses.hashes[row]: _exact_loss(int(losses.pico_epsilons[row]), losses.limit)
        for row in over.tolist()
    }
    for reserved in events.open_reservations(connection, account.name, window):
        booked, limit = booked_losses(reserved), Fraction(reserved.body.get("limit", 0))
        for unit, loss in zip(booked.hashes, booked.pico_epsilons.tolist(), strict=True):
            if unit in exact:
                exact[unit] += _exact_loss(loss, limit)
    # Of squares of μ the budget is itself rounded down.
    return max(exact.values()) <= (
        Fraction(budget, PICO_EPSILON) if account.delta else account.budget
    )


def _exact_loss(charged: int, limit: Fraction | None) -> Fraction:
    """Return an exact bound on a unit's loss: the limit of its release, if the charge is that."""
    # Only a unit under two spellings of its id is charged more than the limit: for both.
    is_limit = limit is not None and charged == math.ceil(limit * PICO_EPSILON)
    return limit if is_limit and limit else Fraction(charged, PICO_EPSILON)


def limit_field(losses: Losses) -> dict[str, str]:
    """Return the field of a reservation on the exact limit of losses, if it was rounded."""
    limit = losses.limit
    if limit is None or (limit * PICO_EPSILON).denominator == 1:
        return {}
    return {"limit": f"{limit.numerator}/{limit.denominator}"}


def refund_losses(connection: sa.Connection, account: Account, reserved: Event) -> None:
    """Take the losses of a reservation back, for which nothing was drawn."""
    losses = booked_losses(reserved)
    # A set, for the window of a lifetime account is the lifetime itself.
    for window in {reserved.body["window"], events.LIFETIME}:
        Odometer(connection, account.name, window).take_back(losses)
