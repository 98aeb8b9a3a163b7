"""One statistic of a plan: what its noise and its clipping can do to each cell.

Everything is counted for bounds of width 1 and scaled at the end: by U for the mean, by U² for
the variance. Let a cell have N samples, and let x be what a user keeps, as a share of N. Then
d = 1 - Σ x is the share that is put at the middle of the bounds.

Mean: each user's mean is projected to an interval of width x N/m around the middle. Sensitivity x
per user; worst-case bias d/2 (exact: WC Lemma III.1 as corrected in ERRATA 14).
Variance: that of the samples with the share d placed at the middle, and d (1 - d) / 4 added.
Sensitivity at most x (1 - x) for x <= 1/2, else 1/4; worst-case bias at most d (1 - d) / 2 for
d <= 1/2, else 1/8 (ERRATA 10). Where nothing of the cell is put at the middle the sensitivity is
that of COMP Proposition III.1 with the user's own count, which is exact.
A statistic without noise is a constant: the middle of the bounds, and 1/8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.facts import PublicFacts

    Floats = NDArray[np.float64]

LN20 = math.log(20.0)
WORST = {"mean": 0.5, "variance": 0.125}
"""What a constant can miss, for bounds of width 1."""


def mean_bias(away: Floats) -> Floats:
    """Return the worst-case bias of the mean when a share `away` is put at the middle."""
    return np.asarray(away / 2.0)


def variance_bias(away: Floats) -> Floats:
    """Return the worst-case bias of the variance when a share `away` is put at the middle."""
    half = np.minimum(away, 0.5)
    return np.asarray(half * (1.0 - half) / 2.0)


def spread(share: Floats) -> Floats:
    """Return the most that a user of this share can move the variance."""
    half = np.minimum(share, 0.5)
    return np.asarray(half * (1.0 - half))


def steps_of(span: Floats, facts: PublicFacts) -> Floats:
    """Return the width of each cell's bounds in quanta of the records."""
    return np.asarray(np.round(span / float(facts.scale.quantum)))


def in_quanta(kept: Floats, steps: Floats) -> Floats:
    """Return samples kept, rounded down to whole quanta where a part of a sample is kept."""
    return np.where(kept != np.floor(kept), np.floor(kept * steps) / steps, kept)


BIAS = {"mean": mean_bias, "variance": variance_bias}


@dataclass(frozen=True, eq=False)
class Part:
    """One statistic of every cell, in its own units: value units, or squared ones.

    Attributes
    ----------
    name : "mean" or "variance"
    unit : ndarray of float, shape (n_cells,)
        U or U²: what a figure for bounds of width 1 is multiplied by.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale for bounds of width 1; 0 where the statistic is a constant.
    away : ndarray of float, shape (n_cells,)
        Share of the cell's samples that is put at the middle.
    """

    name: str
    unit: Floats
    noise: Floats
    away: Floats

    @property
    def live(self) -> NDArray[np.bool_]:
        """Whether each cell's values are read for this statistic."""
        return self.noise > 0

    @property
    def scale(self) -> Floats:
        """Laplace scale of each cell, which is also the expected |noise|; 0: a constant."""
        return np.asarray(self.unit * self.noise)

    @property
    def bias(self) -> Floats:
        """Worst-case bias of each cell."""
        shares = np.where(self.live, BIAS[self.name](self.away), WORST[self.name])
        return np.asarray(self.unit * shares)

    @property
    def error(self) -> Floats:
        """Planning error of each cell: worst-case bias plus expected |noise|."""
        return np.asarray(self.bias + self.scale)

    @property
    def bound95(self) -> Floats:
        """Error of each cell not exceeded with probability 95 percent, whatever the values."""
        return np.asarray(self.bias + self.scale * LN20)

    def within(self, unit: Floats) -> Part:
        """Return the same statistic in other units."""
        return replace(self, unit=unit)


@dataclass(frozen=True, eq=False)
class WeighedPart(Part):
    """A mean of user means in a private interval; its unit is the interval's width.

    Worst-case bias and the bound are about the mean of user means projected to the interval.

    Attributes
    ----------
    most : ndarray of float, shape (n_cells,)
        The most that weights make each cell off by, for an interval of width 1.
    likely : ndarray of float, shape (n_cells,)
        What weights and clipping make each cell off by, by the prior.
    """

    most: Floats
    likely: Floats

    @property
    def bias(self) -> Floats:
        """Worst-case bias of each cell."""
        return np.asarray(self.unit * np.where(self.live, self.most, WORST[self.name]))

    @property
    def error(self) -> Floats:
        """Predicted error of each cell: likely bias plus expected |noise|."""
        likely = np.where(self.live, self.likely, WORST[self.name])
        return np.asarray(self.unit * likely + self.scale)
