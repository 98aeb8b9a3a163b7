"""Means with a clipping range per cell under (ε, δ): two looks with additive precisions.

The stages are those of `cell_stages`, but for the looks; the histogram has Gaussian
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
from fractions import Fraction

import numpy as np

from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import DONE, NoisyTotals, Stage
from hexveil.mechanisms.looks.cell_looks import FIRST_LOOK
from hexveil.mechanisms.looks.cell_stages import CellRangeStages
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil.smoothing.user_mean_law import ClippedLook


@dataclass(frozen=True, eq=False)
class GaussianCellStages(CellRangeStages):
    """Public plan of means with a clipping range per cell, under (ε, δ)."""

    def next_look(self, earlier: Outputs) -> Stage | None:
        """Return two looks at all cells."""
        if FIRST_LOOK not in earlier:
            ends = tuple(np.full(self.mean.noise.size, end) for end in self.first_range(earlier))
            decision = self.decision(earlier)

            def decide(first: Ints) -> Ints:
                # Four integers per cell: see `FirstLooks`; there is no finer number, so the last
                # is 0.
                return np.concatenate([*decision(first), np.zeros_like(first)])

            look = self._look(FIRST_LOOK, ends, self.first_scales(self.first_range(earlier)))
            return replace(look, decide=decide, n_decided=3 * self.mean.noise.size)
        if CELLS in earlier:
            return DONE
        released = self.released(earlier)
        ends = released.lower, released.upper
        return self._look(CELLS, ends, self.scales(ends[1] - ends[0], 1 - self.first_share))

    def _look(self, name: str, ends: tuple[Ints, ...], scales: Floats) -> NoisyTotals:
        """Return weighted sums of all cells, in ranges that are public by then."""
        lower, upper = ends

        def total(sums: PrivateSums) -> Ints:
            return self.mean.measure(sums, (lower, upper))

        report = self.mean.sensitivity(self.mean.moves(upper - lower))
        return NoisyTotals(name, scales.size, GAUSSIAN, report, total, scales=scales)

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
        released = self.released(outputs)
        scale = self.scales(released.upper - released.lower, 1 - self.first_share)
        scale = np.where(looks.moved, scale, np.inf)
        return first, self.clipped_look(number, released.lower, released.upper, scale)

    def check_noise(self) -> None:
        """Refuse looks with too little noise."""
        for share in (self.first_share, 1 - self.first_share):
            if not (self.scales(1, share) >= 1.0).all():
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
