"""The sums of a book, made anew from its events by plain arithmetic: an oracle of the odometer."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.ledger import events, windows
from hexveil.ledger.odometer import EVERY
from hexveil.ledger.unit_losses import MOST, PARTS, of_blob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.ledger.unit_losses import Losses

Place = tuple[str, str, str]
"""Account, window, period."""
NO_LINE = 2**63 - 1


class Book:
    """What the events so far say of an account.

    Attributes
    ----------
    facts : dict of str to str
        Unit, window, budget, key and ids, as the table of accounts holds them.
    balances : dict of str to dict of bytes to int
        Of each window, what each unit has spent, in parts.
    periods : dict of str to list of int
        Of each period of a unit: the largest balance for ever, and how many units have one.
    """

    def __init__(self, facts: Mapping[str, str]) -> None:
        self.facts = {name: facts[name] for name in ("unit", "window", "budget", "key", "ids")}
        self.balances: dict[str, dict[bytes, int]] = {}
        self.periods: dict[str, list[int]] = {}

    @property
    def parts(self) -> int:
        """The budget in parts, rounded down."""
        return min(int(Fraction(self.facts["budget"]) * PARTS), MOST)

    def line(self, window: str) -> int:
        """Return the balance at which a unit is exhausted in a window."""
        counted = (window == windows.LIFETIME) == (self.facts["window"] == "lifetime")
        return self.parts if counted else NO_LINE

    def book(self, losses: Losses, window: str) -> int:
        """Add losses in a window and for ever; return how many units are above the budget."""
        after = self._add(losses, window, 1)
        over = sum(spent > self.parts for spent in after)
        ever = after if window == windows.LIFETIME else self._add(losses, windows.LIFETIME, 1)
        if losses.periods != ("",):
            self._count_periods(losses, ever)
        return over

    def give_back(self, losses: Losses, window: str) -> None:
        """Take losses away again; the totals of periods stay, as in the odometer."""
        for each in {window, windows.LIFETIME}:
            self._add(losses, each, -1)

    def _add(self, losses: Losses, window: str, sign: int) -> list[int]:
        spent = self.balances.setdefault(window, {})
        after = []
        for unit, parts in zip(losses.hashes, losses.parts.tolist(), strict=True):
            spent[unit] = spent.get(unit, 0) + sign * parts
            after.append(spent[unit])
        return after

    def _count_periods(self, losses: Losses, after: list[int]) -> None:
        rows = zip(losses.period.tolist(), losses.parts.tolist(), after, strict=True)
        for number, parts, spent in rows:
            of = self.periods.setdefault(losses.periods[number], [0, 0])
            of[0] = max(of[0], spent)
            of[1] += spent == parts


class Replay:
    """What all events so far say; entries that cannot have happened are in `problems`."""

    def __init__(self) -> None:
        self.accounts: dict[str, Book] = {}
        self.datasets: dict[str, str] = {}
        self.problems: list[str] = []
        self._states: dict[tuple[str, str], str] = {}
        self._reserved: dict[tuple[str, str], tuple[str, Losses]] = {}
        self._begun: dict[tuple[str, str], dict[str, int]] = {}

    def problem(self, entry: int, what: str) -> None:
        """Note what is wrong with an entry."""
        self.problems.append(f"Entry {entry} {what}.")

    def follow(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401  a row of events
        """Take in the next event."""
        does = {"opened": self._open, "joined": self._join, "budget": self._set, "unit": self._set}
        try:
            if row.kind in does:
                does[row.kind](row, body)
            elif row.kind in events.FOLLOWS:
                self._step(row, body)
            else:
                self.problem(row.entry, f"is of an unknown kind, {row.kind!r}")
        except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError):
            self.problem(row.entry, f"does not hold what an entry {row.kind!r} needs")

    def balances(self, account: str, window: str) -> dict[bytes, int]:
        """Return what the units of an account have spent in a window."""
        known = self.accounts.get(account)
        return {} if known is None else known.balances.get(window, {})

    def totals(self) -> dict[Place, tuple[int, int, int]]:
        """Return the largest balance, how many units have one, and are at the budget."""
        found = {}
        for name, book in self.accounts.items():
            for window, spent in book.balances.items():
                all_of, line = spent.values(), book.line(window)
                found[name, window, EVERY] = (
                    max(all_of, default=0),
                    sum(one > 0 for one in all_of),
                    sum(one >= line for one in all_of),
                )
            for period, (largest, units) in book.periods.items():
                found[name, windows.LIFETIME, period] = (largest, units, 0)
        return found

    def _open(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        if row.account in self.accounts:
            self.problem(row.entry, f"opens the account {row.account!r} a second time")
        else:
            Fraction(body["budget"])
            self.accounts[row.account] = Book(body)

    def _join(self, row: Any, _: Mapping[str, Any]) -> None:  # noqa: ANN401
        if row.dataset in self.datasets or row.account not in self.accounts:
            self.problem(row.entry, f"lets {row.dataset!r} join where it cannot")
        else:
            self.datasets[row.dataset] = row.account

    def _set(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        facts, what = self.accounts[row.account].facts, row.kind
        if what == "unit" and facts["unit"]:
            self.problem(row.entry, f"changes the unit of {row.account!r}")
        if what == "budget":
            Fraction(body["budget"])
        facts[what] = body[what]

    def _step(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        """Take in what happened to a request."""
        request = (row.dataset, row.request)
        before = self._states.get(request, "")
        if row.kind not in events.FOLLOWS[before]:
            was = f"was {before}" if before else "was not in the ledger"
            self.problem(row.entry, f"says {row.kind}, of a request that {was}")
        self._states[request] = row.kind
        if self.datasets.get(row.dataset) != row.account:
            self.problem(row.entry, "spends from another account than its data set's")
        if row.kind == "reserved":
            self._begun[request] = {}
            self._reserve(row, body)
        elif row.kind == "returned":
            window, losses = self._reserved.pop(request)
            self.accounts[row.account].give_back(losses, window)
        elif row.kind == "marked":
            self._reserved.pop(request, None)  # spent for good
            if body["stage"] in self._begun.setdefault(request, {}):
                self.problem(row.entry, "draws a stage a second time under one booking")
            self._begun[request][body["stage"]] = row.entry
        elif row.kind == "measured" and self._begun[request][body["stage"]] != body["row"]:
            self.problem(row.entry, "stores a result that it did not draw")

    def _reserve(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        book, losses = self.accounts[row.account], of_blob(row.units or b"", body["periods"])
        if body["parts"] != losses.largest:
            self.problem(row.entry, "names another cost than its units have")
        if body["window"] != windows.label(book.facts["window"], row.at):
            self.problem(row.entry, "was booked in another window than its time's")
        self._reserved[row.dataset, row.request] = (body["window"], losses)
        over = book.book(losses, body["window"])
        if over:
            self.problem(row.entry, f"took {over:,} units above the budget of its time")
