"""A cell of private records in a study: its user means, and the stamp on derived outputs.

A study draws simulated noise and books nothing, so its results on own records are as private as
the records are: every file and text made of them says PRIVATE, is readable by its owner alone, and
stays out of release folders. Their privacy is the caller's to keep; no guarantee covers them, nor
a choice (of a mechanism, a cap, an ε) that they led to on the records to be released.

The cell is named by its name or number, and counts come from a small file: both are public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.model.cells import CellTable
from hexveil.records.dataset import Dataset

CellSelector = str | int | None
"""A cell's name, or its number from 0, also in digits; None for the only one."""

SHOWN = 3
"""Cells that a message names as examples."""

DIGITS = 18
"""Largest number of digits of a cell's number, and of a count."""


def select_cell(cells: CellTable, cell: CellSelector) -> int:
    """Return the number of the cell that a selector means.

    Parameters
    ----------
    cells : CellTable
    cell : str, int or None
        A name, like "8542d98bfffffff/07:00"; a number from 0; None if there is only one cell.

    Raises
    ------
    InputError
        If there is no such cell, or several.
    """
    names = cells.names()
    if cell is None and len(names) == 1:
        return 0
    if cell is None:
        raise InputError(f"a cell is needed: {some_cells(names)}.")
    if cell in names:
        return names.index(str(cell))
    digits = str(cell)
    if digits.isdecimal() and len(digits) <= DIGITS and int(digits) < len(names):
        return int(digits)
    raise InputError(f"there is no cell {cell!r}; {some_cells(names)}.")


def some_cells(names: Sequence[str]) -> str:
    """Return how to name a cell, with the first few as examples.

    Examples
    --------
    >>> some_cells(("17/06:00", "17/07:00", "18/06:00", "18/07:00"))
    'name one of 4 (17/06:00, 17/07:00, 18/06:00, ...), or its number from 0'
    """
    examples = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    return f"name one of {len(names)} ({examples}), or its number from 0"


STAMP = "PRIVATE: computed from the values of own records; not for publication."
"""The first line of whatever is made of own records."""

NOT_COVERED = (
    "Choices made from these numbers on the records to be released are not covered by the "
    "guarantee."
)

_KEY = b"hexveil.private"


@dataclass(frozen=True, eq=False)
class OwnCell:
    """One cell of own records.

    Attributes
    ----------
    name : str
        Of the cell. Public.
    counts : ndarray of int64, shape (n_users,)
        Samples per user. Public.
    bounds : pair of Fraction
        Of a value. Public.
    user_means : ndarray of float, shape (n_users,)
        PRIVATE. Mean of each user's samples, in value units.
    """

    name: str
    counts: Ints
    bounds: tuple[Fraction, Fraction]
    user_means: Floats = field(repr=False)

    def __repr__(self) -> str:
        return f"OwnCell({self.name!r}, n_users={self.counts.size}, means private)"


def own_cell(data: Dataset, cell: CellSelector) -> OwnCell:
    """Return the counts and user means of a cell.

    Parameters
    ----------
    data : Dataset
    cell : str, int or None
        Its name, or its number from 0.

    Raises
    ------
    InputError
        If there is no such cell.

    Privacy
    -------
    Nothing is protected here: the means are exact up to the quantum, for use in a study whose
    result the caller keeps.
    """
    facts = data.public
    number = select_cell(facts.cells, cell)
    occupancy = facts.occupancy.local()
    of_cell = occupancy.cell == number
    bounds = facts.lattice.lower, facts.lattice.upper
    return OwnCell(
        facts.cells.names()[number], occupancy.n[of_cell], bounds, pair_means(data)[of_cell]
    )


def pair_means(data: Dataset) -> Floats:
    """Return the mean of each (cell, user) pair's samples, in value units. PRIVATE."""
    lattice, n = data.public.lattice, data.public.occupancy.local().n
    # In [0, 1] before it is stretched, so that rounding cannot leave the bounds.
    share = data.sums.total / (n * float(lattice.span_quanta))
    low, high = float(lattice.lower), float(lattice.upper)
    return np.asarray(np.clip(low + (high - low) * share, low, high))


def stamped(table: pa.Table) -> pa.Table:
    """Return a table with metadata that marks it as private."""
    metadata = table.schema.metadata or {}
    return table.replace_schema_metadata({**metadata, _KEY: f"{STAMP} {NOT_COVERED}".encode()})


def is_private(table: pa.Table) -> bool:
    """Return whether a table was made of own records."""
    return _KEY in (table.schema.metadata or {})
