"""Number of units in each cell, with a cap on the cells of a unit.

A unit in K cells counts min(1, k / K) in each of them, in whole parts of P = 2^20:

    w = floor(P min(1, k / K)) under Laplace noise, floor(P min(1, √(k / K))) under Gaussian noise.

So a unit in at most k cells counts fully, and one in more counts less in each. A published
number of units is too small where many units were in more cells than the cap.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: K floor(P min(1, k / K)) <= k P, over all cells together; nothing about the values or
the number of records is used.
Under Gaussian noise K w² <= k P²: an L2 distance of √k P.
Loss: k P / b with discrete Laplace noise of scale b in every cell; or k P² / r² as a square of μ.
Source: the bound on contributed partitions of user-level libraries (Wilson et al., 2020), by
down-weighting in place of sampling.

Beside a map: two mechanisms on the same records, one loss. The number of units is a stage of its
own, before the stages of the map. It is not derived from the map's weights, although these cost
nothing more: a unit's weight in a cell follows its records there, so that weights times the
declared cells of a unit miss numbers of units by a bias that no noise tells of, and no interval
would hold by the law of the noise.
Loss: the sum ε₁ + ε₂ of both parts, for any unit, present or not; under a δ, which both have, the
sum of their squares of μ. No stage of the map sees the noisy numbers, and none would lose more if
it did. Source: composition (`hexveil.mechanisms.contract`, `hexveil.accounting.promise`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS, Promise, of_amount
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import Stage
from hexveil.mechanisms.presence import AnyUnitPlan, Norm, any_unit_stage, norm_of
from hexveil.mechanisms.presence.presence_allocation import PresenceAllocation
from hexveil.mechanisms.presence.presence_decoding import (
    MISS,
    ReleasedMap,
    noisy_columns,
    weight_interval,
)
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.private_pairs import PrivatePairs

COUNT_MAP = "count map"
MAX_CELL_CAP = 2**20


def _counts(pairs: PrivatePairs, *, n_cells: int, cell_cap: int, norm: Norm) -> Ints:
    """Return the number of units in each cell, in parts. PRIVATE."""
    visited = pairs.of_unit(pairs.per_unit(np.ones_like(pairs.cell)))
    weights = norm.count_weights(cell_cap, visited)
    # Exact: every partial sum is a whole number below 2^53.
    return np.bincount(pairs.cell, weights=weights, minlength=n_cells).astype(np.int64)


@dataclass(frozen=True)
class CountAllocation(AnyUnitPlan):
    """Plan of a map of numbers of units: public numbers alone.

    Attributes
    ----------
    n_cells, cell_cap : int
        Cells of the declared grid; k cells of a unit count fully.
    epsilon : Fraction
    false_openings : float or None
        Expected number of empty cells that are opened; None opens every cell.
    delta : Fraction
        0 for a pure promise.
    """

    n_cells: int
    cell_cap: int
    epsilon: Fraction
    false_openings: float | None = 1.0
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not 1 <= self.cell_cap <= MAX_CELL_CAP:
            raise InputError(f"a cap on cells runs from 1 to {MAX_CELL_CAP:,}.")

    @property
    def law(self) -> NoiseLaw:
        """Noise of every cell."""
        return self.promise.noise(self.cell_cap)

    def stages(self, earlier: Outputs) -> Iterator[Stage]:  # noqa: ARG002  there is one
        """Yield the only stage."""
        cap, law = self.cell_cap, self.law
        counts = partial(_counts, n_cells=self.n_cells, cell_cap=cap, norm=norm_of(law))
        yield any_unit_stage(COUNT_MAP, self.n_cells, law, counts, cap)

    def decode(self, outputs: Outputs) -> ReleasedMap:
        """Return numbers of units; empty cells open with the declared expected number."""
        noisy, least = outputs[COUNT_MAP][0], self.opening(outputs)
        is_open = np.full(self.n_cells, fill_value=True) if least is None else noisy >= least
        return decode_counts(noisy, self.law, is_open)

    kind = "counts"

    def opening(self, outputs: Outputs) -> float | None:  # noqa: ARG002  see ShapeAllocation
        """Return the noisy number, in parts, from which a cell is open; None without a test."""
        if self.false_openings is None:
            return None
        return self.law.quantile(min(self.false_openings / self.n_cells, 0.5))


def decode_counts(noisy: Ints, law: NoiseLaw, is_open: NDArray[np.bool_]) -> ReleasedMap:
    """Return the numbers of units of open cells by their noisy numbers, in parts."""
    units, margin = noisy / PARTS, law.quantile(MISS / 2) / PARTS
    ends = weight_interval(units, law, 1, None, margin)
    return ReleasedMap(is_open, noisy_columns("users", units, ends, is_open))


@dataclass(frozen=True)
class CountedAllocation(AnyUnitPlan):
    """Plan of numbers of units beside a map: public numbers alone.

    Attributes
    ----------
    counts : CountAllocation
        Tests no cell: the map decides which are open.
    statistics : PresenceAllocation or ShapeAllocation
    """

    counts: CountAllocation
    statistics: PresenceAllocation | ShapeAllocation

    def __post_init__(self) -> None:
        if self.counts.delta != self.statistics.delta:
            raise InputError("numbers of units and the statistics beside them have one delta.")

    @property
    def delta(self) -> Fraction:  # type: ignore[override]  # of both parts
        """δ of the promise, 0 of a pure one."""
        return self.statistics.delta

    @property
    def promise(self) -> Promise:
        """Loss of both parts together."""
        return of_amount(self.counts.promise.amount + self.statistics.promise.amount, self.delta)

    def stages(self, earlier: Outputs) -> Iterator[Stage]:
        """Yield the count map, then the stages of the map."""
        yield from self.counts.stages(earlier)
        yield from self.statistics.stages(earlier)
