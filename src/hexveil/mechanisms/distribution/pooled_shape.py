"""Pooled shape: the distribution of all records of a map, every unit of equal weight.

It says where values lie at all, so that the bins and scores of single cells can be placed. Released
from its share of ε: 16 bins of equal width, then 20 bins at the quantiles so found, where units
suffice; else fewer bins, smoothed by a log-density of a few Legendre terms.

Neighbours: one unit's values all change within the bounds.
Sensitivity: 2^21 for each unit and release, √2 2^20 in L2 (`binned_stage`, one group per unit,
M = 2^20).
Loss: its share of ε, or of the square of μ; in two releases 0.4 and 0.6 of it. The edges of the
second are a function of the noisy first.
Source: `binned_stage`; the density is a penalised fit by least squares, post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import DONE
from hexveil.mechanisms.distribution.bin_noise import PARTS, BinNoise, bin_noise
from hexveil.mechanisms.distribution.binned_stage import PooledBinStage
from hexveil.mechanisms.distribution.pooled_density import PooledDensity

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Outputs, Stage
    from hexveil.model.occupancy import Occupancy

WIDE, NARROW = "wide bins", "narrow bins"
N_WIDE, N_NARROW = 16, 20
WIDE_SHARE = Fraction(2, 5)
REFINED_FROM = 250
"""Units times ε from which bins are placed twice."""
FEW_UNITS = 100
MEAN_ABS_NORMAL, TAKEN_OVER = 0.7979, 1.0 / 3.0


@dataclass(frozen=True, eq=False)
class PooledShape(ReadOnlyArrays):
    """Plan of the pooled shape: a `StagedPlan`.

    Attributes
    ----------
    occupancy : Occupancy
    fine_edges : ndarray of int64, shape (n_fine_bins,)
    epsilon : Fraction
    delta : Fraction
        0 for a pure promise.
    """

    occupancy: Occupancy
    fine_edges: Ints
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    kind = "pooled shape"

    @property
    def law(self) -> BinNoise:
        """Noise of all of its loss."""
        return bin_noise(self.epsilon, self.delta)

    @property
    def is_refined(self) -> bool:
        """Whether bins are placed twice."""
        return self.occupancy.n_users * self.law.equivalent_epsilon > REFINED_FROM

    def losses(self) -> Floats:
        """Return each unit's loss, in ε or as a square of μ."""
        return np.full(self.occupancy.n_users, round_up(self.law.booked))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage of wide bins, then that of narrow ones, if there is one."""
        if WIDE not in earlier:
            share = WIDE_SHARE if self.is_refined else Fraction(1)
            return self._stage(WIDE, self._wide_place(), self.law.part(share))
        if self.is_refined and NARROW not in earlier:
            place = self._narrow_place(earlier)
            return self._stage(NARROW, place, self.law.part(1 - WIDE_SHARE))
        return DONE

    def _stage(self, name: str, place: Ints, law: BinNoise) -> PooledBinStage:
        n_bins, scales = N_NARROW if name == NARROW else self._n_wide, np.array([law.scale])
        return PooledBinStage(name, n_bins, self.occupancy, place, scales, law)

    @property
    def level_error(self) -> float:
        """Expected absolute error that cells take over, of the share below the middle bin.

        Of that by the noise a part: smoothing takes some away, and the cells' own numbers correct.
        """
        law = self.law.part(1 - WIDE_SHARE) if self.is_refined else self.law
        n_bins = N_NARROW if self.is_refined else self._n_wide
        noise = MEAN_ABS_NORMAL * law.deviation * math.sqrt(n_bins) / 2
        return TAKEN_OVER * noise / self.occupancy.n_users

    @property
    def _n_wide(self) -> int:
        if self.is_refined:
            return N_WIDE
        precision = self.occupancy.n_users * self.law.equivalent_epsilon
        return 8 if precision < FEW_UNITS / 4 else 12

    @property
    def _density(self) -> PooledDensity:
        return PooledDensity(self.fine_edges)

    def _wide_place(self) -> Ints:
        return self._density.wide_place(self._n_wide)

    def _narrow_place(self, earlier: Outputs) -> Ints:
        cdf = np.cumsum(self._by_place(earlier[WIDE][0], self._wide_place(), WIDE_SHARE))
        middle = cdf - np.diff(cdf, prepend=0.0) / 2.0
        return np.minimum((middle * N_NARROW).astype(np.int64), N_NARROW - 1)

    def measured_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the last release."""
        return self._narrow_place(outputs) if self.is_refined else self._wide_place()

    def shares(self, outputs: Outputs) -> Floats:
        """Return the share of each fine bin: positive, with the sum 1. Post-processing."""
        if self.is_refined:
            return self._by_place(outputs[NARROW][0], self._narrow_place(outputs), 1 - WIDE_SHARE)
        return self._smooth(outputs[WIDE][0], self._wide_place())

    def even_shares(self, outputs: Outputs) -> Floats:
        """Return the same without a smooth law: even within the bins that were measured."""
        if self.is_refined:
            return self.shares(outputs)
        return self._by_place(outputs[WIDE][0], self._wide_place(), Fraction(1))

    def _by_place(self, noisy: Ints, place: Ints, share: Fraction) -> Floats:
        """Return shares of fine bins from those of their bins, even within a bin."""
        measured = noisy / (PARTS * self.occupancy.n_users)
        noise = self.law.part(share).deviation / self.occupancy.n_users
        # Half of what noise alone would give: small shares shrink, none becomes nothing.
        return self._density.even_shares(measured, place, noise / 4.0)

    def _smooth(self, noisy: Ints, place: Ints) -> Floats:
        """Return shares by a smooth log-density."""
        n_users = self.occupancy.n_users
        variance = (self.law.deviation / n_users) ** 2
        return self._density.smooth_shares(noisy / (PARTS * n_users), place, variance)
