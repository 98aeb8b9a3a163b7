"""Released numbers of cells with the parts of their error, for averages and differences.

The error of a number is noise plus bias. Noise is drawn for each cell, so it averages out and adds
as independent numbers do. Bias (clipping, weights, private ranges) is no draw, and cells can share
it: it adds up linearly. Three kinds of parts:

- Within public bounds: noise of the released scale, bias up to the released bound. Proven,
  whatever the values.
- Under a private range, for a difference: the interval of the released posterior, all of it as if
  it were noise. By a model.
- Under a private range, for an average: noise of the released scale. The bias is the
  predicted effect of weights and clipping, `error - scale`, the mean absolute value of a normal
  number of which it takes the 95 percent bound, as if all cells had it in common. Posterior
  estimates are not averaged: each is shrunk towards the map's centre, and an average of them would
  lose what the averaged cells have in common. Where a range cuts a cell off, the bias extends to
  the posterior's estimate and the 95 percent bound of its expected error, at most to the end of the
  cell's interval; without a posterior, to that end. By a model.

Noise is Laplace, or under a δ Gaussian: then 95 percent bounds of independent numbers add up as the
root of the sum of their squares, exactly.

An average over cells weighs each by its records r_c, public in the model "values", with R their
sum: Σ r_c y_c / R from noisy numbers y_c = m_c + noise_c + bias_c is off by Σ r_c noise_c / R, a
sum of independent numbers whose bound is exact (laplace_sums.py), and by Σ r_c bias_c / R, at most
Σ r_c |bias_c| / R, which does not average out. The interval adds both, so it covers the average of
the records with probability at least 95 percent where both parts are proven. Noise that cells share
adds up linearly: its bounds are averaged.

Cells of maps with private presence (open_cells.py), and averages, have the same type.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.publishing.derived.laplace_sums import sum_bound

Basis = Literal["proven", "model"]


@dataclass(frozen=True, eq=False)
class CellNumbers(ReadOnlyArrays):
    """Numbers of cells: the true one is from number - low parts to number + high parts.

    Attributes
    ----------
    number : ndarray of float, shape (n_cells,)
        Not clamped to the bounds, in the statistic's units.
    noise_low, noise_high : ndarray of float, shape (n_cells,)
        95 percent bounds of the noise, below and above.
    bias_low, bias_high : ndarray of float, shape (n_cells,)
        Largest bias, below and above.
    scale : ndarray of float, shape (n_cells,)
        Scale of the noise where it is one Laplace number; NaN elsewhere.
    basis : "proven" or "model"
    is_gaussian : bool
        Whether all noise is Gaussian.
    empty : ndarray of float, shape (n_cells,), or float
        Chance that noise alone opened a cell of a map; 0 elsewhere.
    """

    number: Floats
    noise_low: Floats
    noise_high: Floats
    bias_low: Floats
    bias_high: Floats
    scale: Floats
    basis: Basis
    is_gaussian: bool = False
    empty: Floats | float = 0.0

    @classmethod
    def of_interval(cls, number: Floats, low: Floats, high: Floats) -> CellNumbers:
        """Return numbers whose intervals hold by a model, all of it as if it were noise."""
        zero, unknown = np.zeros_like(number), np.full_like(number, np.nan)
        below, above = np.maximum(number - low, 0.0), np.maximum(high - number, 0.0)
        return cls(number, below, above, zero, zero, unknown, "model")

    @property
    def low(self) -> Floats:
        """Lower ends of the intervals."""
        return self.number - self.noise_low - self.bias_low

    @property
    def high(self) -> Floats:
        """Upper ends of the intervals."""
        return self.number + self.noise_high + self.bias_high

    def take(self, rows: Ints) -> CellNumbers:
        """Return the numbers of some cells."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        taken: dict[str, Any] = {
            name: column[rows] for name, column in columns.items() if isinstance(column, np.ndarray)
        }
        return replace(self, **taken)


def average_cells(numbers: CellNumbers, records: Floats, group: Ints) -> CellNumbers:
    """Return the record-weighted average of each group of cells; see the module.

    Parameters
    ----------
    numbers : CellNumbers
    records : ndarray of float, shape (n_cells,)
        Above 0.
    group : ndarray of int64, shape (n_cells,)
        Group of each cell, from 0 to n_groups - 1; each has a cell.
    """
    weight = records / np.bincount(group, records)[group]

    def averaged(column: Floats) -> Floats:
        return np.asarray(np.bincount(group, weight * column), dtype=np.float64)

    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group))[:-1]
    bounds = numbers.noise_low if numbers.is_gaussian else numbers.scale
    parts = np.split((weight * bounds)[order], ends)
    # Bounds of Gaussian numbers are multiples of deviations, whose squares add up.
    of_sum = np.linalg.norm if numbers.is_gaussian else sum_bound
    noise = np.array([of_sum(part) for part in parts])
    return CellNumbers(
        averaged(numbers.number),
        noise,
        noise,
        averaged(numbers.bias_low),
        averaged(numbers.bias_high),
        # A lone cell keeps its one Laplace number.
        np.where(np.bincount(group) == 1, averaged(numbers.scale), np.nan),
        numbers.basis,
        numbers.is_gaussian,
    )
