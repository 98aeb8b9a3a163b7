"""Replay of a ledger's events by plain arithmetic: an independent check of the odometer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hexveil.ledger import events
from hexveil.ledger.accounts import split_pinned
from hexveil.ledger.odometer import ALL_PERIODS
from hexveil.ledger.promises import BudgetText, booked_delta, cost_parts
from hexveil.ledger.unit_losses import Losses, losses_from_bytes

BalanceKey = tuple[str, str, str]
"""Account, window, period."""
NEVER_EXHAUSTED = 2**63 - 1


class AccountReplay:
    """State of an account after the events so far.

    Attributes
    ----------
    facts : dict of str to str
        Unit, window, budget, key and ids, as the table of accounts holds them.
    balances : dict of str to dict of bytes to int
        Balance of each unit per window, in pico-epsilon.
    periods : dict of str to list of int
        Of each period of a unit: the largest balance for ever, and how many units have one.
    """

    def __init__(self, facts: Mapping[str, str]) -> None:
        self.facts = {name: facts[name] for name in ("unit", "window", "budget", "key", "ids")}
        self.balances: dict[str, dict[bytes, int]] = {}
        self.periods: dict[str, list[int]] = {}

    @property
    def pico_epsilons(self) -> int:
        """The budget in 10^-12 of ε, or of squares of μ, rounded down."""
        return BudgetText.parse(self.facts["budget"]).parts

    def exhaustion_level(self, window: str) -> int:
        """Return the balance at which a unit is exhausted in a window."""
        # A budget by month or day limits only those windows; the lifetime then is a record, not a
        # limit.
        counted = (window == events.LIFETIME) == (self.facts["window"] == "lifetime")
        return self.pico_epsilons if counted else NEVER_EXHAUSTED

    def book(self, losses: Losses, window: str) -> int:
        """Add losses in a window and for the lifetime; return the number of units over budget."""
        balances = self._add(losses, window, 1)
        over = sum(spent > self.pico_epsilons for spent in balances)
        # Where the window is the lifetime, a second addition would count the losses twice.
        ever = balances if window == events.LIFETIME else self._add(losses, events.LIFETIME, 1)
        if losses.periods != ("",):
            self._count_periods(losses, ever)
        return over

    def cancel(self, losses: Losses, window: str) -> None:
        """Subtract losses again; the summaries of periods stay, as in the odometer."""
        for name in {window, events.LIFETIME}:
            self._add(losses, name, -1)

    def _add(self, losses: Losses, window: str, sign: int) -> list[int]:
        spent = self.balances.setdefault(window, {})
        balances = []
        for unit, loss in zip(losses.hashes, losses.pico_epsilons.tolist(), strict=True):
            spent[unit] = spent.get(unit, 0) + sign * loss
            balances.append(spent[unit])
        return balances

    def _count_periods(self, losses: Losses, balances: list[int]) -> None:
        rows = zip(losses.period.tolist(), losses.pico_epsilons.tolist(), balances, strict=True)
        for number, loss, balance in rows:
            period = self.periods.setdefault(losses.periods[number], [0, 0])
            period[0] = max(period[0], balance)
            # A balance that equals the loss was zero before: the unit is new in its period.
            period[1] += balance == loss


class LedgerReplay:
    """State of the ledger after the events so far; `problems` names entries that cannot be."""

    def __init__(self) -> None:
        self.accounts: dict[str, AccountReplay] = {}
        self.datasets: dict[str, str] = {}
        self.problems: list[str] = []
        self._states: dict[tuple[str, str], str] = {}
        self._reserved: dict[tuple[str, str], tuple[str, Losses]] = {}
        self._begun: dict[tuple[str, str], dict[str, int]] = {}

    def report(self, entry: int, problem: str) -> None:
        """Record a problem of an entry."""
        self.problems.append(f"Entry {entry} {problem}.")

    def apply(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401  a row of events
        """Apply the next event."""
        handlers = {
            "opened": self._open,
            "joined": self._join,
            "budget": self._set,
            "unit": self._set,
        }
        try:
            if row.kind in handlers:
                handlers[row.kind](row, body)
            elif row.kind in events.TRANSITIONS:
                self._step(row, body)
            else:
                self.report(row.entry, f"is of an unknown kind, {row.kind!r}")
        # A damaged body can hold anything; the replay goes on, to report all such entries at once.
        except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError):
            self.report(row.entry, f"does not hold what an entry {row.kind!r} needs")

    def balances(self, account: str, window: str) -> dict[bytes, int]:
        """Return the balances of an account's units in a window."""
        replayed = self.accounts.get(account)
        return {} if replayed is None else replayed.balances.get(window, {})

    def totals(self) -> dict[BalanceKey, tuple[int, int, int]]:
        """Return the largest balance, how many units have one, and are at the budget."""
        summaries = {}
        for name, account in self.accounts.items():
            for window, by_unit in account.balances.items():
                balances, level = by_unit.values(), account.exhaustion_level(window)
                summaries[name, window, ALL_PERIODS] = (
                    max(balances, default=0),
                    sum(balance > 0 for balance in balances),
                    sum(balance >= level for balance in balances),
                )
            for period, (largest, units) in account.periods.items():
                summaries[name, events.LIFETIME, period] = (largest, units, 0)
        return summaries

    def _open(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        if row.account in self.accounts:
            self.report(row.entry, f"opens the account {row.account!r} a second time")
        else:
            BudgetText.parse(body["budget"])
            self.accounts[row.account] = AccountReplay(body)

    def _join(self, row: Any, _: Mapping[str, Any]) -> None:  # noqa: ANN401
        if row.dataset in self.datasets or row.account not in self.accounts:
            self.report(row.entry, f"lets {row.dataset!r} join where it cannot")
        else:
            self.datasets[row.dataset] = row.account

    def _set(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        facts, field = self.accounts[row.account].facts, row.kind
        # Ledgers of earlier versions pinned less, which a later release adds.
        pairs = zip(*map(split_pinned, (facts["unit"], body.get("unit", ""))), strict=True)
        if field == "unit" and any(old not in ("", new) for old, new in pairs):
            self.report(row.entry, f"changes the unit of {row.account!r}")
        if field == "budget":
            new, old = (BudgetText.parse(entry["budget"]) for entry in (body, facts))
            if new.delta != old.delta:
                self.report(row.entry, f"changes the delta of {row.account!r}")
        facts[field] = body[field]

    def _step(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        """Apply an event of a request."""
        request = (row.dataset, row.request)
        state = self._states.get(request, "")
        if row.kind not in events.TRANSITIONS[state]:
            was = f"was {state}" if state else "was not in the ledger"
            self.report(row.entry, f"says {row.kind}, of a request that {was}")
        # Set even after a forbidden step: else one damaged event would make all later ones look
        # wrong.
        self._states[request] = row.kind
        if self.datasets.get(row.dataset) != row.account:
            self.report(row.entry, "spends from another account than its data set's")
        if row.kind == "reserved":
            self._begun[request] = {}
            self._reserve(row, body)
        elif row.kind == "returned":
            window, losses = self._reserved.pop(request)
            self.accounts[row.account].cancel(losses, window)
        elif row.kind == "marked":
            self._reserved.pop(request, None)  # spent for good
            if body["stage"] in self._begun.setdefault(request, {}):
                self.report(row.entry, "draws a stage a second time under one booking")
            self._begun[request][body["stage"]] = row.entry
        elif row.kind == "measured" and self._begun[request][body["stage"]] != body["row"]:
            self.report(row.entry, "stores a result that it did not draw")

    def _reserve(self, row: Any, body: Mapping[str, Any]) -> None:  # noqa: ANN401
        account, losses = (
            self.accounts[row.account],
            losses_from_bytes(row.units or b"", body["periods"]),
        )
        if cost_parts(body) != losses.largest:
            self.report(row.entry, "names another cost than its units have")
        delta = BudgetText.parse(account.facts["budget"]).delta
        if booked_delta(body) != delta:
            self.report(row.entry, "mixes pure and approximate privacy in one account")
        # A loss booked in a past window would leave this window's budget untouched.
        if body["window"] != events.window_of(account.facts["window"], row.at):
            self.report(row.entry, "was booked in another window than its time's")
        # Kept until the first draw, since only an undrawn reservation can be returned.
        self._reserved[row.dataset, row.request] = (body["window"], losses)
        over = account.book(losses, body["window"])
        if over:
            self.report(row.entry, f"took {over:,} units above the budget of its time")
