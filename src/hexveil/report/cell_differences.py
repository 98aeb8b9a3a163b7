"""Differences between two cells of one release: one rule for Python, page and docs.

The number of a cell is the one that the page shows, n, with its 95% interval from l to h. The
errors of two cells are joined by their parts:

- **Bias** (a cap on contributions, weights) has a proven bound B, is no draw, and adds up.
- **Everything else**, noise above all, is independent between cells and joins as the root of the
  squares (square-and-add; Newcombe, Statistics in Medicine 17, 1998; Zou and Donner, 27, 2008).

So the interval of n1 - n2 is

    from  n1 - n2 - sqrt((n1 - l1 - B1)² + (h2 - n2 - B2)²) - B1 - B2
    to    n1 - n2 + sqrt((h1 - n1 - B1)² + (n2 - l2 - B2)²) + B1 + B2,

and two cells are told apart where it leaves out 0. Estimates and smoothed numbers have no separate
bias: their intervals hold all of it. What their cells share (the centre that they are shrunk to,
the range that they were clipped to, groups of neighbours) moves both the same way, so it cancels in
a difference, and the rule is wider than needed. Under private presence a cell may have been opened
by noise alone, and its average is noise then: cells are told apart only where the lower ends of
both weights are 1 or more.

Numbers are taken with two digits more than the page shows, intervals rounded outwards: the page's
script computes with the same numbers.

Post-processing of released numbers: it costs no privacy.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.report.manifest_view import ManifestView, numbers_of
from hexveil.report.templates import render_sentence

FURTHER_DIGITS = 2
"""Digits of a difference beyond those that the page shows of a number."""
_HAIR = 1e-6
_PRINTED = 9
"""Tolerance of rounding outwards, in steps."""


@dataclass(frozen=True, eq=False)
class ComparableNumbers(ReadOnlyArrays):
    """The numbers of a statistic with the parts of their error; NaN where a cell has none.

    Attributes
    ----------
    number : ndarray of float, shape (n_cells,)
    below, above : ndarray of float, shape (n_cells,)
        Distances to the ends of the 95% interval, without bias.
    bias : ndarray of float, shape (n_cells,)
    is_used : ndarray of bool, shape (n_cells,)
        Whether it is told that any unit was there.
    largest : float
        Largest difference that two cells can have.
    """

    number: Floats
    below: Floats
    above: Floats
    bias: Floats
    is_used: Bools
    largest: float

    @classmethod
    def of(cls, table: pa.Table, view: ManifestView) -> ComparableNumbers:
        """Return the numbers that the page shows of a statistic of a release."""
        number, (low, high) = view.shown_numbers(table), view.shown_limits(table)
        below, above = np.maximum(number - low, 0.0), np.maximum(high - number, 0.0)
        bias = np.minimum(_bias(table, view, below, above), np.minimum(below, above))
        digits = view.decimals + FURTHER_DIGITS
        is_used = np.isfinite(number)
        # Of a number of units 0 is one like any other.
        if "weight_low" in table.column_names and view.statistic != "users":
            is_used &= np.floor(np.nan_to_num(numbers_of(table, "weight_low"))) > 0.0
        return cls(
            np.round(number, digits),
            _up(below - bias, digits),
            _up(above - bias, digits),
            _up(bias, digits),
            is_used,
            np.inf if view.statistic == "users" else view.range,
        )

    def at_rows(self, rows: Ints) -> ComparableNumbers:
        """Return the numbers of other rows; -1 is a cell without numbers."""
        names = ("number", "below", "above", "bias")
        others: Any = {name: np.append(getattr(self, name), np.nan)[rows] for name in names}
        return replace(self, is_used=np.append(self.is_used, False)[rows], **others)

    def columns(self) -> dict[str, list[Any] | None]:
        """Return the columns that the page's script computes differences from."""
        numbers = {"number": self.number, "below": self.below, "above": self.above}
        columns: dict[str, list[Any] | None] = {
            name: [float(number) if np.isfinite(number) else None for number in column]
            for name, column in (numbers | {"bias": self.bias}).items()
        }
        # What all cells have in common is left out, also for the statistic chosen before.
        columns["used"] = None if self.is_used.all() else self.is_used.astype(int).tolist()
        return columns if np.nansum(self.bias) else columns | {"bias": None}

    def differ(self, first: Ints, second: Ints) -> tuple[Floats, Floats, Floats, Bools]:
        """Return the differences of pairs of cells, by their rows: the first minus the second.

        And the ends of their 95% intervals, and whether the cells can be told apart.
        """
        value = self.number[first] - self.number[second]
        bias = self.bias[first] + self.bias[second]
        low = value - np.hypot(self.below[first], self.above[second]) - bias
        high = value + np.hypot(self.above[first], self.below[second]) + bias
        is_told = ((low > 0.0) | (high < 0.0)) & self.is_used[first] & self.is_used[second]
        return value, np.maximum(low, -self.largest), np.minimum(high, self.largest), is_told


