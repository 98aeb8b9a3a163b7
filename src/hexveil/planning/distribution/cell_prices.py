"""Prices of cells: how a unit's weight is divided over its cells, by public counts alone.

Records of a cell weigh their price. At equal prices fleets weigh by their records, and crowded
cells get far more weight than they need; at prices that fall with a cell's records, thin cells get
more. The prices of least predicted error are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.distribution.priced_weights import (
    PricedWeights,
    cell_totals,
    unit_sizes,
    weigh,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.occupancy import Occupancy, Pairs


LARGEST_FLOOR = 2**62
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
FLOOR_QUANTILES = (0.0, 0.1, 0.25, 0.5)
BETWEEN_USERS = 0.05
"""Assumed variance of a bin's share between the units of a cell: prior."""
BETWEEN_CELLS = 0.15
"""Assumed standard deviation of a cumulative share between cells: prior."""
ABSOLUTE = float(np.sqrt(2.0 / np.pi))


@dataclass(frozen=True, eq=False)
class PricedCells(ReadOnlyArrays):
    """Prices, and the predicted error of cumulative shares.

    Attributes
    ----------
    prices : ndarray of int64, shape (n_cells,)
    floor : int
    error : float
        Predicted absolute error of the share below the median, on average over cells.
    """

    prices: Ints
    floor: int
    error: float

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        if not ((self.prices >= 1) & (self.prices <= PARTS)).all():
            raise InputError("its prices are not one whole number from 1 to 2^20 per cell.")
        if not 0 <= self.floor <= LARGEST_FLOOR or not 0 <= self.error < np.inf:
            raise InputError("its floor or its predicted error is none that a plan has.")


def choose_prices(occupancy: Occupancy, law: NoiseLaw) -> PricedCells:
    """Return the prices of least predicted error."""
    records = np.maximum(occupancy.records_per_cell, 1).astype(float)
    candidates = []
    for power in POWERS:
        relative = (records / records.min()) ** -power
        prices = np.maximum(np.rint(PARTS / 16 * relative), 1).astype(np.int64)
        priced = unit_sizes(occupancy, prices, law)
        floors = [int(np.quantile(priced, level)) if level else 0 for level in FLOOR_QUANTILES]
        # All floors at once: pairs may lie elsewhere, where each question takes a job.
        query = partial(_weights_of_floors, floors=floors)
        columns = occupancy.map_cells(query, (prices,), (priced,))
        for floor, total, differs in zip(floors, columns[::2], columns[1::2], strict=True):
            error = float(_errors(*_variances(total, differs), law.number_deviation / PARTS).mean())
            candidates.append(PricedCells(prices, floor, error))
    return min(candidates, key=lambda priced_cells: priced_cells.error)


def weight_variance(weights: PricedWeights) -> tuple[Floats, Floats]:
    """Return each cell's weight in units, and the variance of shares by weights unlike records.

    A share by weights differs from the share by records as units differ: by the prior, with the
    variance `BETWEEN_USERS` between units.
    """
    return _variances(*weights.map_cells(_totals_and_differences))


def _variances(total: Ints, differs: Floats) -> tuple[Floats, Floats]:
    return np.maximum(total, 1.0) / PARTS, BETWEEN_USERS * differs


def _weights_of_floors(
    pairs: Pairs, prices: Ints, priced: Ints, *, floors: Sequence[int]
) -> tuple[Floats | Ints, ...]:
    """Return both figures of each floor, one floor after another."""
    columns: list[Floats | Ints] = []
    for floor in floors:
        weight = weigh(pairs, prices, np.maximum(priced, max(floor, 1)))
        columns += _totals_and_differences(pairs, weight)
    return tuple(columns)


def _totals_and_differences(pairs: Pairs, weight: Ints) -> tuple[Ints, Floats]:
    """Return the weight of each cell, and Σ (share by weight - share by records)²."""
    total, records = cell_totals(pairs, weight), cell_totals(pairs, pairs.n)
    differs = weight / np.maximum(total, 1.0)[pairs.cell] - pairs.n / records[pairs.cell]
    squares = np.bincount(pairs.cell, differs**2, pairs.n_cells)
    return total, np.asarray(squares, dtype=np.float64)


def _errors(weight: Floats, mismatch: Floats, deviation: float) -> Floats:
    """Return the predicted error of the share below the median of each cell."""
    # Of four bins two lie below the median: their noise, less what the known sum says.
    noise = (deviation / weight) ** 2
    return np.asarray(ABSOLUTE / np.sqrt(1.0 / (noise + mismatch) + BETWEEN_CELLS**-2))
