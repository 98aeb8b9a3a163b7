"""Data of a plan with a clipping range per cell: its decisions, and the outputs of its stages.

How they are chosen: planning/clipping_range/cell_ranges.py; the stages and their proof:
mechanisms/cell_ranges/.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.cell_ranges.cell_range_allocation import ReleasedCellRanges
from hexveil.planning.clipping_range.private_range import to_value_units
from hexveil.planning.clipping_range.user_weights import (
    max_bias,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.base.arrays import Floats
    from hexveil.model.pair_columns import Weights


@dataclass(frozen=True, eq=False)
class CellRangeOutputs(ReleasedCellRanges):
    """Outputs of the stages of a release; public, in quanta above the records' lower bound.

    Attributes
    ----------
    span_quanta : int
        Width of the records' bounds.
    """

    span_quanta: int

    @property
    def width(self) -> Floats:
        """Width of each cell's range, as a part of the span."""
        return np.asarray((self.upper - self.lower) / self.span_quanta)

    def ends_in_units(self, lower: float, span: float) -> tuple[list[float], list[float]]:
        """Return the ends of each cell's range in value units."""
        low, high = (
            [to_value_units(end, self.span_quanta, lower, span) for end in ends.tolist()]
            for ends in (self.lower, self.upper)
        )
        return low, high


@dataclass(frozen=True, eq=False)
class CellRangePlan(ReadOnlyArrays):
    """Decisions of a plan with a clipping range per cell; public.

    The noise of each cell, if all that the cells may cost is spent on one number, is that of the
    allocation's rows.

    Attributes
    ----------
    histogram_loss : Fraction
        Loss of every user by the pooled histogram; under a δ as a square of μ.
    spread_epsilon : Fraction
        Loss of every user by the spread within cells; 0 where it is not measured.
    first_share : Fraction
        Share of the cells' loss that the first look of a cell costs.
    weight : Weights
        Whole weights of user means; a user's part of a cell's number is its weight over their sum.
    outputs : CellRangeOutputs or None
        After a release.
    """

    histogram_loss: Fraction
    spread_epsilon: Fraction
    first_share: Fraction
    weight: Weights
    outputs: CellRangeOutputs | None = None

    def check(self) -> None:
        """Refuse numbers that no plan has: a stranger may have written them."""
        shares = self.spread_epsilon >= 0 and 0 < self.first_share < 1
        if self.histogram_loss <= 0 or not shares or self.outputs is not None:
            raise InputError("its ranges have shares of epsilon, or outputs, that no plan has.")

    @property
    def epsilon(self) -> Fraction:
        """Loss of every user by the stages that look at the whole map, without a δ."""
        return self.histogram_loss + self.spread_epsilon

    @property
    def measures_spread(self) -> bool:
        """Whether a stage measures the spread of user means within cells."""
        return self.spread_epsilon > 0

    def released(self) -> CellRangeOutputs:
        """Return the outputs.

        Raises
        ------
        InputError
            Before a release.
        """
        if self.outputs is None:
            raise InputError("the ranges of cells are chosen by a release, not before.")
        return self.outputs

    def with_outputs(self, outputs: CellRangeOutputs) -> CellRangePlan:
        """Return the same decisions with the outputs of a release."""
        return replace(self, outputs=outputs)

    def max_bias(self) -> Floats:
        """Return the most that weights make each cell off by, for a range of width 1."""
        return max_bias(self.weight)
