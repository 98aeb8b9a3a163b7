"""The ledger: losses booked per unit, durable before anything is published.

A release goes through it in steps, each committed before the next begins:

    reserve      the losses of its units are booked, or refused; the plan is kept with them
    begin_draw   of each private stage: its noise may have been drawn from here on, and the booking
                 is spent for good
    store        the stage's noisy result; the next stage is computed after that
    complete     all results are there; they are the only ones ever shown
    commit       the release's folder is where it belongs

A reservation may be cancelled as long as no stage began. After a crash between two stages the same
booking continues from the stored results. A stage that began and has no result may have been drawn:
nobody saw the result, and nothing is drawn twice under one booking. So its booking is lost: it
stays spent, and the same request is booked once more. Noise, true sums and random states never
enter the ledger.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.base.errors import InputError, StorageError
from hexveil.base.rational import Number, decimal_text, to_positive_fraction
from hexveil.ledger import accounts, bookings, drawing, events, tables
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.bookings import Booking
from hexveil.ledger.databases import connect, describe_address, holder_key_file, transaction
from hexveil.ledger.events import Event
from hexveil.ledger.promises import PURE, check_same_promise
from hexveil.ledger.unit_losses import Key, Losses, holder_key
from hexveil.ledger.verification import Verdict, verify


class Ledger:
    """The ledger of one data set's releases.

    Parameters
    ----------
    url : str or Path
        An SQLite file by its path, or a PostgreSQL database as
        "postgresql://user@host/name".
    dataset : str
        Name under which this data set's releases stand.
    budget : int, str, Decimal, Fraction or float, optional
        Largest total loss of one unit over all releases of a window, in epsilon. Required the
        first time; later it must equal the pinned budget, which only `set_budget` changes.
    key : str or Path, optional
        File of the holder's key, under which ids are hashed. Beside an SQLite file it is made the
        first time (the file's name with .key added).
    window : "lifetime", "month" or "day", optional
        When the budget is refilled; a lifetime by default.
    delta : int, str, Decimal, Fraction or float, optional
        Opens an account of (ε, δ) promises: its budget is an ε at this δ, it takes releases planned
        with this δ alone, and their squares of μ add up. Without it an account is pure. It cannot
        change.
    account : str, optional
        Name of the budget, where several data sets of one population share it; the data set's own
        by default.
    accept_similar_name : bool, optional
        Whether an account may be opened beside one whose name differs in capitals or spaces alone.

    Raises
    ------
    InputError
        On a name that is empty, or new and much like a known one, a budget that is not positive,
        an address that is no ledger's, or an argument that differs from the pinned one.
    StorageError
        If the database cannot be used.
    """

    def __init__(  # noqa: PLR0913  keyword-only, a term of the account each
        self,
        url: str | Path,
        *,
        dataset: str,
        budget: Number | None = None,
        key: str | Path | None = None,
        window: str | None = None,
        account: str | None = None,
        delta: Number | None = None,
        accept_similar_name: bool = False,
    ) -> None:
        limit = None if budget is None else to_positive_fraction(budget, "budget")
        fixed_delta = None if delta is None else to_delta(delta)
        terms = accounts.Terms(dataset, limit, window, account, fixed_delta)
        self.dataset = dataset
        self._engine = connect(url)
        self._key_file = holder_key_file(self._engine, key)
        self._reserved_space: dict[int, int | None] = {}
        """Files that reserve disk space for the results of draws that began, by their entries."""
        # One transaction: two processes that open a new ledger must not both make its key.
        with transaction(self._engine) as connection:
            # Never a new key for a ledger with entries: under it all units would look new, and
            # unspent.
            is_new = not events.read_head(connection).entry
            self._key = holder_key(self._key_file, new=is_new)
            pinned, self.opened = accounts.open_account(
                connection, terms, self._key, accept_similar_name=accept_similar_name
            )
            """`opened`: whether the account is new, with a budget of its own."""
            self._account = pinned.name

    def __repr__(self) -> str:
        return f"Ledger(dataset={self.dataset!r}, account={self._account!r})"

    @property
    def key(self) -> Key:
        """The holder's key; its repr shows a fingerprint."""
        return self._key

    @property
    def key_file(self) -> Path | None:
        """File of the key; None for a ledger in memory, which made its own."""
        return self._key_file

    @property
    def address(self) -> str:
        """The file, or the server's address without a password."""
        return describe_address(self._engine)

    @property
    def account(self) -> Account:
        """The account with its terms."""
        with transaction(self._engine) as connection:
            return self._read_account(connection)

    @property
    def budget(self) -> Fraction:
        """Largest loss of a unit in a window, in epsilon."""
        return self.account.budget

    @property
    def spent(self) -> Fraction:
        """Largest loss of a unit in this window so far, in epsilon."""
        return self.spend().window

    @property
    def remaining(self) -> Fraction:
        """Budget that every unit still has in this window, in epsilon; never below zero."""
        return self.spend().remaining

    def spend(self) -> Spend:
        """Return the spend of this window and of the lifetime."""
        with transaction(self._engine) as connection:
            return accounts.read_spend(connection, self._read_account(connection))

    def set_budget(self, budget: Number) -> None:
        """Change the budget; the ledger records the change."""
        new_budget = to_positive_fraction(budget, "budget")
        with transaction(self._engine) as connection:
            changed = replace(self._read_account(connection), budget=new_budget)
            accounts.change(connection, changed, "budget")

    def find(self, request: str) -> Booking | None:
        """Return the booking of a request, or None if there is none."""
        with transaction(self._engine) as connection:
            history = events.request_events(connection, self.dataset, request)
            return bookings.to_booking(connection, history)

    def plan_of(self, request: str) -> bytes | None:
        """Return the plan that was first booked for a request, or None if none was.

        A cancelled booking drew nothing, and binds nobody to its plan.
        """
        with transaction(self._engine) as connection:
            history = events.request_events(connection, self.dataset, request)
            # Solvers differ in late digits between processors, so a resumed release needs the
            # booked plan.
            if events.state(history) in ("", "returned"):
                return None
            return drawing.load_plan(connection, bookings.last_reservation(history).body["plan"])

    def drawing(self) -> AbstractContextManager[None]:
        """Return the lock under which one process at a time books and draws."""
        return drawing.exclusive_draw(self._engine)

    def reserve(  # noqa: PLR0913  keyword-only, a fact of the booking each
        self,
        request: str,
        losses: Losses,
        *,
        privacy_unit: str,
        facts: Mapping[str, str],
        plan: bytes,
        delta: Fraction = PURE,
        id_space: str = "",
        missing_values: str = "",
    ) -> Booking:
        """Return the booking of a request; book it now unless it was booked before.

        When this returns, the booking is durable. One that was made before costs nothing again,
        unless a draw of it was lost: call it under `drawing`, so that the draw is not under way.
        With a δ the losses are squares of μ.

        Raises
        ------
        BudgetError
            If a unit would lose more than the budget allows; nothing is booked.
        InputError
            If earlier releases of the account promise another privacy unit, count ids of something
            else or drop other values (both "" where not known), the request was
            abandoned or lost too often, or it is booked without numbers for other units or by
            another plan: then noise would be drawn for units that were not charged.
        """
        with transaction(self._engine) as connection:
            history = events.request_events(connection, self.dataset, request)
            # Results that are stored are only shown again. Anything else leads to a draw, and a
            # hidden event would make it a second one.
            if events.state(history) not in ("stored", "committed"):
                entries = [event.entry for event in history]
                tables.check_request(connection, self.dataset, request, entries)
            # This process holds the draw lock, so whoever began the stage is gone (`drawing`).
            if events.state(history) == "marked":
                history = (*history, self._add(connection, "lost", request, history[-1].account))
            existing = bookings.to_booking(connection, history)
            if existing is not None:
                if not existing.complete:
                    bookings.check_same_booking(history, losses, plan)
                return existing
            bookings.check_rebookable(history)
            account = self._read_account(connection)
            check_same_promise(self._account, account.delta, delta)
            account = bookings.pin_unit(connection, account, privacy_unit, id_space, missing_values)
            # Read once: the window that is charged must be that of the event's own time.
            moment = events.next_time(events.read_head(connection).at)
            repeated = bool(history)
            bookings.spend_losses(connection, account, losses, moment, is_repeated=repeated)
            body = {
                "facts": dict(facts),
                "cost": losses.largest,
                "delta": decimal_text(account.delta),
                **bookings.limit_field(losses),
                "periods": list(losses.periods),
                "plan": drawing.store_plan(connection, plan),
                "window": events.window_of(account.window, moment),
            }
            reserved = self._add(
                connection, "reserved", request, account.name, body, losses.to_bytes(), moment
            )
            booked = bookings.to_booking(connection, (*history, reserved))
        assert booked is not None  # noqa: S101  it was added
        return booked

    def pin_unit(self, privacy_unit: str, id_space: str, missing_values: str) -> None:
        """Pin what an account's releases protect, for one that books nothing; see `reserve`.

        Raises
        ------
        InputError
            If another unit, id space or list of codes is pinned.
        """
        with transaction(self._engine) as connection:
            account = self._read_account(connection)
            bookings.pin_unit(connection, account, privacy_unit, id_space, missing_values)

    def begin_draw(self, request: str, stage: str, entries: int) -> int:
        """Record that noise may be drawn for a stage, and reserve space for its result.

        The booking is spent for good from here on. Returns the number of the entry, which `store`
        needs.

        Raises
        ------
        StorageError
            If the result could not be stored: the disk has no space for it.
        """
        # Before the event, which spends the booking for good.
        space = drawing.reserve_space(self._engine, entries)
        try:
            with transaction(self._engine) as connection:
                history = events.request_events(connection, self.dataset, request)
                events.check_transition(history, "marked")
                if stage in drawing.load_results(connection, history):
                    raise InputError(f"the stage {stage!r} of this release was drawn before.")
                body = {"stage": stage, "entries": entries}
                begun = self._add(connection, "marked", request, history[-1].account, body)
                drawing.create_row(connection, begun.entry, entries)
            # From here the draw owns the space; until here a failure frees it.
            self._reserved_space[begun.entry], space = space, None
        finally:
            if space is not None:
                os.close(space)
        return begun.entry

    def store(self, request: str, entry: int, result: NDArray[np.int64]) -> None:
        """Store the noisy result of the stage that began with an entry, durably.

        Raises
        ------
        StorageError
            If another process went on with the request meanwhile: this result is forgotten.
        InputError
            If the request is not in the ledger: another file is in its place.
        """
        # First: SQLite's log takes the space that was held for it.
        self.free_space(entry)
        with transaction(self._engine) as connection:
            history = events.request_events(connection, self.dataset, request)
            if not history:
                events.check_transition(history, "measured")
            marked = history[-1]
            # The same entry, not only the same state: another process may have begun the stage
            # anew.
            if marked.kind != "marked" or marked.entry != entry:
                raise StorageError(
                    "another process went on with this release while noise was drawn here; what "
                    "was drawn here is forgotten. Ask again for the numbers that are stored."
                )
            body = {
                "stage": marked.body["stage"],
                "row": entry,
                "digest": drawing.store_result(connection, marked, result),
            }
            self._add(connection, "measured", request, marked.account, body)

    def free_space(self, entry: int) -> None:
        """Release the space that is reserved for a draw's result, if any."""
        space = self._reserved_space.pop(entry, None)
        if space is not None:
            os.close(space)

    def complete(self, request: str) -> None:
        """Record that the results of all stages are stored: from here on they may be shown."""
        self._step(request, "stored", reached=("stored", "committed"))

    def commit(self, request: str) -> None:
        """Record that a release is at its destination."""
        self._step(request, "committed", reached=("committed",))

    def cancel(self, request: str) -> None:
        """Cancel a reservation for which no noise can have been drawn.

        Raises
        ------
        InputError
            If a stage began: then it is spent for good.
        """
        with transaction(self._engine) as connection:
            history = events.request_events(connection, self.dataset, request)
            events.check_transition(history, "returned")
            account = self._read_account(connection)
            bookings.refund_losses(connection, account, history[-1])
            self._add(connection, "returned", request, account.name)

    def abandon(self, request: str) -> None:
        """Abandon a release after a stage began; its cost stays spent."""
        self._step(request, "abandoned", reached=("abandoned",))

    def entries(self) -> tuple[Booking, ...]:
        """Return the data set's bookings, oldest first."""
        with transaction(self._engine) as connection:
            rows = events.dataset_events(connection, self.dataset)
            booked = [bookings.to_booking(connection, history) for history in rows.values()]
        return tuple(booking for booking in booked if booking is not None)

    def verify(self) -> Verdict:
        """Verify the whole ledger, of all data sets in it."""
        return verify(self._engine)

    def _step(self, request: str, kind: events.Kind, *, reached: tuple[str, ...]) -> None:
        """Add an event of a request unless it has happened."""
        with transaction(self._engine) as connection:
            history = events.request_events(connection, self.dataset, request)
            if events.state(history) in reached:
                return
            events.check_transition(history, kind)
            self._add(connection, kind, request, history[-1].account)

    def _add(
        self, connection: sa.Connection, kind: events.Kind, request: str, account: str,
        body: Mapping[str, Any] | None = None, units: bytes | None = None,
        moment: str | None = None,
    ) -> Event:  # fmt: skip
        """Add an event of a request and return it."""
        return events.append(
            connection, kind, account=account, dataset=self.dataset, request=request, body=body,
            units=units, moment=moment,
        )  # fmt: skip

    def _read_account(self, connection: sa.Connection) -> Account:
        account = accounts.find(connection, self.dataset)
        if account is None:
            raise InputError(f"the ledger does not know {self.dataset!r} any more.")
        return account
