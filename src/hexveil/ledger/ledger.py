"""The book: what has been spent on a data set, and what was published for it.

One row per release, written and committed before any noise is drawn. Check and spend are one
transaction under the database's write lock, so that two writers cannot spend the same budget.
Rows are never changed or removed; the published numbers stand in a second table, one row per
release, first writer wins.

Why a crash costs nothing more: a row without numbers means that the noise was perhaps drawn, but
nobody saw it, for numbers are shown only after they are stored. So the same request may draw
again under the row that is already booked, and the first numbers stored are the only ones ever
shown.

The budget is what the caller declares in this run; all releases of one data set must promise the
same unit of privacy, for losses of different units do not add up.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hexveil.errors import BudgetError, InputError, StorageError
from hexveil.exact import Number, decimal_text, positive
from hexveil.ledger.store import bookings, connect, numbers, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Numbers = dict[str, list[int]]
"""Noisy whole numbers of each statistic, one per cell."""


@dataclass(frozen=True)
class Booking:
    """One release in the book. Public facts only.

    Attributes
    ----------
    request : str
        Fingerprint of the public request.
    unit : str
        Unit of privacy.
    cost : Fraction
        What the most exposed unit loses, in epsilon.
    facts : mapping of str to str
        The request in words.
    published : mapping or None
        The noisy numbers, once they are stored.
    """

    request: str
    unit: str
    cost: Fraction
    facts: Mapping[str, str]
    published: Numbers | None


class Ledger:
    """The book of one data set.

    Parameters
    ----------
    url : str or Path
        An SQLite file, by its path or as SQLAlchemy writes it ("sqlite:///ledger.sqlite").
    dataset : str
        Name under which this data set's releases add up.
    budget : int, str, Decimal, Fraction or float
        The most that all of its releases together may cost one unit, in epsilon.

    Raises
    ------
    InputError
        On an empty name, a budget that is not positive, a file that is not a ledger.
    StorageError
        If the database cannot be opened.
    """

    def __init__(self, url: str | Path, *, dataset: str, budget: Number) -> None:
        if not isinstance(dataset, str) or not dataset.strip():
            raise InputError("dataset must be a name, under which its releases add up.")
        self.dataset = dataset
        self.budget = positive(budget, "budget")
        self._engine = connect(url)

    def __repr__(self) -> str:
        return f"Ledger(dataset={self.dataset!r}, budget={decimal_text(self.budget)})"

    @property
    def spent(self) -> Fraction:
        """What all booked releases cost together, in epsilon."""
        return sum((entry.cost for entry in self.entries()), Fraction(0))

    @property
    def remaining(self) -> Fraction:
        """Budget left, in epsilon; never below zero."""
        return max(self.budget - self.spent, Fraction(0))

    def entries(self) -> tuple[Booking, ...]:
        """Return the data set's bookings, oldest first."""
        with transaction(self._engine) as connection:
            return self._entries(connection)

    def book(self, request: str, cost: Fraction, *, unit: str, facts: Mapping[str, str]) -> Booking:
        """Return the booking of a request, made now unless it was made before.

        When this returns, the row is durable. A request that was booked before costs nothing
        again.

        Raises
        ------
        BudgetError
            If the cost exceeds what is left; nothing is booked.
        InputError
            If earlier releases of the data set promise another unit of privacy, or the cost is
            below zero, which would give budget back.
        """
        if cost < 0:
            raise InputError("a release cannot cost less than nothing.")
        with transaction(self._engine) as connection:
            entries = self._entries(connection)
            known = next((e for e in entries if e.request == request), None)
            if known is not None:
                return known
            self._check(entries, cost, unit)
            connection.execute(
                sa.insert(bookings).values(
                    dataset=self.dataset,
                    request=request,
                    unit=unit,
                    cost=f"{cost.numerator}/{cost.denominator}",
                    facts=json.dumps(dict(facts), sort_keys=True),
                )
            )
        return Booking(request, unit, cost, dict(facts), None)

    def complete(self, request: str, published: Numbers) -> Numbers:
        """Store a booked release's noisy numbers and return the ones that may be shown.

        The first numbers stored win: where another process was faster, its numbers come back and
        these are forgotten.
        """
        with transaction(self._engine) as connection:
            entry = next((e for e in self._entries(connection) if e.request == request), None)
            if entry is None:
                raise InputError("numbers can only be stored for a release that is booked.")
            if entry.published is not None:
                return entry.published
            connection.execute(
                sa.insert(numbers).values(
                    dataset=self.dataset, request=request, numbers=json.dumps(published)
                )
            )
        return published

    def _check(self, entries: tuple[Booking, ...], cost: Fraction, unit: str) -> None:
        units = {entry.unit for entry in entries} - {unit}
        if units:
            raise InputError(
                f"the ledger's releases of {self.dataset!r} protect a {units.pop()}, this one a "
                f"{unit}; losses of different units do not add up: use another dataset name."
            )
        left = max(self.budget - sum((e.cost for e in entries), Fraction(0)), Fraction(0))
        if cost > left:
            raise BudgetError(
                f"this release costs epsilon {_rounded(math.ceil, cost)}, but of the budget "
                f"{decimal_text(self.budget)} of {self.dataset!r} only "
                f"{_rounded(math.floor, left)} is left; plan with a smaller epsilon, or do not "
                "publish.",
                requested=cost,
                remaining=left,
            )

    def _entries(self, connection: sa.Connection) -> tuple[Booking, ...]:
        both = (bookings.c.dataset == numbers.c.dataset) & (bookings.c.request == numbers.c.request)
        rows = connection.execute(
            sa.select(bookings, numbers.c.numbers)
            .select_from(bookings.outerjoin(numbers, both))
            .where(bookings.c.dataset == self.dataset)
            .order_by(bookings.c.entry)
        )
        return tuple(_booking(row) for row in rows)


def _booking(row: sa.Row[Any]) -> Booking:
    """Return what a row says; StorageError if it was not written by a ledger."""
    try:
        cost, facts = Fraction(row.cost), json.loads(row.facts)
        published = None if row.numbers is None else json.loads(row.numbers)
    except (ValueError, TypeError, ZeroDivisionError):
        cost, facts, published = Fraction(-1), {}, None
    if cost < 0:
        raise StorageError(
            f"row {row.entry} of the ledger is damaged, so what was spent is not known; nothing "
            "was published. Restore the file from a copy."
        )
    return Booking(row.request, row.unit, cost, facts, published)


def _rounded(how: Callable[[Fraction], int], epsilon: Fraction) -> str:
    """Return ε as text of at most 12 places, rounded up or down."""
    return decimal_text(Fraction(how(epsilon * 10**12), 10**12))
