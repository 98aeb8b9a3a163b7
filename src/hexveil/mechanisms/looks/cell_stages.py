"""Weighted means with a clipping range per cell, and the proof of their loss.

Let W be whole weights, C the weighted sum of a cell's user means clipped to a range of R quanta
(`weighted_mean`), ΣW the cell's sum of weights, r its noise for a range of
width 1, f the share of first looks; all numbers in quanta above the lower bound of the records.

1. "histogram": votes of all user means in bins of equal width (`pooled_means`), and
   the first range and the spread of user means that follow from its noisy votes.
2. "first look": of every cell y1 and y, a gradual release (`cell_looks`) of C in a range that
   follows from 1, with scales B = R ΣW r and B1 = B / f. From y1 of all cells and the outputs
   before, it is decided which cells keep the range and which move, and to which ranges. The row
   has y1 and the decisions, and y of the cells that keep it.
3. "cells": of the cells that move, C in a range of R' quanta with noise of scale R' ΣW r / (1 - f).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts stay. Sensitivity: W R of a pair's cell, W R' in another range, exactly. Votes of 1:
`pooled_means`.
Loss: fix a transcript, that is all rows. Given the rows before it, the row of 2 has the probability

    Π over kept cells of P(y | C) P(η = y1 - y)  ·  Π over moved cells of P(y1 | C),

because which cells move is a function of the transcript. A user with W in a cell changes a factor
of the first kind by at most W R / B = W / (r ΣW), and of the second by at most W R / B1 =
f W / (r ΣW). Row 3 adds (1 - f) W / (r ΣW) for the latter. So a cell costs W / (r ΣW) whether it
moves or not, in whatever range; with the loss of 1, which is charged to all users, that is
the booked sum, in every transcript. Scales are rounded up. The meter counts W R / B for every cell
before the first look is drawn, and at row 3 what exceeds the part that moved cells left over.

Order and storage. The finer y of a cell that moves must never be stored, and drawing it again
later, given y1, needs a law that no vetted sampler has. So the decision is made between the draw
and the row, inside one draw of the journal: a crash before the row is stored loses the stage, which
no journal draws again, and a crash afterwards finds y1, decisions and the kept y together. All that
the decision needs is therefore public before.

Under (ε, δ) the histogram has Gaussian noise, and there are two looks with additive precisions
(`GaussianCellStages`). With r a cell's deviation for a range of width 1 and all of the square of μ:

2. "first look": of every cell y1 = C + noise of deviation R1 ΣW r / √f, C in the first range R1.
   From y1 of all cells and the outputs before, it is decided which cells move, and to which ranges.
3. "cells": of every cell y2 = C' + noise of deviation R ΣW r / √(1 - f), C' in its range: a new one
   where it moves, else the first one again, with noise of its own.

A cell that keeps its range publishes f y1 + (1 - f) y2, of variance (R1 ΣW r)²: as good as one
number at all of the square. A cell that moves publishes y2. Nothing finer than y1 exists before the
decision, so that nothing has to be discarded.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity: W R of a pair's cell, exactly, in either look.
Loss: squares of μ add up over stages, also where earlier outcomes chose the ranges
(accounting/gaussian_composition.py): f (W / (r ΣW))² and (1 - f) (W / (r ΣW))², in whatever ranges.
With the square of the histogram before, that is what is booked. Roots of shares
are rounded down, and so deviations up.
Source: docs/understand/clipping-range.md; ERRATA 3 for the accounting.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DONE, NoisyTotals, Stage
from hexveil.mechanisms.looks.cell_looks import (
    FIRST_LOOK,
    FirstLooks,
    FirstLookStage,
    GradualLaplace,
    RangeDecision,
    second_look,
)
from hexveil.mechanisms.looks.clipped_mean import CELLS, check_room
from hexveil.mechanisms.looks.pooled_means import N_DECIDED, PooledChoice, choose_first_range
from hexveil.mechanisms.looks.weighted_ranges import PooledStages
from hexveil.mechanisms.pooled_law import PooledLaw
from hexveil.mechanisms.stage_data import Outputs
from hexveil.smoothing.clipped_posterior import fit
from hexveil.smoothing.range_selection import SelectedRanges, select_ranges
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread


@dataclass(frozen=True, eq=False)
class PosteriorRangeSelection(ReadOnlyArrays):
    """Choice of ranges by the pooled law, and by the posterior of the cells' means.

    Attributes
    ----------
    design : CellDesign
    noise : ndarray of float, shape (n_cells,)
        Scale, or deviation, of each cell's noise for a range of width 1 and all of the loss.
    first_share : float
    bounds : pair of float
        Bounds of the values.
    is_gaussian : bool
        Whether noise is Gaussian.
    """

    design: CellDesign
    noise: Floats
    first_share: float
    bounds: tuple[float, float]
    is_gaussian: bool = False

    def first(self, law: PooledLaw, steps: int) -> PooledChoice:
        """Return the range of every first look."""
        return choose_first_range(law, self._laplace, self.design.weight_squares, steps)

    def __call__(self, look: ClippedLook, spread: UserMeanSpread) -> SelectedRanges:
        """Return the choice for the first look at all cells."""
        posterior, share = fit([look], self.design, spread, self.bounds), self.first_share
        if self.is_gaussian:
            # The criterion counts variances, and takes scales of Laplace noise of the same
            # variance: of a second look it grows with the root of the share that is left.
            look = replace(look, scale=look.scale / math.sqrt(2.0), is_gaussian=False)
            share = 1.0 - math.sqrt(1.0 - share)
        return select_ranges(
            posterior, [look], self.design, spread, self._laplace, share, self.bounds
        )

    @property
    def _laplace(self) -> Floats:
        """Scale of Laplace noise of the same variance."""
        return self.noise / math.sqrt(2.0) if self.is_gaussian else self.noise


@dataclass(frozen=True, eq=False)
class CellRangeOutputs(ReadOnlyArrays):
    """Ranges that a release chose; public, in quanta above the records' lower bound.

    Attributes
    ----------
    votes : tuple of int
        Noisy votes of the bins of user means, in parts of a user's.
    total : int
        Votes of all users; public.
    pooled : PooledChoice
        The range of every cell's first look, and the spread of user means.
    moved : ndarray of bool, shape (n_cells,)
        Cells that were measured anew.
    lower, upper : ndarray of int64, shape (n_cells,)
        Range of each cell's last number.
    span_quanta : int
        Width of the records' bounds.
    """

    votes: tuple[int, ...]
    total: int
    pooled: PooledChoice
    moved: Bools
    lower: Ints
    upper: Ints
    span_quanta: int

    @property
    def width(self) -> Floats:
        """Width of each cell's range, as a part of the span."""
        return np.asarray((self.upper - self.lower) / self.span_quanta)


