"""Every error hexveil raises on purpose, and the exit code each one means.

::

    HexveilError            exit 1  the program or the machine failed
    ├── StorageError        exit 1  disk or database failed; retrying may help
    ├── InputError          exit 2  wrong use or bad input
    │   └── ColumnError     exit 2  a column that the source does not have
    └── BudgetError         exit 3  the ledger refuses the spend

A message says what was expected, what came and what to do. It carries names, parameters and
public counts only: never a value, a user id or a row.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction


class HexveilError(Exception):
    """Base of every error hexveil raises on purpose."""

    exit_code = 1


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
        The names the source has, as far as they may be told; none of a wide table's, which may
        have a column per vehicle, named by its id.
    """

    def __init__(
        self, role: str, column: str, available: Sequence[str], hint: str | None = None
    ) -> None:
        self.role, self.column = role, column
        self.available = tuple(available) if len(available) <= LISTED else ()
        said = hint or _offer(column, available)
        super().__init__(f"{role}: the source has no column {column!r}; {said}")


LISTED = 40
"""Columns that a message lists at most."""


def _offer(column: str, available: Sequence[str]) -> str:
    """Return which column was probably meant, or which there are."""
    near = difflib.get_close_matches(column, available, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    if len(available) > LISTED:
        return f"it has {len(available)} others, none of a similar name."
    return f"it has {', '.join(available)}."


class BudgetError(HexveilError):
    """The ledger refuses a spend that would exceed the budget.

    Attributes
    ----------
    requested, remaining : Fraction
        In epsilon, of the unit of privacy.
    """

    exit_code = 3

    def __init__(self, message: str, *, requested: Fraction, remaining: Fraction) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining


def is_interruption(error: BaseException) -> bool:
    """Return whether an error is what a library made of an interruption: see its chain."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        if isinstance(link, KeyboardInterrupt):
            return True
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return False
