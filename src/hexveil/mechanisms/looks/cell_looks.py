"""Looks at cells: a gradual one in the first range, and a second one in ranges of single cells.

The proof is in the head of `cell_stages`.

Gradual release of integers: a noisier number first, a finer one at no extra loss.

Let C be a whole number and DLap(B) discrete Laplace noise, with P(k) proportional to exp(-|k| / B).
For scales B <= B1, with independent draws,

    y = C + DLap(B),    y1 = y + η,    η = 0 with probability q, else DLap(B1).

Law of y1: the characteristic function of DLap(B) is (1 - p)² / ((1 - p)² + 2 p (1 - cos t)) with
p = exp(-1 / B), so it is 1 / (1 + v u) with v = 2 p / (1 - p)² and u = 1 - cos t. Let v1 be that of
B1 and q* = v / v1 = (sinh(1 / (2 B1)) / sinh(1 / (2 B)))². At q = q* the characteristic function
of η is q* + (1 - q*) / (1 + v1 u) = (1 + v u) / (1 + v1 u), so y1 has the law C + DLap(B1) exactly.
At q < q* the law of η is that of q* with weight q / q*, and DLap(B1) with the rest. So y1 is a
mixture, with weights free of data, of C + DLap(B1) and C + DLap(B) + DLap(B1).

Neighbours: C moves by at most an integer d. Loss: convolution and mixing with laws that are free of
data raise no ratio of probabilities. Hence y1 alone costs at most d / B1; y and y1 together cost at
most d / B, since y1 is made of y and of noise. Whoever publishes y of some cells and discards it in
others pays d / B for the former and d / B1 for the latter, also if y1 itself decides which they
are: the probability of such a row is a product over cells of P(y) P(η = y1 - y) or of P(y1).

The indicator of η = 0 is a discrete Laplace number that is 0, so that every random number comes
from the one sampler of the noise door. DLap(R) is 0 with probability tanh(1 / (2 R)), and R is
chosen so that this is at most q*. With x = 1 / B, sinh(x / 2) <= (x / 2) exp(x² / 24) and
sinh(x1 / 2) >= x1 / 2, hence q* >= (B / B1)² exp(-x² / 12); and atanh(q) >= q + q³ / 3 + q⁵ / 5.
These bounds are computed in exact fractions and rounded to the safe side: R is the same on every
processor. A q below q* costs accuracy of y1 alone, about one part in 10⁷.
Source: the continuous form is the gradual release of Koufogiannis, Han and Pappas (2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np

from hexveil.accounting.noise_law import LAPLACE
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import NoisyTotals
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.looks.weighted_mean import WeightedMean, laplace_scales, weighted_moves
from hexveil.mechanisms.sensitivity_report import (
    LaplaceNoise,
    NoiseRequest,
    SensitivityReport,
    Separate,
)
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Values

SMALLEST_SCALE = 0.125
"""Smallest B for which q stays large enough to be drawn; real plans have thousands."""
_DENOMINATOR = 2**64
NO_USER = Separate(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
"""Sensitivity of numbers that are free of data."""


def zero_probability_bound(scale: Fraction, ratio: Fraction) -> Fraction:
    """Return a lower bound of q*, the probability of η = 0 that makes y1 exactly discrete Laplace.

    It rises with both arguments.

    Parameters
    ----------
    scale : Fraction
        B, above 0.
    ratio : Fraction
        B / B1, above 0 and at most 1.

    Examples
    --------
    >>> round(float(zero_probability_bound(Fraction(3000), Fraction(3, 10))), 9)
    0.089999999
    """
    exponent = 1 / (12 * scale**2)
    # exp(-t) >= 1 - t, which is of use for small t; and exp(-t) >= 4^-t for all.
    falling = 1 - exponent if 2 * exponent < 1 else Fraction(1, 4 ** math.ceil(exponent))
    bound = ratio**2 * falling
    # Down to a short denominator: powers of long fractions take long.
    return Fraction(math.floor(bound * _DENOMINATOR), _DENOMINATOR)


def indicator_scale(zero_probability: Fraction) -> float:
    """Return R, such that discrete Laplace noise of scale R is 0 with at most this probability.

    Examples
    --------
    >>> scale = indicator_scale(Fraction(9, 100))
    >>> round(scale, 4), round(math.tanh(1 / (2 * scale)), 7)
    (5.5405, 0.09)
    """
    q = zero_probability
    # Terms of the series of atanh, all of them positive: a partial sum is a lower bound.
    return round_up(1 / (2 * (q + q**3 / 3 + q**5 / 5)))


@dataclass(frozen=True, eq=False)
class GradualLaplace(ReadOnlyArrays):
    """Discrete Laplace noise of integers that is released in two steps.

    Attributes
    ----------
    scales : ndarray of float, shape (n,)
        B of each number.
    first_scales : ndarray of float, shape (n,)
        B1 of each number, not below B.
    """

    scales: Floats
    first_scales: Floats

    def check(self) -> None:
        """Refuse scales for which the stated loss would not hold.

        Raises
        ------
        InputError
            If a scale is too small, or the first one below the second.
        """
        # Not (small <= B <= B1): what is not a number is refused, too.
        if not ((self.scales >= SMALLEST_SCALE) & (self.scales <= self.first_scales)).all():
            raise InputError(
                "the noise of a first look is below an eighth of a step, or below that of the "
                "second; ask for a smaller epsilon or use a finer quantum."
            )

    def indicator_scale(self) -> float:
        """Return R for the smallest q* of all numbers, which is safe for each of them."""
        # A quotient of doubles is within half an ulp of the exact one; the next below is not above.
        ratio = math.nextafter(float((self.scales / self.first_scales).min()), 0.0)
        smallest = Fraction(float(self.scales.min()))
        return indicator_scale(zero_probability_bound(smallest, Fraction(ratio)))

    def noise(self) -> tuple[LaplaceNoise, ...]:
        """Return the noise of y, of η where it is not 0, and of the indicator of η = 0."""
        indicator = np.full(self.scales.size, self.indicator_scale())
        return tuple(LaplaceNoise(s) for s in (self.scales, self.first_scales, indicator))

    def releases(self, drawn: Ints) -> tuple[Ints, Ints]:
        """Return y1 and y, shape (batch, n) each, from the noisy integers in the order of `noise`.

        y is PRIVATE where the loss is counted as d / B1: discard it there.
        """
        final, increment, indicator = np.split(drawn, 3, axis=1)
        return np.asarray(final + np.where(indicator == 0, 0, increment)), np.asarray(final)


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
        """Return how far each user can move the sums C for y, and none for noise free of data.

        The meter adds d / B up, as if y of every number were published.
        """
        return self.mean.sensitivity(self.mean.moves(self.width)), NO_USER, NO_USER

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sums, and zeros to which η and its indicator are added. PRIVATE."""
        zeros = Values(np.zeros((1, self.mean.noise.size), dtype=np.int64))
        return Values(self.mean.measure(sums, self.ends)), zeros, zeros

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
    width, drawn = looks.upper - looks.lower, np.where(looks.moved, 1.0, np.inf)
    moves = weighted_moves(mean.weight, width, drawn)
    before = replace(mean.moves(first.width), scale=gradual.scales)
    spent = replace(before, scale=gradual.first_scales)
    report = replace(mean.sensitivity(moves), before=(before, spent))

    def total(sums: PrivateSums) -> Ints:
        # In cells that are not measured anew the range is empty, and so every term is 0.
        return mean.measure(sums, (looks.lower, looks.upper))[:, looks.moved]

    return NoisyTotals(CELLS, scales.size, LAPLACE, report, total, scales=scales)
