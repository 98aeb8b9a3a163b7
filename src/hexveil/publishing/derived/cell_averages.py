"""Record-weighted averages over cells, from noisy numbers alone, with their errors.

With r_c records in cell c (public in the model "values") and R their sum, the average of the
records of cells C is Σ r_c m_c / R. Its estimate Σ r_c y_c / R from noisy numbers y_c = m_c +
noise_c + bias_c is off by

    Σ r_c noise_c / R,   a sum of independent Laplace numbers of scales r_c b_c / R (or Gaussian
                         ones, under a δ), and
    Σ r_c bias_c / R,    at most Σ r_c |bias_c| / R: it does not average out.

The interval adds the 95 percent bound of the first sum (laplace_sums.py) to the largest second one,
so it covers the average of the records with probability at least 95 percent where both parts are
proven (cell_numbers.py). Noise that cells share adds up linearly: its bounds are averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.publishing.derived.cell_numbers import CellNumbers
from hexveil.publishing.derived.laplace_sums import sum_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats


def average_cells(numbers: CellNumbers, records: Floats, group: NDArray[np.int64]) -> CellNumbers:
    """Return the record-weighted average of each group of cells.

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
