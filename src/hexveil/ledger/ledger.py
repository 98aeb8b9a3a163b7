"""The book: what has been spent, unit by unit, durable before anything is published.

A release goes through it in steps, each committed before the next begins:

    reserve   the losses of its units are booked, or refused
    mark      from here on noise may have been drawn: the booking is spent for good
    store     the published numbers; the first that are stored are the only ones ever shown
    commit    the release's folder is where it belongs

A reservation without a mark may be given back. After a mark without stored numbers, nobody saw a
number, for numbers are shown only after they are stored: the same request may draw again under the
booking that is there, or be abandoned. Noise, true sums and random states never enter the book.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.errors import BudgetError, InputError, StorageError
from hexveil.exact import Number, decimal_text, positive
from hexveil.ledger import accounts, events, odometer, soundness, windows
from hexveil.ledger.accounts import Account, Spend
from hexveil.ledger.engines import MEMORY, connect, transaction, where
from hexveil.ledger.units import PARTS, Key, make_key, of_blob, read_key
from hexveil.ledger.verifying import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import sqlalchemy as sa

    from hexveil.ledger.events import Event
    from hexveil.ledger.units import Losses
    from hexveil.ledger.verifying import Verdict

Numbers = dict[str, list[int]]
"""Noisy whole numbers of each statistic, one per cell."""
NEXT_TO_NOTHING = Fraction(1, 100)
"""Part of a budget below which what is left is not worth a plan."""


@dataclass(frozen=True)
class Booking:
    """A request in the book. Public facts only.

    Attributes
    ----------
    request : str
        Fingerprint of the public request.
    state : str
        "reserved", "marked", "stored" or "committed".
    cost : Fraction
        What its most exposed unit loses, in epsilon.
    facts : mapping of str to str
        The request in words.
    published : mapping or None
        The noisy numbers, once they are stored.
    entry, chain : int and str
        Number and hash of the event that stored the numbers, or of the last one before that.
    """

    request: str
    state: str
    cost: Fraction
    facts: Mapping[str, str]
    published: Numbers | None
    entry: int
    chain: str


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
            return _booking(events.of_request(connection, self.dataset, request))

    def reserve(
        self, request: str, losses: Losses, *, unit: str, facts: Mapping[str, str]
    ) -> Booking:
        """Return the booking of a request, made now unless it was made before.

        When this returns, the booking is durable. One that was made before costs nothing again.

        Raises
        ------
        BudgetError
            If a unit would lose more than the budget allows; nothing is booked.
        InputError
            If earlier releases of the account promise another unit of privacy, the request was
            abandoned, or it is booked without numbers for other units: then noise would be drawn
            for units that were not charged.
        """
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            known = _booking(history)
            if known is None or known.published is None:
                soundness.check(connection, self.dataset, request, history)
            if known is not None:
                if known.published is None:
                    _check_same_units(history, losses)
                return known
            if events.state(history) == "abandoned":
                raise InputError(
                    "this release was abandoned after noise may have been drawn for it; what it "
                    "cost stays spent. Declare a new version of the records to publish again."
                )
            account = self._with_unit(connection, unit)
            at = windows.now(events.head(connection).at)
            self._spend(connection, account, losses, at)
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
                    "window": windows.label(account.window, at),
                },
                units=losses.blob(),
                at=at,
            )
            booked = _booking((*history, made))
        assert booked is not None  # noqa: S101  it was added
        return booked

    def mark(self, request: str) -> None:
        """Note that noise may be drawn from here on; the booking is spent for good."""
        self._step(request, "marked", done=("marked", "stored", "committed"))

    def store(self, request: str, published: Numbers) -> Numbers:
        """Store a marked release's noisy numbers and return the ones that may be shown.

        The first numbers stored win: where another process was faster, its numbers come back and
        these are forgotten.
        """
        with transaction(self._engine) as connection:
            history = events.of_request(connection, self.dataset, request)
            known = _booking(history)
            if known is not None and known.published is not None:
                return known.published
            events.check_next(history, "stored")
            events.add(
                connection,
                "stored",
                account=history[-1].account,
                dataset=self.dataset,
                request=request,
                numbers=json.dumps(published),
            )
        return published

    def commit(self, request: str) -> None:
        """Note that a release stands where it belongs."""
        self._step(request, "committed", done=("committed",))

    def give_back(self, request: str) -> None:
        """Undo a reservation for which no noise can have been drawn.

        Raises
        ------
        InputError
            If it is marked: then it is spent for good.
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
        """Give up a marked release; what it cost stays spent."""
        self._step(request, "abandoned", done=("abandoned",))

    def entries(self) -> tuple[Booking, ...]:
        """Return the data set's bookings, oldest first."""
        with transaction(self._engine) as connection:
            rows = events.of_dataset(connection, self.dataset)
        found = (_booking(history) for history in rows.values())
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
            events.add(
                connection,
                kind,
                account=history[-1].account,
                dataset=self.dataset,
                request=request,
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

    def _spend(self, connection: sa.Connection, account: Account, losses: Losses, at: str) -> None:
        """Book losses in the window and for ever, or refuse them."""
        window = windows.label(account.window, at)
        before = odometer.spent(connection, account.name, window, losses.hashes)
        if (before + losses.parts > account.parts).any():
            raise _refusal(account, losses, before)
        odometer.add(connection, account.name, window, losses, before, account.parts)
        if window != windows.LIFETIME:
            ever = odometer.spent(connection, account.name, windows.LIFETIME, losses.hashes)
            odometer.add(connection, account.name, windows.LIFETIME, losses, ever, None)


def _booking(history: tuple[Event, ...]) -> Booking | None:
    """Return what a request's events come to; None where nothing is booked."""
    state = events.state(history)
    if state not in ("reserved", "marked", "stored", "committed"):
        return None
    reserved = next(one for one in reversed(history) if one.kind == "reserved")
    stored = next((one for one in history if one.kind == "stored"), None)
    return Booking(
        reserved.request,
        state,
        Fraction(int(reserved.body["parts"]), PARTS),
        reserved.body["facts"],
        None if stored is None or stored.numbers is None else json.loads(stored.numbers),
        (stored or history[-1]).entry,
        (stored or history[-1]).chain,
    )


def _check_same_units(history: tuple[Event, ...], losses: Losses) -> None:
    """Refuse to draw under a booking that charged other units: a request names no ids."""
    reserved = next(one for one in reversed(history) if one.kind == "reserved")
    if reserved.units != losses.blob() or reserved.body["periods"] != list(losses.periods):
        raise InputError(
            "this release was booked, and stopped, for other vehicles with the same counts; "
            "nothing was drawn for these. Release the records it was booked for, or declare a new "
            "version of them."
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


def _refusal(account: Account, losses: Losses, before: odometer.Parts) -> BudgetError:
    """Return the error that says what was asked, spent and left."""
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
        f"this release costs epsilon {_text(math.ceil, cost)}, but of the budget "
        f"{decimal_text(account.budget)} of {account.name!r} its units have spent up to "
        f"{_text(math.ceil, most)}{this}: {over:,} of {before.size:,} would get above it "
        f"({spent_up:,} with nothing left). {advice}",
        requested=cost,
        remaining=left,
    )
