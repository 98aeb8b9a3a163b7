"""Looks at cells: a gradual one in the first range, and a second one in ranges of single cells.

The proof is in the head of `cell_stages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np

from hexveil.accounting.noise_law import LAPLACE
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.looks.gradual_release import GradualLaplace
from hexveil.mechanisms.looks.weighted_mean import WeightedMean, laplace_scales, weighted_moves
from hexveil.mechanisms.sensitivity_report import NoiseRequest, SensitivityReport
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Values

FIRST_LOOK = "first look"
"""Name of the stage of first looks, in the ledger."""


RangeDecision: TypeAlias = Callable[[Ints], tuple[Ints, Ints]]
"""Public choice of the cells that are measured anew, and of their ranges: from the noisy first
numbers to the ends of each cell's range in quanta. Both are 0 where a cell keeps its range; else
the lower is below the upper, within the bounds."""


@dataclass(frozen=True, eq=False)
class FirstLooks(ReadOnlyArrays):
    """The row of the first look: noisy numbers, and the public decisions made from them.

    Attributes
    ----------
    first : ndarray of int64, shape (n_cells,)
        Noisy number of each cell at the first share of its loss.
    lower, upper : ndarray of int64, shape (n_cells,)
        Range in which a cell is measured anew, in quanta; 0 where it keeps the first one.
    final : ndarray of int64, shape (n_cells,)
        Noisy number of each cell at all of its loss; 0 where it is measured anew.
    """

    first: Ints
    lower: Ints
    upper: Ints
    final: Ints

    @classmethod
    def of(cls, row: Ints) -> FirstLooks:
        """Return the arrays of a stored row, shape (4 n_cells,)."""
        return cls(*np.split(row, 4))

    @property
    def moved(self) -> Bools:
        """Cells that are measured anew."""
        return np.asarray(self.upper > self.lower)


@dataclass(frozen=True, eq=False)
class FirstLookStage:
    """Weighted sums of all cells in one range, released gradually; cells that move keep the coarse.

    Attributes
    ----------
    mean : WeightedMean
    ends : pair of int
        The first range, in quanta above the lower bound of the records.
    share : Fraction
        Share of a cell's loss that its first number costs.
    decide : RangeDecision
    """

    mean: WeightedMean
    ends: tuple[int, int]
    share: Fraction
    decide: RangeDecision
    name: str = FIRST_LOOK

    @property
    def entries(self) -> int:
        """Four integers per cell: see `FirstLooks`."""
        return 4 * self.mean.noise.size

    @property
    def width(self) -> int:
        """Width of the range."""
        return self.ends[1] - self.ends[0]

    @cached_property
    def gradual(self) -> GradualLaplace:
        """Noise of both numbers of each cell."""
        return GradualLaplace(
            self.mean.scales(self.width), self.mean.scales(self.width, self.share)
        )

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return the noise of the gradual release."""
        return self.gradual.noise()

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return how far each user can move the sums."""
        return self.gradual.sensitivity(self.mean.sensitivity(self.mean.moves(self.width)))

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sums. PRIVATE."""
        return self.gradual.measure(self.mean.measure(sums, self.ends))

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the first numbers, the ranges chosen from them alone, and the kept finer numbers.

        Privacy
        -------
        The finer number of a cell that is measured anew ends here: it is not stored.
        """
        first, final = self.gradual.releases(drawn)
        # Decided here, with the draw: a stored finer number could not be discarded any more.
        lower, upper = self.decide(first[0])
        kept = np.where(upper > lower, 0, final[0])
        return np.concatenate((first[0], lower, upper, kept))[None]


def second_scales(first: FirstLookStage, looks: FirstLooks) -> Floats:
    """Return R of each cell that is measured anew."""
    mean, moved = first.mean, looks.moved
    width = (looks.upper - looks.lower)[moved]
    return laplace_scales(mean.noise[moved], mean.totals[moved], width, 1 - first.share)


def second_look(first: FirstLookStage, looks: FirstLooks) -> NoisyTotals:
    """Return weighted sums of the cells that are measured anew, in ranges of their own.

    The meter has counted the finer number of every cell; in these cells only the coarser was
    published, so that the report has the loss that the first look left over.
    """
    mean, gradual, scales = first.mean, first.gradual, second_scales(first, looks)
    moves = weighted_moves(looks.upper - looks.lower, np.where(looks.moved, 1.0, np.inf))
    before = replace(mean.moves(first.width), scale=gradual.scales)
    spent = replace(before, scale=gradual.first_scales)
    report = replace(mean.sensitivity(moves), before=(before, spent))

    def total(sums: PrivateSums) -> Ints:
        # In cells that are not measured anew the range is empty, and so every term is 0.
        return mean.measure(sums, (looks.lower, looks.upper))[:, looks.moved]

    return NoisyTotals(CELLS, scales.size, LAPLACE, report, total, scales=scales)
