"""Means with a clipping range per cell under (ε, δ): two looks with additive precisions.

The stages are those of `cell_range_allocation`, but for the looks; the histogram has Gaussian
noise. With f the share of first looks, R a cell's range in quanta, ΣW its sum of weights and r its
deviation for a range of width 1 and all of the square of μ:

3. "first look": of every cell y1 = C + noise of deviation R1 ΣW r / √f, C in the first range R1.
   From y1 of all cells and the outputs before, it is decided which cells move, and to which ranges.
4. "cells": of every cell y2 = C' + noise of deviation R ΣW r / √(1 - f), C' in its range: a new one
   where it moves, else the first one again, with noise of its own.

A cell that keeps its range publishes f y1 + (1 - f) y2, of variance (R1 ΣW r)²: as good as one
number at all of the square. A cell that moves publishes y2. Nothing finer than y1 exists before the
decision, so that nothing has to be discarded.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity: W R of a pair's cell, exactly, in either look.
Loss: squares of μ add up over stages, also where earlier outcomes chose the ranges
(accounting/gaussian_composition.py): f (W / (r ΣW))² and (1 - f) (W / (r ΣW))², in whatever ranges.
With the squares of the histogram and of the spread before, that is what is booked. Roots of shares
are rounded down, and so deviations up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import Squares
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.cell_ranges.cell_range_allocation import CellRangeAllocation
from hexveil.mechanisms.cell_ranges.look_stages import FIRST_LOOK, RangeDecision
from hexveil.mechanisms.clipped.clipped_allocation import CELLS
from hexveil.mechanisms.contract import (
    DONE,
    DrawnRow,
    GaussianNoise,
    NoiseRequest,
    Outputs,
    PrivateSums,
    SensitivityReport,
    Stage,
    Values,
)
from hexveil.mechanisms.weighted.weighted_mean import WeightedMean, check_room, laplace_scales

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.base.arrays import Floats, Ints
    from hexveil.smoothing.user_mean_law import ClippedLook


@dataclass(frozen=True, eq=False)
class GaussianLookStage(ReadOnlyArrays):
    """Weighted sums of all cells, in ranges that are public by then.

    Attributes
    ----------
    name : str
    mean : WeightedMean
    lower, upper : ndarray of int64, shape (n_cells,)
        Range of each cell, in quanta above the lower bound of the records.
    share : Fraction
        Share of the cells' square of μ.
    """

    name: str
    mean: WeightedMean
    lower: Ints
    upper: Ints
    share: Fraction

    @property
    def entries(self) -> int:
        """One integer per cell."""
        return self.mean.noise.size

    @property
    def deviations(self) -> Floats:
        """Deviation of the noise of each cell, rounded up."""
        mean, width = self.mean, self.upper - self.lower
        return laplace_scales(mean.noise, mean.totals, width, Squares.noise_share(self.share))

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return noise for the width of each cell's range."""
        return (GaussianNoise(self.deviations),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that a pair moves its cell's number by its weight times the width, exactly."""
        return (self.mean.sensitivity(self.mean.moves(self.upper - self.lower)),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sums. PRIVATE."""
        return (Values(self.mean.measure(sums, (self.lower, self.upper))),)


@dataclass(frozen=True, eq=False)
class DecidingLookStage(GaussianLookStage):
    """The first look: its row has the public decisions that are made from it.

    Attributes
    ----------
    decide : RangeDecision
    """

    decide: RangeDecision

    @property
    def entries(self) -> int:
        """Four integers per cell: see `FirstLooks`; no finer number is there, so the last is 0."""
        return 4 * self.mean.noise.size

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy numbers, and the ranges chosen from them."""
        lower, upper = self.decide(drawn[0])
        return np.concatenate((drawn[0], lower, upper, np.zeros_like(lower)))[None]


@dataclass(frozen=True, eq=False)
class MeasuredLookStage(GaussianLookStage, DrawnRow):
    """The second look: its row is its noisy numbers."""


@dataclass(frozen=True, eq=False)
class GaussianCellRanges(CellRangeAllocation):
    """Public plan of means with a clipping range per cell, under (ε, δ)."""

    def next_look(self, earlier: Outputs) -> Stage | None:
        """Return two looks at all cells."""
        if FIRST_LOOK not in earlier:
            return self._deciding_look(earlier)
        return DONE if CELLS in earlier else self._second_look(earlier)

    def _deciding_look(self, earlier: Outputs) -> DecidingLookStage:
        low, high = self.first_range(earlier)
        decide = self.decision(earlier)
        lower, upper = (np.full(self.mean.noise.size, end) for end in (low, high))
        return DecidingLookStage(FIRST_LOOK, self.mean, lower, upper, self.first_share, decide)

    def _second_look(self, earlier: Outputs) -> MeasuredLookStage:
        released = self.released(earlier)
        return MeasuredLookStage(
            CELLS, self.mean, released.lower, released.upper, 1 - self.first_share
        )

    def first_scales(self, ends: tuple[int, int]) -> Floats:
        """Return the deviation of each cell's first look."""
        return self.mean.scales(ends[1] - ends[0], Squares.noise_share(self.first_share))

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return the integer that each cell publishes: both looks together, or the second."""
        looks, second = self.first_looks(outputs), outputs[CELLS][0]
        both = weighted_sum(looks.first, second, self.first_share)
        return {"mean": np.where(looks.moved, second, both)}

    def looks(self, outputs: Outputs) -> tuple[ClippedLook, ...]:
        """Return the independent noisy numbers of each cell, for its posterior: one or two."""
        ends, looks = self.first_range(outputs), self.first_looks(outputs)
        width, number = ends[1] - ends[0], self.numbers(outputs)["mean"]
        scale = np.where(looks.moved, self.first_scales(ends), self.mean.scales(width))
        low, high = (np.full(scale.size, end) for end in ends)
        first = self.clipped_look(np.where(looks.moved, looks.first, number), low, high, scale)
        if not looks.moved.any():
            return (first,)
        stage = self._second_look(outputs)
        scale = np.where(looks.moved, stage.deviations, np.inf)
        return first, self.clipped_look(number, stage.lower, stage.upper, scale)

    def clipped_look(self, number: Ints, lower: Ints, upper: Ints, scale: Floats) -> ClippedLook:
        """Return noisy numbers of cells, their ranges and deviations, in value units."""
        return replace(super().clipped_look(number, lower, upper, scale), is_gaussian=True)

    def check_room(self, epsilon: float) -> None:
        """Refuse, from public facts, sums and noise that do not fit."""
        widest, totals = self.lattice_steps, self.mean.totals
        for share in (self.first_share, 1 - self.first_share):
            check_room(
                totals, self.mean.scales(widest, Squares.noise_share(share)), widest, epsilon
            )
            if not (self.mean.scales(1, Squares.noise_share(share)) >= 1.0).all():
                raise InputError(
                    "the noise of a look is below a step; ask for a smaller epsilon or use a finer "
                    "quantum."
                )


def weighted_sum(first: Ints, second: Ints, share: Fraction) -> Ints:
    """Return share first + (1 - share) second, in whole numbers, without leaving 64 bits.

    Examples
    --------
    >>> from fractions import Fraction
    >>> weighted_sum(np.array([10]), np.array([20]), Fraction(3, 10))
    array([17])
    """
    parts, whole = share.denominator - share.numerator, share.denominator
    quotient, remainder = np.divmod(second - first, whole)
    return np.asarray(first + quotient * parts + remainder * parts // whole, dtype=np.int64)
