"""Bookings: what a request's events come to, and why one is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.base.errors import BudgetError, InputError, StorageError
from hexveil.base.rational import decimal_text
from hexveil.ledger import events, journal
from hexveil.ledger.unit_losses import PARTS, of_blob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import sqlalchemy as sa

    from hexveil.ledger import odometer
    from hexveil.ledger.accounts import Account
    from hexveil.ledger.events import Event
    from hexveil.ledger.unit_losses import Losses

MOST_LOST = 1
"""Bookings of a request that may be lost before it is not booked again by itself."""
NEXT_TO_NOTHING = Fraction(1, 100)
"""Part of a budget below which what is left is not worth a plan."""


@dataclass(frozen=True, repr=False)
class Booking:
    """A request in the book. Public facts only.

    Attributes
    ----------
    request : str
        Fingerprint of the public request.
    state : str
        "reserved", "marked" (a stage began), "measured" (its result is stored), "stored" (all
        results are), or "committed".
    cost : Fraction
        What its most exposed unit loses, in epsilon.
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


def reserved_of(history: Sequence[Event]) -> Event:
    """Return the last reservation of a request."""
    return next(one for one in reversed(history) if one.kind == "reserved")


def booking_of(connection: sa.Connection, history: tuple[Event, ...]) -> Booking | None:
    """Return what a request's events come to; None where nothing is booked."""
    state = events.state(history)
    if state not in ("reserved", "marked", "measured", "stored", "committed"):
        return None
    reserved = reserved_of(history)
    last = next((one for one in history if one.kind == "stored"), history[-1])
    results = journal.results(connection, history)
    return Booking(
        reserved.request,
        state,
        Fraction(int(reserved.body["parts"]), PARTS),
        reserved.body["facts"],
        reserved.body["plan"],
        {stage: tuple(result.tolist()) for stage, result in results.items()},
        last.entry,
        last.chain,
    )


def check_same(history: Sequence[Event], losses: Losses, plan: bytes) -> None:
    """Refuse to draw under a booking for other units, or of another plan."""
    reserved = reserved_of(history)
    booked = booked_losses(reserved)
    if booked.hashes != losses.hashes or (losses.parts > booked.parts).any():
        raise InputError(
            "this release was booked, and stopped, for other vehicles with the same counts; "
            "nothing was drawn for these. Release the records it was booked for, or declare a new "
            "version of them."
        )
    if reserved.body["plan"] != journal.digest(plan):
        raise InputError("this release was booked with another plan; nothing was drawn.")


def check_open(history: Sequence[Event]) -> None:
    """Refuse to book a request again that was given up, or whose draws were lost too often."""
    if events.state(tuple(history)) == "abandoned":
        raise InputError(
            "this release was abandoned after noise may have been drawn for it; what it cost stays "
            "spent. Declare a new version of the records, or give the plan an edition, to publish "
            "again."
        )
    lost = sum(one.kind == "lost" for one in history)
    if lost > MOST_LOST:
        raise InputError(
            f"noise was drawn for this release {lost} times and lost each time before it was "
            "stored; nothing of it was shown, and each booking stays spent. Find out what ends the "
            "process while it draws (often too little memory), then give the plan an edition to "
            "pay once more."
        )


def booked_losses(reserved: Event) -> Losses:
    """Return the losses that a reservation booked."""
    try:
        return of_blob(reserved.units or b"", reserved.body["periods"])
    except (KeyError, ValueError):
        raise StorageError(
            f"entry {reserved.entry} of the ledger is damaged; restore the ledger from a copy."
        ) from None


def _text(how: Callable[[Fraction], int], epsilon: Fraction) -> str:
    """Return ε as text of at most 12 places, rounded up or down."""
    return decimal_text(Fraction(how(epsilon * PARTS), PARTS))


def refusal(
    account: Account, losses: Losses, before: odometer.Parts, *, again: bool
) -> BudgetError:
    """Return the error that says what was asked, spent and left."""
    why = (
        "a draw of it was lost when its process ended, so it must be paid once more; "
        if again
        else ""
    )
    cost = Fraction(losses.largest, PARTS)
    most = Fraction(int(before.max()), PARTS)
    left = max(Fraction(int((account.parts - before).min()), PARTS), Fraction(0))
    over = int((before + losses.parts > account.parts).sum())
    spent_up = int((before >= account.parts).sum())
    this = "" if account.window == "lifetime" else f" this {account.window}"
    advice = f"Plan with at most {_text(math.floor, left)}, which all have left, or do not publish."
    if left < account.budget * NEXT_TO_NOTHING:
        advice = "Next to nothing is left to all: do not publish."
    if not left:
        advice = f"Units with nothing left can be in no further release{this}: do not publish."
    return BudgetError(
        f"{why}this release costs epsilon {_text(math.ceil, cost)}, but of the budget "
        f"{decimal_text(account.budget)} of {account.name!r} its units have spent up to "
        f"{_text(math.ceil, most)}{this}: {over:,} of {before.size:,} would get above it "
        f"({spent_up:,} with nothing left). {advice}",
        requested=cost,
        remaining=left,
    )
