"""Data that figures are drawn from in place of the papers' own: counts, records, built-in sets.

Counts are public by the promise (neighbours: same users, same counts). User means of own records
are private: every figure of them is stamped, and only studies that read values read them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from hexveil import Occupancy
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.records.dataset import Dataset
from hexveil.simulation.own_cells import CellSelector, pair_means, select_cell

Bounds = tuple[Fraction, Fraction]

MANY_CELLS = ("cell", "user", "n")
"""Columns of a file of counts of several cells."""


@dataclass(frozen=True, eq=False, repr=False)
class StudyData:
    """Counts of cells, and user means where there are any.

    Attributes
    ----------
    name : str
        Public.
    occupancy : Occupancy
        Samples per cell and user. Public.
    bounds : pair of Fraction, optional
        Of a value; without them those of the papers.
    means : ndarray of float, shape (n_pairs,), optional
        Mean of each (cell, user) pair's samples, in value units.
    private : bool
        Whether the means are those of own records.
    number : int
        The cell of figures on one cell.
    """

    name: str
    occupancy: Occupancy
    bounds: Bounds | None = None
    means: Floats | None = None
    private: bool = False
    number: int = 0

    def __repr__(self) -> str:
        return f"StudyData({self.name!r}, {self.occupancy!r})"

    @property
    def counts(self) -> Ints:
        """Samples per user of the one cell. Public."""
        return np.asarray(self.occupancy.n[self._pairs])

    @property
    def user_means(self) -> Floats | None:
        """Mean of each user of the one cell, or None without values."""
        return None if self.means is None else self.means[self._pairs]

    @property
    def _pairs(self) -> slice:
        start = self.occupancy.start
        return slice(int(start[self.number]), int(start[self.number + 1]))


def of_counts(counts: str | Path | NDArray[np.int64] | Occupancy) -> StudyData:
    """Return public counts: a file, a list of samples per user, or an occupancy.

    Parameters
    ----------
    counts : path, array_like of int or Occupancy
        A file as `read_counts` reads it has one cell. A CSV or
        Parquet file with the columns cell, user and n has several.

    Examples
    --------
    >>> of_counts([9, 3, 1]).counts.tolist()
    [9, 3, 1]
    """
    if isinstance(counts, Occupancy):
        return fullest(StudyData("own counts", counts))
    if not isinstance(counts, (str, Path)):
        return StudyData("own counts", one_cell(np.asarray(counts)))
    path = Path(counts)
    table = _of_several_cells(path)
    occupancy = one_cell(read_counts(path)) if table is None else _occupancy(table, path)
    return fullest(StudyData(path.name, occupancy))


def of_records(data: Dataset, name: str, cell: CellSelector = None) -> StudyData:
    """Return the counts and user means of own records. PRIVATE.

    Parameters
    ----------
    data : Dataset
    name : str
        Of the records, for titles.
    cell : str or int, optional
        Of figures on one cell: its name or its number from 0; by default the cell of most users.
    """
    facts = data.public
    own = StudyData(
        name,
        facts.occupancy.local(),
        (facts.lattice.lower, facts.lattice.upper),
        pair_means(data),
        private=True,
    )
    return fullest(own) if cell is None else replace(own, number=select_cell(facts.cells, cell))


def fullest(data: StudyData) -> StudyData:
    """Return the data with the cell of most users, the first of several, as the one cell."""
    return replace(data, number=int(np.argmax(data.occupancy.users_per_cell)))


def one_cell(counts: Ints) -> Occupancy:
    """Return an occupancy of one cell."""
    return Occupancy.from_dense(counts[:, None])


def _of_several_cells(path: Path) -> pa.Table | None:
    """Return a table with the columns cell, user and n; None for a file of another shape."""
    try:
        if path.suffix.lower() == ".csv":
            table = pyarrow.csv.read_csv(path)
        elif path.suffix.lower() == ".parquet":
            table = pyarrow.parquet.read_table(path)
        else:
            return None
    # `read_counts` reads the file again, and says why it cannot be read.
    except (OSError, pa.ArrowInvalid):
        return None
    named = set(MANY_CELLS) <= set(table.column_names)
    return table.select(list(MANY_CELLS)) if named else None


def _occupancy(table: pa.Table, path: Path) -> Occupancy:
    """Return the occupancy of counts of several cells; refuse damaged ones."""
    n = table["n"]
    integers = pa.types.is_integer(n.type) and not any(column.null_count for column in table)
    if not integers or not len(table) or pc.min(n).as_py() < 1:
        raise InputError(
            f"the counts {path} need a cell, a user and a whole number n of at least 1 in each row."
        )
    # Equal pairs are added up: a file may have a row for each day.
    cell, user = (
        np.asarray(table[name].combine_chunks().dictionary_encode().indices)
        for name in ("cell", "user")
    )
    return Occupancy.from_coo(cell, user, np.asarray(n))


def read_counts(file: str | Path) -> Ints:
    """Return the counts of a text file, one per user.

    Parameters
    ----------
    file : str or Path
        A JSON list of whole numbers, or a CSV file with one column of them, with or without a
        header.

    Raises
    ------
    InputError
        If it cannot be read as such.
    """
    path = Path(file)
    try:
        # An error of decoding would hold the file's content: what is no text is marked instead.
        text = path.read_text("utf-8", errors="replace").strip()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; check the name of the counts.") from None
    except OSError as error:
        raise InputError(f"the counts {path} cannot be read: {error.strerror}.") from None
    if "\ufffd" in text:
        raise InputError(f"the counts {path} cannot be read: it is no text.")
    is_list = text.startswith("[") and text.endswith("]")
    numbers = [line.strip() for line in (text[1:-1].split(",") if is_list else text.splitlines())]
    if not is_list and numbers and not numbers[0].isdecimal():
        del numbers[0]
    if not numbers or not all(re.fullmatch(r"[1-9]\d{0,17}", number) for number in numbers):
        raise InputError(
            f"the counts {path} must be whole numbers of at least 1, one per user: a JSON list "
            "like [9, 3, 1], or one CSV column."
        )
    return np.array(numbers, dtype=np.int64)
