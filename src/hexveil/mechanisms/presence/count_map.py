"""Number of units in each cell, with a cap on the cells of a unit.

A unit in K cells counts min(1, k / K) in each of them, in whole parts of P = 2^20:

    w = floor(P min(1, k / K)).

So a unit in at most k cells counts fully, and one in more counts as k units in all. A published
number of units is too small where many units were in more cells than the cap.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: K floor(P min(1, k / K)) <= k P, over all cells together; nothing about the values or
the number of records is used.
Loss: k P / b with discrete Laplace noise of scale b in every cell.
Source: the bound on contributed partitions of user-level libraries (Wilson et al., 2020), by
down-weighting in place of sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DONE, DrawnRow, LaplaceNoise, Values
from hexveil.mechanisms.presence.any_unit import N_ACCOUNTS, JointSensitivity, total_over_units
from hexveil.mechanisms.presence.contribution import PARTS
from hexveil.mechanisms.presence.map_stage import map_scale

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.mechanisms.contract import (
        Floats,
        Ints,
        NoiseRequest,
        Outputs,
        PrivateSums,
        SensitivityReport,
        Stage,
    )
    from hexveil.model.private_pairs import PrivatePairs

COUNT_MAP = "count map"
MISS = 0.05
MAX_CELL_CAP = 2**20


@dataclass(frozen=True)
class UnitCounts(DrawnRow):
    """Noisy number of units in each cell, in parts; the stage of `CountAllocation`.

    Attributes
    ----------
    n_cells, cell_cap : int
        k cells of a unit count fully.
    scale : float
        b, in parts.
    """

    n_cells: int
    cell_cap: int
    scale: float
    name = COUNT_MAP

    @property
    def entries(self) -> int:
        """A number per cell."""
        return self.n_cells

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return Laplace noise of one scale for all cells."""
        return (LaplaceNoise(np.full(self.n_cells, self.scale)),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that any unit moves all numbers together by at most k P."""
        return (JointSensitivity(self.cell_cap * PARTS),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the numbers of units, in parts. PRIVATE."""
        return (Values(total_over_units(sums, self.counts)[None]),)

    def counts(self, pairs: PrivatePairs) -> Ints:
        """Return the number of units in each cell, in parts. PRIVATE."""
        visited = pairs.of_unit(pairs.per_unit(np.ones_like(pairs.cell)))
        weights = PARTS * self.cell_cap // np.maximum(visited, self.cell_cap)
        # Exact: every partial sum is a whole number below 2^53.
        return np.bincount(pairs.cell, weights=weights, minlength=self.n_cells).astype(np.int64)


@dataclass(frozen=True, eq=False)
class UnitCountMap(ReadOnlyArrays):
    """Released numbers of units, every cell of the grid. Public.

    Attributes
    ----------
    is_open : ndarray of bool, shape (n_cells,)
        Numbers of closed cells are NaN.
    units, units_low, units_high : ndarray of float, shape (n_cells,)
        Number of units under the cap, and its 95 % interval.
    """

    is_open: NDArray[np.bool_]
    units: Floats
    units_low: Floats
    units_high: Floats


@dataclass(frozen=True)
class CountAllocation:
    """Plan of a map of numbers of units: public numbers alone.

    Attributes
    ----------
    n_cells, cell_cap : int
        Cells of the declared grid; k cells of a unit count fully.
    epsilon : Fraction
    false_openings : float or None
        Expected number of empty cells that are opened; None opens every cell.
    """

    n_cells: int
    cell_cap: int
    epsilon: Fraction
    false_openings: float | None = 1.0
    kind = "presence-counts"

    def __post_init__(self) -> None:
        if not 1 <= self.cell_cap <= MAX_CELL_CAP:
            raise InputError(f"a cap on cells runs from 1 to {MAX_CELL_CAP:,}.")

    @property
    def scale(self) -> float:
        """Noise scale of every cell, in parts."""
        return map_scale(self.epsilon, self.cell_cap * PARTS)

    def losses(self) -> Floats:
        """Return the loss of any unit, shape (1,): booked."""
        return np.full(N_ACCOUNTS, round_up(self.epsilon))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the only stage, then DONE."""
        if COUNT_MAP in earlier:
            return DONE
        return UnitCounts(self.n_cells, self.cell_cap, self.scale)

    def decode(self, outputs: Outputs) -> UnitCountMap:
        """Return numbers of units; empty cells open with the declared expected number."""
        noisy = outputs[COUNT_MAP][0]
        is_open = np.full(self.n_cells, fill_value=True)
        if self.false_openings is not None:
            tail = min(self.false_openings / self.n_cells, 0.5)
            is_open = noisy >= laplace_quantile(tail, self.scale)
        margin = laplace_quantile(MISS / 2, self.scale)
        columns = (np.maximum((noisy + shift) / PARTS, 0.0) for shift in (0, -margin, margin))
        return UnitCountMap(is_open, *(np.where(is_open, column, np.nan) for column in columns))


def laplace_quantile(tail: float, scale: float) -> int:
    """Return the smallest t >= 1 with P(X >= t) <= tail, X discrete Laplace of this scale.

    P(X >= t) = exp(-t / b) / (1 + exp(-1 / b)) for t >= 1.

    Examples
    --------
    >>> round(laplace_quantile(0.025, 1e6) / 1e6, 3)
    2.996
    """
    threshold = -scale * np.log(tail * (1.0 + np.exp(-1.0 / scale)))
    return max(int(np.ceil(threshold)), 1)
