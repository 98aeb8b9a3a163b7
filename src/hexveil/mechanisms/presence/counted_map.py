"""Numbers of units beside a map: two mechanisms on the same records, one loss.

The number of units is a stage of its own (`count_map`), before the stages of the map. It is not
derived from the map's weights, although these cost nothing more: a unit's weight in a cell follows
its records there, so that weights times the declared cells of a unit miss numbers of units by a
bias that no noise tells of, and no interval would hold by the law of the noise.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: stated by each stage (`count_map`, and those of the map).
Loss: the sum ε₁ + ε₂ of both parts, for any unit, present or not; under a δ, which both have, the
sum of their squares of μ. No stage of the map sees the noisy numbers, and none would lose more if
it did.
Source: composition (`hexveil.mechanisms.contract`, `hexveil.accounting.gaussian_composition`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hexveil.accounting.promise import Promise, of_amount
from hexveil.base.errors import InputError
from hexveil.mechanisms.presence.any_unit import booked_losses
from hexveil.mechanisms.presence.count_map import (
    COUNT_MAP,
    CountAllocation,
    UnitCountMap,
    decode_counts,
)
from hexveil.mechanisms.presence.presence_allocation import PresenceAllocation
from hexveil.mechanisms.presence.shapes.shape_allocation import ShapeAllocation

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Outputs, Stage
    from hexveil.mechanisms.presence.presence_decoding import PresenceMap
    from hexveil.mechanisms.presence.shapes.shape_decoding import ShapeMap

MapAllocation: TypeAlias = PresenceAllocation | ShapeAllocation


@dataclass(frozen=True, eq=False)
class CountedMap:
    """A released map and the numbers of units in its open cells. Public.

    Attributes
    ----------
    statistics : PresenceMap or ShapeMap
    counts : UnitCountMap
        NaN where the map is closed.
    """

    statistics: PresenceMap | ShapeMap
    counts: UnitCountMap

    @property
    def is_open(self) -> NDArray[np.bool_]:
        """Whether each cell is published: decided by the map alone."""
        return self.statistics.is_open


@dataclass(frozen=True)
class CountedAllocation:
    """Plan of numbers of units beside a map: public numbers alone.

    Attributes
    ----------
    counts : CountAllocation
        Tests no cell: the map decides which are open.
    statistics : PresenceAllocation or ShapeAllocation
    """

    counts: CountAllocation
    statistics: MapAllocation

    def __post_init__(self) -> None:
        if self.counts.delta != self.statistics.delta:
            raise InputError("numbers of units and the statistics beside them have one delta.")

    @property
    def delta(self) -> Fraction:
        """δ of the promise, 0 of a pure one."""
        return self.statistics.delta

    @property
    def promise(self) -> Promise:
        """Loss of both parts together."""
        return of_amount(self.counts.promise.amount + self.statistics.promise.amount, self.delta)

    def losses(self) -> Floats:
        """Return the loss of any unit, shape (1,): booked."""
        return booked_losses(self.promise)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage after these outputs: the count map, then the stages of the map."""
        if COUNT_MAP not in earlier:
            return self.counts.next_stage(earlier)
        return self.statistics.next_stage(earlier)

    def decode_counts(self, outputs: Outputs, is_open: NDArray[np.bool_]) -> UnitCountMap:
        """Return the numbers of units in the open cells of the map. Post-processing."""
        return decode_counts(outputs[COUNT_MAP][0], self.counts.law, is_open)
