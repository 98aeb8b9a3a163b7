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

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import Number, decimal_text, to_positive_fraction
from hexveil.ledger import accounts, events, journal, odometer, windows
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.bookings import (
    Booking,
    booked_losses,
    booking_of,
    check_open,
    check_same,
    refusal,
    reserved_of,
)
from hexveil.ledger.integrity import soundness
from hexveil.ledger.integrity.verification import verify
from hexveil.ledger.storage import disk_space, draw_lock
from hexveil.ledger.storage.databases import MEMORY, connect, transaction, where
from hexveil.ledger.unit_losses import Key, make_key, read_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    import numpy as np
    import sqlalchemy as sa
    from numpy.typing import NDArray

    from hexveil.ledger.events import Event
    from hexveil.ledger.integrity.verification import Verdict
    from hexveil.ledger.unit_losses import Losses


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
        asked = None if budget is None else to_positive_fraction(budget, "budget")
        checked = None if window is None else windows.check(window)
        self.dataset = dataset
        self._engine = connect(url)
        self._room: dict[int, disk_space.Room | None] = {}  # of draws that began, by their entries
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
        asked = to_positive_fraction(budget, "budget")
        with transaction(self._engine) as connection:
            accounts.set_budget(connection, self._known(connection), asked)

    def find(self, request: str) -> Booking | None:
        """Return the booking of a request, or None if there is none."""
        with transaction(self._engine) as connection:
            return booking_of(connection, events.of_request(connection, self.dataset, request))

    def plan_of(self, request: str) -> bytes | None:
        """Return the plan that was first booked for a request, or None if none was.

        A booking that was given back drew nothing, and binds nobody to its plan.
        """
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            if events.state(history) in ("", "returned"):
                return None
            return journal.plan(connection, reserved_of(history).body["plan"])

    def drawing(self) -> AbstractContextManager[None]:
        """Return the lock under which one process books and draws, for as long as it is held."""
        return draw_lock.alone(self._engine)

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
            known = booking_of(connection, history)
            if known is not None:
                if not known.complete:
                    check_same(history, losses, plan)
                return known
            check_open(history)
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
            booked = booking_of(connection, (*history, made))
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
        held = disk_space.hold(self._engine, entries)
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
            losses = booked_losses(reserved)
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
            found = [booking_of(connection, history) for history in rows.values()]
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
            raise refusal(account, losses, before, again=again)
        odometer.add(connection, account.name, window, losses, before, account.parts)
        if window != windows.LIFETIME:
            ever = odometer.spent(connection, account.name, windows.LIFETIME, losses.hashes)
            odometer.add(connection, account.name, windows.LIFETIME, losses, ever, None)
