"""Bookings of requests: their state, derived from events, and reasons to refuse one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.base.errors import BudgetError, InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.ledger import events, journal
from hexveil.ledger.promises import affordable_epsilon, booked_epsilon, shown_epsilon
from hexveil.ledger.unit_losses import PICO_EPSILON, losses_from_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa

    from hexveil.base.arrays import Ints
    from hexveil.ledger.accounts import Account
    from hexveil.ledger.events import Event
    from hexveil.ledger.unit_losses import Losses

MAX_LOST_DRAWS = 1
"""Number of lost draws after which a request is no longer booked again automatically."""
NEGLIGIBLE_SHARE = Fraction(1, 100)
"""Share of a budget below which the remainder is not worth a plan."""


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
    results = journal.load_results(connection, history)
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
    spared = reserved.body.get("losses")
    # Charged less than the rounded losses, which are then compared as they were (`spending`).
    if booked.hashes != losses.hashes or (
        (losses.pico_epsilons > booked.pico_epsilons).any()
        if spared is None
        else journal.digest(losses.to_bytes()) != spared
    ):
        raise InputError(
            "this release was booked, and stopped, for other vehicles with the same counts; "
            "nothing was drawn for these. Release the records it was booked for, or declare a new "
            "version of them."
        )
    if reserved.body["plan"] != journal.digest(plan):
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
    """Return ε as text of at most 12 decimal places, rounded up or down."""
    return decimal_text(Fraction(rounding(epsilon * PICO_EPSILON), PICO_EPSILON))


def budget_error(
    account: Account, losses: Losses, balances: Ints, *, is_repeated: bool
) -> BudgetError:
    """Return the error that states the requested, the spent and the remaining budget."""
    prefix = (
        "a draw of it was lost when its process ended, so it must be paid once more; "
        if is_repeated
        else ""
    )
    cost = shown_epsilon(losses.largest, account.delta)
    largest = shown_epsilon(int(balances.max()), account.delta)
    # Over the units of this release alone: others do not limit it.
    smallest_rest = int((account.pico_epsilons - balances).min())
    remaining = affordable_epsilon(smallest_rest, account.delta)
    over = int((balances + losses.pico_epsilons > account.pico_epsilons).sum())
    exhausted = int((balances >= account.pico_epsilons).sum())
    period = "" if account.window == "lifetime" else f" this {account.window}"
    advice = (
        # Rounded down: a plan with exactly this epsilon must be accepted.
        f"Plan with at most {_format_epsilon(math.floor, remaining)}, which every unit has left, "
        "or raise the budget with `hexveil ledger set-budget`."
    )
    if remaining < account.budget * NEGLIGIBLE_SHARE:
        advice = (
            "Almost nothing is left for every unit: raise the budget with `hexveil ledger "
            "set-budget`, or publish other records."
        )
    # Last, since it is also below the negligible share, and has another remedy.
    if not remaining:
        advice = (
            f"Units without any budget left cannot be in a further release{period}: raise the "
            "budget with `hexveil ledger set-budget`, or publish other records."
        )
    return BudgetError(
        f"{prefix}{over:,} of {balances.size:,} units would exceed the budget "
        f"{account.limit.text} of {account.name!r}: this release costs epsilon "
        f"{_format_epsilon(math.ceil, cost)}, and units have spent up to "
        f"{_format_epsilon(math.ceil, largest)}{period} ({exhausted:,} have nothing left). "
        f"{advice}",
        requested=cost,
        remaining=remaining,
    )
