"""Errors that hexveil raises on purpose, with their exit codes.

::

    HexveilError            exit 1  the program or the machine failed
    ├── StorageError        exit 1  disk or database failed; retrying may help
    ├── InputError          exit 2  wrong use or bad input
    │   └── ColumnError     exit 2  a column that the source does not have
    └── BudgetError         exit 3  the ledger refuses the spend

A message states the expectation, the problem and the remedy. It contains names, parameters and
public counts only: never a value, a user id or a row.
"""

from __future__ import annotations

import copyreg
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


class HexveilError(Exception):
    """Base of every error hexveil raises on purpose."""

    exit_code = 1

    def __reduce__(self) -> tuple[object, ...]:
        # Without a call of __init__: a pool of processes gets message and attributes of any kind.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class StorageError(HexveilError, OSError):
    """A disk or a database failed; retrying may help."""


class InputError(HexveilError, ValueError):
    """Wrong use or bad input: nothing was written, nothing was spent."""

    exit_code = 2


class ColumnError(InputError):
    """A configured column is not in the source.

    Attributes
    ----------
    role : str
        What the column was configured as.
    column : str
        The name as configured.
    available : tuple of str
        The columns of the source; empty for a wide table, which may have a column per vehicle,
        named by its id.
    """

    def __init__(
        self, role: str, column: str, available: Sequence[str], hint: str | None = None
    ) -> None:
        self.role, self.column = role, column
        self.available = tuple(available) if len(available) <= MAX_LISTED else ()
        advice = hint or suggest(column, available)
        super().__init__(f"{role}: the source has no column {column!r}; {advice}")


MAX_LISTED = 40
"""Largest number of columns that a message lists."""


def suggest(column: str, available: Sequence[str]) -> str:
    """Return a suggestion: the column of a similar name, or the list of columns."""
    similar = difflib.get_close_matches(column, available, n=1, cutoff=0.6)
    if similar:
        return f"did you mean {similar[0]!r}?"
    # One similar name is harmless; all names of a wide table could be the ids of its vehicles.
    if len(available) > MAX_LISTED:
        return f"it has {len(available)} others, none of a similar name."
    return f"it has {', '.join(available)}."


class BudgetError(HexveilError):
    """The ledger refuses a spend that would exceed the budget.

    Attributes
    ----------
    requested, remaining : Fraction
        In epsilon, of the privacy unit.
    """

    exit_code = 3

    def __init__(self, message: str, *, requested: Fraction, remaining: Fraction) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining


def is_interruption(error: BaseException) -> bool:
    """Return whether an interruption caused an error, directly or through its chain."""
    # Chains can be circular, where a handler raises an error that it caught before.
    visited: set[int] = set()
    chained: BaseException | None = error
    while chained is not None and id(chained) not in visited:
        if isinstance(chained, KeyboardInterrupt):
            return True
        visited.add(id(chained))
        chained = chained.__cause__ or chained.__context__
    return False
