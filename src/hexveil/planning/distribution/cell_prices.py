"""Prices of cells: how a unit's weight is divided over its cells, by public counts alone.

Records of a cell weigh their price. At equal prices fleets weigh by their records, and crowded
cells get far more weight than they need; at prices that fall with a cell's records, thin cells get
more. The prices of least predicted error are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.distribution.bin_noise import PARTS
from hexveil.mechanisms.distribution.binned_map import pair_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.distribution.bin_noise import BinNoise
    from hexveil.model.occupancy import LocalOccupancy

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

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


def choose_prices(occupancy: LocalOccupancy, law: BinNoise) -> PricedCells:
    """Return the prices of least predicted error."""
    records = np.maximum(occupancy.records_per_cell, 1).astype(float)
    candidates = []
    for power in POWERS:
        relative = (records / records.min()) ** -power
        prices = np.maximum(np.rint(PARTS / 16 * relative), 1).astype(np.int64)
        counted = np.minimum(occupancy.n, PARTS) * prices[occupancy.cell]
        priced = law.sizes(occupancy.user, counted, occupancy.n_users)
        for quantile in FLOOR_QUANTILES:
            floor = int(np.quantile(priced, quantile)) if quantile else 0
            weights = pair_weights(occupancy, prices, floor, law)
            error = float(_errors(occupancy, weights, law.deviation).mean())
            candidates.append(PricedCells(prices, floor, error))
    return min(candidates, key=lambda one: one.error)


def weight_variance(occupancy: LocalOccupancy, weights: Ints) -> tuple[Floats, Floats]:
    """Return each cell's weight in units, and the variance of shares by weights unlike records.

    A share by weights differs from the share by records as units differ: by the prior, with the
    variance `BETWEEN_USERS` between units.
    """
    cells = occupancy.n_cells
    total = np.maximum(np.bincount(occupancy.cell, weights, cells), 1.0)
    records = np.bincount(occupancy.cell, occupancy.n, cells)
    differs = weights / total[occupancy.cell] - occupancy.n / records[occupancy.cell]
    off = BETWEEN_USERS * np.bincount(occupancy.cell, differs**2, cells)
    return total / PARTS, np.asarray(off, dtype=np.float64)


def _errors(occupancy: LocalOccupancy, weights: Ints, deviation: float) -> Floats:
    """Return the predicted error of the share below the median of each cell."""
    weight, off = weight_variance(occupancy, weights)
    # Of four bins two lie below the median: their noise, less what the known sum says.
    noise = (deviation / weight) ** 2
    return np.asarray(ABSOLUTE / np.sqrt(1.0 / (noise + off) + BETWEEN_CELLS**-2))