@dataclass(frozen=True)
class CellDifference:
    """The difference between two cells of a release, and whether they can be told apart.

    Attributes
    ----------
    first, second : str
        Names of the cells.
    statistic : str
        Prefix of its columns, such as "mean".
    unit : str
        Of measure; "" where there is none.
    difference, low, high : float
        Number of the first cell minus that of the second, and its 95% interval. Where a range cut a
        cell off, an end that is not known is the largest difference that there can be.
    is_told_apart : bool
        Whether the interval leaves out 0, so that the cells differ with 95% confidence; under
        private presence also, whether it is told that there were units in both.
    """

    first: str
    second: str
    statistic: str
    unit: str
    difference: float
    low: float
    high: float
    is_told_apart: bool

    def __str__(self) -> str:
        return render_sentence("differences.txt", "difference", found=self)


def difference_of(table: pa.Table, view: ManifestView, first: str, second: str) -> CellDifference:
    """Return the difference of two cells of a release in the statistic that is shown.

    Raises
    ------
    InputError
        If a cell is not in the table or has no number, or both are one cell.
    """
    names, numbers = table["cell"].to_pylist(), ComparableNumbers.of(table, view)
    rows = [np.array([_row_of(names, name, numbers)]) for name in (first, second)]
    if first == second:
        raise InputError(f"both cells are {first!r}; name two cells of the column 'cell'.")
    *numbers_of_pair, is_told = numbers.differ(*rows)
    value, low, high = (round(float(number[0]), _PRINTED) for number in numbers_of_pair)
    labels = first, second, view.statistic, view.unit_text
    return CellDifference(*labels, value, low, high, is_told_apart=bool(is_told[0]))


def _row_of(names: list[str], name: object, numbers: ComparableNumbers) -> int:
    if name not in names:
        similar = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
        hint = f"did you mean {similar[0]!r}?" if similar else "name one of the column 'cell'."
        raise InputError(f"the release has no cell {name!r}; {hint}")
    row = names.index(str(name))
    if not np.isfinite(numbers.number[row]):
        raise InputError(f"the cell {name!r} is closed and has no number; name an open cell.")
    return row


def _bias(table: pa.Table, view: ManifestView, below: Floats, above: Floats) -> Floats:
    """Return the bound of the bias of the numbers shown, where it is stated beside their noise."""
    if view.estimator(table) != "raw":
        return np.zeros_like(below)
    if f"{view.statistic}_bias" in table.column_names:
        return numbers_of(table, f"{view.statistic}_bias")
    # A root's bias and noise cannot be taken apart: all of it adds up.
    return np.minimum(below, above) if view.statistic == "sd" else np.zeros_like(below)


def _up(numbers: Floats, digits: int) -> Floats:
    steps = np.maximum(numbers, 0.0) * 10.0**digits
    return np.asarray(np.ceil(steps - _HAIR) / 10.0**digits + 0.0)