@dataclass(frozen=True, eq=False)
class CellRangeStages(PooledStages):
    """Public plan of means with a clipping range per cell: a map is one data set.

    Attributes
    ----------
    first_share : Fraction
        f: share of a cell's loss that its first number costs.
    select : PosteriorRangeSelection
    errors : callable
        Returns the error model of the means for released ranges.
    """

    first_share: Fraction
    select: PosteriorRangeSelection
    errors: Callable[[CellRangeOutputs], ErrorModel]
    n_decided: ClassVar[int] = N_DECIDED

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the histogram, then the looks at cells."""
        if not earlier:
            return self.histogram
        if FIRST_LOOK not in earlier:
            look: Stage = self.first_look(earlier)
            return look
        return self.second_look(earlier) if CELLS not in earlier else DONE

    def first_look(self, earlier: Outputs) -> Any:  # noqa: ANN401  a stage, of the noise's own kind
        """Return the first look at all cells."""
        ends, decide = self.first_range(earlier), self.decision(earlier)
        return FirstLookStage(self.mean, ends, self.first_share, decide)

    def second_look(self, earlier: Outputs) -> Stage | None:
        """Return the look at the cells that move."""
        looks = self.first_looks(earlier)
        return second_look(self.first_look(earlier), looks) if looks.moved.any() else DONE

    def decide(self, law: PooledLaw) -> Ints:
        """Return the first range, and the spread of all user means."""
        return self.select.first(law, self.lattice.steps).row

    def decision(self, earlier: Outputs) -> RangeDecision:
        """Return the choice of ranges in whole quanta, for the first numbers of all cells."""
        return partial(self._quantised, self.first_range(earlier), self.user_mean_spread(earlier))

    def _quantised(
        self, ends: tuple[int, int], spread: UserMeanSpread, first: Ints
    ) -> tuple[Ints, Ints]:
        """Return the ranges chosen for these first numbers, outward to whole quanta."""
        steps = self.lattice.steps
        selected = self.select(self._look_within(first, *ends, self.first_scales(ends)), spread)
        # An end that is not a number would have no range: it is taken for the lower bound.
        below, above = (
            np.nan_to_num((one - self.lattice.lower_value) / self.lattice.quantum)
            for one in (selected.lower, selected.upper)
        )
        # At least a quantum wide, since a range of none would have no noise.
        lower = np.clip(np.floor(below), 0, steps - 1).astype(np.int64)
        upper = np.maximum(np.ceil(above).clip(0, steps).astype(np.int64), lower + 1)
        return np.where(selected.moved, lower, 0), np.where(selected.moved, upper, 0)

    def scales(self, width: int | Ints, share: Fraction) -> Floats:
        """Return the noise scale of each cell's number of a share of its loss, rounded up."""
        return self.mean.scales(width, self.histogram_promise.noise_share(share))

    def first_scales(self, ends: tuple[int, int]) -> Floats:
        """Return the noise scale of each cell's first number."""
        return self.scales(ends[1] - ends[0], self.first_share)

    def pooled(self, outputs: Outputs) -> PooledChoice:
        """Return the first range, and the spread of all user means; in quanta."""
        return PooledChoice(*self.decided(outputs))

    def user_mean_spread(self, outputs: Outputs) -> UserMeanSpread:
        """Return the released spread in value units."""
        pooled, quantum = self.pooled(outputs), self.lattice.quantum
        return UserMeanSpread(
            self.bounds[0] + quantum * float(pooled.centre),
            quantum * float(pooled.below),
            quantum * float(pooled.above),
        )

    def first_range(self, outputs: Outputs) -> tuple[int, int]:
        """Return the range of the first look in quanta."""
        pooled = self.pooled(outputs)
        return pooled.lower, pooled.upper

    def first_looks(self, outputs: Outputs) -> FirstLooks:
        """Return the noisy numbers of the first look, and the decisions stored with them."""
        return FirstLooks.of(outputs[FIRST_LOOK][0])

    def released(self, outputs: Outputs) -> CellRangeOutputs:
        """Return the ranges that the stages chose."""
        (low, high), looks = self.first_range(outputs), self.first_looks(outputs)
        return CellRangeOutputs(
            tuple(self.histogram.noisy(outputs).tolist()),
            self.pooled_means.total,
            self.pooled(outputs),
            looks.moved,
            np.where(looks.moved, looks.lower, low),
            np.where(looks.moved, looks.upper, high),
            self.lattice.steps,
        )

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return the last noisy integer of each cell."""
        looks = self.first_looks(outputs)
        last = looks.final.copy()
        if CELLS in outputs:
            last[looks.moved] = outputs[CELLS][0]
        return {"mean": last}

    def looks(self, outputs: Outputs) -> tuple[ClippedLook, ...]:
        """Return the independent noisy numbers of each cell, for its posterior: one or two.

        Of a cell that keeps its range the finer number alone, since the first one is made of it.
        """
        ends, looks = self.first_range(outputs), self.first_looks(outputs)
        number, moved = self.numbers(outputs)["mean"], looks.moved
        whole = self.mean.scales(ends[1] - ends[0])
        scale = np.where(moved, self.first_scales(ends), whole)
        first = self._look_within(np.where(moved, looks.first, number), *ends, scale)
        if not moved.any():
            return (first,)
        released = self.released(outputs)
        own = self.scales(released.upper - released.lower, 1 - self.first_share)
        scale = np.where(moved, own, np.inf)
        return first, self._look_within(number, released.lower, released.upper, scale)

    def _look_within(
        self, number: Ints, lower: Ints | int, upper: Ints | int, scale: Floats
    ) -> ClippedLook:
        """Return noisy numbers of cells in ranges of quanta, with scales of the integers."""
        low, high = (
            self.lattice.in_units(np.full(number.size, end, dtype=np.float64))
            for end in (lower, upper)
        )
        return self.look(number, low, high, scale / self.mean.totals * self.lattice.quantum)

    def mean_errors(self, outputs: Outputs) -> ErrorModel:
        """Return the error model of the means, for the ranges that were released."""
        return self.errors(self.released(outputs))

    def check_room(self, epsilon: float) -> None:
        """Refuse sums and noise that do not fit, or too little noise of a look."""
        # Ranges are not known yet: none is wider than the bounds, or narrower than a quantum.
        widest, totals = self.lattice.steps, self.mean.totals
        for share in (self.first_share, 1 - self.first_share):
            check_room(totals, self.scales(widest, share), widest, epsilon)
        self.check_noise()

    def check_noise(self) -> None:
        """Refuse a first look with too little noise."""
        GradualLaplace(self.mean.scales(1), self.mean.scales(1, self.first_share)).check()


@dataclass(frozen=True, eq=False)
class GaussianCellStages(CellRangeStages):
    """Public plan of means with a clipping range per cell, under (ε, δ)."""

    def first_look(self, earlier: Outputs) -> NoisyTotals:
        """Return the first look at all cells."""
        decision, ends = self.decision(earlier), self.first_range(earlier)

        def decide(first: Ints) -> Ints:
            # Four integers per cell: see `FirstLooks`; there is no finer number, so the last is 0.
            return np.concatenate([*decision(first), np.zeros_like(first)])

        stage = self.mean.stage(FIRST_LOOK, GAUSSIAN, ends, self.first_scales(ends))
        return replace(stage, decide=decide, n_decided=3 * self.mean.noise.size)

    def second_look(self, earlier: Outputs) -> Stage:
        """Return another look at all cells."""
        released = self.released(earlier)
        ends = released.lower, released.upper
        scales = self.scales(ends[1] - ends[0], 1 - self.first_share)
        return self.mean.stage(CELLS, GAUSSIAN, ends, scales)

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return the integer that each cell publishes: both looks together, or the second."""
        looks, second = self.first_looks(outputs), outputs[CELLS][0]
        both = weighted_sum(looks.first, second, self.first_share)
        return {"mean": np.where(looks.moved, second, both)}

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
