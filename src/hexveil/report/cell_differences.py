"""Differences between two cells of one release: one rule for Python, page and docs.

The number of a cell is the one that the page shows, n, with its 95% interval from l to h. The errors
of two cells are joined by their parts:

- **Bias** (a cap on contributions, weights) has a proven bound B, is no draw, and adds up.
- **Everything else**, noise above all, is independent between cells and joins as the root of the
  squares (square-and-add; Newcombe, Statistics in Medicine 17, 1998; Zou and Donner, 27, 2008).

So the interval of n1 - n2 is

    from  n1 - n2 - sqrt((n1 - l1 - B1)² + (h2 - n2 - B2)²) - B1 - B2
    to    n1 - n2 + sqrt((h1 - n1 - B1)² + (n2 - l2 - B2)²) + B1 + B2,

and two cells are told apart where it leaves out 0. Estimates and smoothed numbers have no separate
bias: their intervals hold all of it. What their cells share (the centre that they are shrunk to,
the range that they were clipped to, groups of neighbours) moves both the same way, so it cancels
in a difference, and the rule is wider than needed. Noise that cells share (`user_residuals`) adds
up instead. Under private presence a cell may have been opened by noise alone, and its average is noise
then: cells are told apart only where the lower ends of both weights are above 0.

Numbers are taken with two digits more than the page shows, intervals rounded outwards: the page's
script computes with the same numbers.

Post-processing of released numbers: it costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.report.clipping_text import CUT_OFF, get_strategy

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.report.manifest_view import ManifestView

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]

FURTHER_DIGITS = 2
"""Digits of a difference beyond those that the page shows of a number."""
_SHARED_NOISE = "user_residuals"
_HAIR = 1e-6
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
    adds_noise : bool
        Whether cells share noise.
    """

    number: Floats
    below: Floats
    above: Floats
    bias: Floats
    is_used: Bools
    largest: float
    adds_noise: bool

    @classmethod
    def of(cls, table: pa.Table, view: ManifestView) -> ComparableNumbers:
        """Return the numbers that the page shows of a statistic of a release."""
        number, low, high = shown_interval(table, view)
        below, above = np.maximum(number - low, 0.0), np.maximum(high - number, 0.0)
        bias = np.minimum(_bias(table, view, below, above), np.minimum(below, above))
        digits = view.decimals + FURTHER_DIGITS
        weight = _numbers(table, "weight_low") if "weight_low" in table.column_names else number
        return cls(
            np.round(number, digits),
            _up(below - bias, digits),
            _up(above - bias, digits),
            _up(bias, digits),
            np.isfinite(number) & ((weight > 0.0) | ("weight_low" not in table.column_names)),
            np.inf if view.statistic == "users" else view.range,
            get_strategy(view.steps) == _SHARED_NOISE,
        )

    def differ(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> Differences:
        """Return the differences of pairs of cells, by their rows: the first minus the second."""
        join = np.add if self.adds_noise else np.hypot
        value = self.number[first] - self.number[second]
        bias = self.bias[first] + self.bias[second]
        low = value - join(self.below[first], self.above[second]) - bias
        high = value + join(self.above[first], self.below[second]) + bias
        return Differences(
            value,
            np.maximum(low, -self.largest),
            np.minimum(high, self.largest),
            ((low > 0.0) | (high < 0.0)) & self.is_used[first] & self.is_used[second],
        )


@dataclass(frozen=True, eq=False)
class Differences(ReadOnlyArrays):
    """Differences of pairs of cells.

    Attributes
    ----------
    value, low, high : ndarray of float, shape (n_pairs,)
        First number minus second, and its 95% interval.
    is_told : ndarray of bool, shape (n_pairs,)
        Whether the cells can be told apart.
    """

    value: Floats
    low: Floats
    high: Floats
    is_told: Bools


def shown_interval(table: pa.Table, view: ManifestView) -> tuple[Floats, Floats, Floats]:
    """Return the number that the page shows of each cell, and its interval; NaN where closed."""
    if view.statistic in table.column_names:
        # Under private presence the estimate has the name of the statistic.
        number, low, high = (_numbers(table, f"{view.statistic}{e}") for e in ("", "_low", "_high"))
        return number, low, high
    return (view.shown_numbers(table), *view.shown_limits(table))


def unknown_ends(table: pa.Table, view: ManifestView) -> tuple[Bools, Bools]:
    """Return whether the lower and the upper end of each cell's interval are unknown.

    Where a range that was found privately cut a cell off, its interval reaches to the bound.
    """
    name = f"{view.statistic}_quality"
    if name not in table.column_names:
        none = np.zeros(table.num_rows, dtype=np.bool_)
        return none, none
    is_cut = np.array(table[name].to_pylist()) == CUT_OFF
    _, low, high = shown_interval(table, view)
    lowest, highest = view.limits
    return is_cut & (low <= lowest), is_cut & (high >= highest)


def _bias(table: pa.Table, view: ManifestView, below: Floats, above: Floats) -> Floats:
    """Return the bound of the bias of the numbers shown, where it is stated beside their noise."""
    if view.statistic in table.column_names or view.estimator(table) != "raw":
        return np.zeros_like(below)
    if f"{view.statistic}_bias" in table.column_names:
        return _numbers(table, f"{view.statistic}_bias")
    # A root's bias and noise cannot be taken apart: all of it adds up.
    return np.minimum(below, above) if view.statistic == "sd" else np.zeros_like(below)


def _up(numbers: Floats, digits: int) -> Floats:
    steps = np.maximum(numbers, 0.0) * 10.0**digits
    return np.asarray(np.ceil(steps - _HAIR) / 10.0**digits + 0.0)


def _numbers(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
