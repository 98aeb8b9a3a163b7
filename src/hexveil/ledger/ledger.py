"""The book: what has been spent, unit by unit, durable before anything is published.

A release goes through it in steps, each committed before the next begins:

    reserve      the losses of its units are booked, or refused; the plan is kept with them
    begin_draw   of each private stage: its noise may have been drawn from here on, and the booking
                 is spent for good
    store        the stage's noisy result; the next stage is computed after that
    complete     all results are there; they are the only ones ever shown
    commit       the release's folder is where it belongs

A reservation of which no stage began may be given back. After a crash between two stages the same
booking goes on from the results that are stored. A stage that began and has no result may have been
drawn: nothing of it was seen, and nothing is drawn a second time under one booking. So its booking
is lost: it stays spent, and the same request is booked once more. Noise, true sums and random
states never enter the book.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.errors import BudgetError, InputError, StorageError
from hexveil.exact import Number, decimal_text, positive
from hexveil.ledger import accounts, drawing, events, journal, odometer, room, soundness, windows
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.engines import MEMORY, connect, transaction, where
from hexveil.ledger.units import PARTS, Key, make_key, of_blob, read_key
from hexveil.ledger.verifying import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    import sqlalchemy as sa
    from numpy.typing import NDArray

    from hexveil.ledger.events import Event
    from hexveil.ledger.units import Losses
    from hexveil.ledger.verifying import Verdict

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


class Ledger:
    """The book of one data set's releases.

    Parameters
    ----------
    url : str or Path
        An SQLite file by its path or URL, or a PostgreSQL database as
        "postgresql://user@host/name".
    dataset : str
        Name under which this data set's releases stand.
    budget : int, str, Decimal, Fraction or float, optional
        The most that all releases of a window may cost one unit, in epsilon. Needed the first
        time; later it must be what the book says, which `set_budget` alone changes.
    key : str or Path, optional
        File of the holder's key, under which ids are hashed. Beside an SQLite file it is made the
        first time (the file's name with .key added).
    window : "lifetime", "month" or "day", optional
        When the budget is refilled; a lifetime by default.
    account : str, optional
        Name of the budget, where several data sets of one population share it; the data set's own
        by default.

    Raises
    ------
    InputError
        On a name that is empty, a budget that is not positive, an address that is no ledger's, or
        an argument that is not what the book pins.
    StorageError
        If the database cannot be used.
    """

    def __init__(
        self,
        url: str | Path,
        *,
        dataset: str,
        budget: Number | None = None,
        key: str | Path | None = None,
        window: str | None = None,
        account: str | None = None,
    ) -> None:
        for name, text in (
            ("dataset", dataset),
            ("account", dataset if account is None else account),
        ):
            if not (isinstance(text, str) and text.strip()):
                raise InputError(f"{name} must be a name, under which releases add up.")
        asked = None if budget is None else positive(budget, "budget")
        checked = None if window is None else windows.check(window)
        self.dataset = dataset
        self._engine = connect(url)
        self._room: dict[int, room.Room | None] = {}  # of draws that began, by their entries
        with transaction(self._engine) as connection:
            known = accounts.find(connection, dataset)
            self._key = self._key_of(
                url, key, new=known is None and not events.head(connection).entry
            )
            if known is None:
                known = self._opened(connection, asked, checked, account)
            self._check_same(known, asked, checked, account)
        self._account = known.name

    def _opened(
        self,
        connection: sa.Connection,
        budget: Fraction | None,
        window: str | None,
        name: str | None,
    ) -> Account:
        """Return the account of a data set that the book does not know yet."""
        named = accounts.named(connection, name or self.dataset)
        if named is None and budget is None:
            raise InputError(
                f"the ledger does not know {self.dataset!r} yet: say its budget, the most that all "
                "of its releases may cost one unit, in epsilon."
            )
        account = named or Account(
            name or self.dataset,
            "",
            window or "lifetime",
            budget or Fraction(0),
            self._key.fingerprint,
        )
        accounts.check_key(account, self._key)
        return accounts.open_account(connection, account, self.dataset)

    def _check_same(
        self, known: Account, budget: Fraction | None, window: str | None, name: str | None
    ) -> None:
        """Refuse arguments that are not what the book pins."""
        accounts.check_key(known, self._key)
        if name is not None and name != known.name:
            raise InputError(
                f"{self.dataset!r} spends from the account {known.name!r} of this ledger, and not "
                f"from {name!r}; it cannot change."
            )
        if budget is not None and budget != known.budget:
            raise InputError(
                f"the ledger's budget of {known.name!r} is {decimal_text(known.budget)}, and not "
                f"{decimal_text(budget)}; hexveil ledger set-budget changes it, and is on record."
            )
        if window is not None and window != known.window:
            raise InputError(
                f"the ledger's budget of {known.name!r} is for a {known.window}, and not for a "
                f"{window}; that cannot change: begin a new account."
            )

    def _key_of(self, url: str | Path, key: str | Path | None, *, new: bool) -> Key:
        """Return the holder's key; made where the book is new and none is there."""
        self._key_file: Path | None = None
        if str(url) == MEMORY and key is None:
            return Key(b"forgotten with the book it is of")
        if key is None and self._engine.dialect.name != "sqlite":
            raise InputError(
                "a ledger on a server needs the file of the holder's key: key (in [ledger], or "
                "--key)."
            )
        file = (Path(key) if key is not None else Path(f"{self.where}.key")).absolute()
        self._key_file = file
        return make_key(file) if new and not file.exists() else read_key(file)

    def __repr__(self) -> str:
        return f"Ledger(dataset={self.dataset!r}, account={self._account!r})"

    @property
    def key(self) -> Key:
        """The holder's key; its repr shows a fingerprint."""
        return self._key

    @property
    def key_file(self) -> Path | None:
        """Where the key is; None for a book in memory that made its own."""
        return self._key_file

    @property
    def where(self) -> str:
        """The file, or the server's address without a password."""
        return where(self._engine)

    @property
    def account(self) -> Account:
        """What the book pins: budget, window, unit."""
        with transaction(self._engine) as connection:
            return self._known(connection)

    @property
    def budget(self) -> Fraction:
        """The most that a unit may lose in a window, in epsilon."""
        return self.account.budget

    @property
    def spent(self) -> Fraction:
        """What the most exposed unit has lost in this window, in epsilon."""
        return self.spend().window

    @property
    def remaining(self) -> Fraction:
        """What every unit may still lose in this window, in epsilon; never below zero."""
        return self.spend().left

    def spend(self) -> Spend:
        """Return what has been spent, in this window and ever."""
        with transaction(self._engine) as connection:
            return accounts.spend(connection, self._known(connection))

    def set_budget(self, budget: Number) -> None:
        """Change the budget; the change stands in the book."""
        asked = positive(budget, "budget")
        with transaction(self._engine) as connection:
            accounts.set_budget(connection, self._known(connection), asked)

    def find(self, request: str) -> Booking | None:
        """Return the booking of a request, or None if there is none."""
        with transaction(self._engine) as connection:
            return _booking(connection, events.of_request(connection, self.dataset, request))

    def plan_of(self, request: str) -> bytes | None:
        """Return the plan that was first booked for a request, or None if none was.

        A booking that was given back drew nothing, and binds nobody to its plan.
        """
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            if events.state(history) in ("", "returned"):
                return None
            return journal.plan(connection, _reserved(history).body["plan"])

    def drawing(self) -> AbstractContextManager[None]:
        """Return the lock under which one process books and draws, for as long as it is held."""
        return drawing.alone(self._engine)

    def reserve(
        self, request: str, losses: Losses, *, unit: str, facts: Mapping[str, str], plan: bytes
    ) -> Booking:
        """Return the booking of a request, made now unless it was made before.

        When this returns, the booking is durable. One that was made before costs nothing again,
        unless a draw of it was lost: call it under `drawing`, so that the draw is not under way.

        Raises
        ------
        BudgetError
            If a unit would lose more than the budget allows; nothing is booked.
        InputError
            If earlier releases of the account promise another unit of privacy, the request was
            abandoned or lost too often, or it is booked without numbers for other units or by
            another plan: then noise would be drawn for units that were not charged.
        """
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            if not events.is_complete(history):
                soundness.check(connection, self.dataset, request, history)
            if events.state(history) == "marked":
                history = (*history, self._add(connection, "lost", request, history[-1].account))
            known = _booking(connection, history)
            if known is not None:
                if not known.complete:
                    _check_same(history, losses, plan)
                return known
            _check_open(history)
            account = self._with_unit(connection, unit)
            at = windows.now(events.head(connection).at)
            self._spend(connection, account, losses, at, again=bool(history))
            made = events.add(
                connection,
                "reserved",
                account=account.name,
                dataset=self.dataset,
                request=request,
                body={
                    "facts": dict(facts),
                    "parts": losses.largest,
                    "periods": list(losses.periods),
                    "plan": journal.keep_plan(connection, plan),
                    "window": windows.label(account.window, at),
                },
                units=losses.blob(),
                at=at,
            )
            booked = _booking(connection, (*history, made))
        assert booked is not None  # noqa: S101  it was added
        return booked

    def begin_draw(self, request: str, stage: str, entries: int) -> int:
        """Note that noise may be drawn for a stage, and make room for its result.

        The booking is spent for good from here on. Returns the number of the entry, which `store`
        needs.

        Raises
        ------
        StorageError
            If the result could not be stored: there is no room for it.
        """
        held = room.hold(self._engine, entries)
        try:
            with transaction(self._engine) as connection:
                history = events.of_request(connection, self.dataset, request)
                events.check_next(history, "marked")
                if stage in journal.results(connection, history):
                    raise InputError(f"the stage {stage!r} of this release was drawn before.")
                body = {"stage": stage, "entries": entries}
                made = self._add(connection, "marked", request, history[-1].account, body)
                journal.begin(connection, made.entry, entries)
            self._room[made.entry], held = held, None
        finally:
            if held is not None:
                held.close()
        return made.entry

    def store(self, request: str, entry: int, result: NDArray[np.int64]) -> None:
        """Store the noisy result of the stage that began with an entry, durably.

        Raises
        ------
        StorageError
            If another process went on with the request meanwhile: this result is forgotten.
        InputError
            If the request is not in the ledger: another file is in its place.
        """
        self.free_room(entry)
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            if not history:
                events.check_next(history, "measured")
            marked = history[-1]
            if marked.kind != "marked" or marked.entry != entry:
                raise StorageError(
                    "another process went on with this release while noise was drawn here; what "
                    "was drawn here is forgotten. Ask again for the numbers that are stored."
                )
            body = {
                "stage": marked.body["stage"],
                "row": entry,
                "digest": journal.fill(connection, marked, result),
            }
            self._add(connection, "measured", request, marked.account, body)

    def free_room(self, entry: int) -> None:
        """Give up the room that is held for a draw's result, if it is."""
        held = self._room.pop(entry, None)
        if held is not None:
            held.close()

    def complete(self, request: str) -> None:
        """Note that the results of all stages are stored: from here on they may be shown."""
        self._step(request, "stored", done=("stored", "committed"))

    def commit(self, request: str) -> None:
        """Note that a release stands where it belongs."""
        self._step(request, "committed", done=("committed",))

    def give_back(self, request: str) -> None:
        """Undo a reservation for which no noise can have been drawn.

        Raises
        ------
        InputError
            If a stage began: then it is spent for good.
        """
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            events.check_next(history, "returned")
            account, reserved = self._known(connection), history[-1]
            losses = _losses(reserved)
            for window in {reserved.body["window"], windows.LIFETIME}:
                line = account.parts if window == reserved.body["window"] else None
                odometer.take_back(connection, account.name, window, losses, line)
            events.add(
                connection, "returned", account=account.name, dataset=self.dataset, request=request
            )

    def abandon(self, request: str) -> None:
        """Give up a release of which a stage began; what it cost stays spent."""
        self._step(request, "abandoned", done=("abandoned",))

    def entries(self) -> tuple[Booking, ...]:
        """Return the data set's bookings, oldest first."""
        with transaction(self._engine) as connection:
            rows = events.of_dataset(connection, self.dataset)
            found = [_booking(connection, history) for history in rows.values()]
        return tuple(booking for booking in found if booking is not None)

    def verify(self) -> Verdict:
        """Return whether the whole book hangs together, of all data sets in it."""
        return verify(self._engine)

    def _step(self, request: str, kind: events.Kind, *, done: tuple[str, ...]) -> None:
        """Add an event of a request unless it has happened."""
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            if events.state(history) in done:
                return
            events.check_next(history, kind)
            self._add(connection, kind, request, history[-1].account)

    def _add(
        self,
        connection: sa.Connection,
        kind: events.Kind,
        request: str,
        account: str,
        body: Mapping[str, Any] | None = None,
    ) -> Event:
        """Add an event of a request and return it."""
        return events.add(
            connection, kind, account=account, dataset=self.dataset, request=request, body=body
        )

    def _known(self, connection: sa.Connection) -> Account:
        found = accounts.find(connection, self.dataset)
        if found is None:
            raise InputError(f"the ledger does not know {self.dataset!r} any more.")
        return found

    def _with_unit(self, connection: sa.Connection, unit: str) -> Account:
        """Return the account, its unit pinned; refuse another."""
        account = self._known(connection)
        if not account.unit:
            return accounts.set_unit(connection, account, unit)
        if account.unit != unit:
            raise InputError(
                f"the ledger's releases of {account.name!r} protect a {account.unit}, this one a "
                f"{unit}; losses of different units do not add up: use another account."
            )
        return account

    def _spend(
        self, connection: sa.Connection, account: Account, losses: Losses, at: str, *, again: bool
    ) -> None:
        """Book losses in the window and for ever, or refuse them."""
        window = windows.label(account.window, at)
        before = odometer.spent(connection, account.name, window, losses.hashes)
        if (before + losses.parts > account.parts).any():
            raise _refusal(account, losses, before, again=again)
        odometer.add(connection, account.name, window, losses, before, account.parts)
        if window != windows.LIFETIME:
            ever = odometer.spent(connection, account.name, windows.LIFETIME, losses.hashes)
            odometer.add(connection, account.name, windows.LIFETIME, losses, ever, None)


def _reserved(history: Sequence[Event]) -> Event:
    """Return the last reservation of a request."""
    return next(one for one in reversed(history) if one.kind == "reserved")


def _booking(connection: sa.Connection, history: tuple[Event, ...]) -> Booking | None:
    """Return what a request's events come to; None where nothing is booked."""
    state = events.state(history)
    if state not in ("reserved", "marked", "measured", "stored", "committed"):
        return None
    reserved = _reserved(history)
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


def _check_same(history: Sequence[Event], losses: Losses, plan: bytes) -> None:
    """Refuse to draw under a booking for other units, or of another plan."""
    reserved = _reserved(history)
    booked = _losses(reserved)
    if booked.hashes != losses.hashes or (losses.parts > booked.parts).any():
        raise InputError(
            "this release was booked, and stopped, for other vehicles with the same counts; "
            "nothing was drawn for these. Release the records it was booked for, or declare a new "
            "version of them."
        )
    if reserved.body["plan"] != journal.digest(plan):
        raise InputError("this release was booked with another plan; nothing was drawn.")


def _check_open(history: Sequence[Event]) -> None:
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


def _losses(reserved: Event) -> Losses:
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


def _refusal(
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
