"""Weights of cells by bin of the value: a unit's distribution in each cell is one contribution.

A unit enters a cell with its weight w_c of `contribution`, within P = 2^20 over all cells in the
norm of the noise's law (`noise_law`), divided over B bins by its own records there. With n records,
C_j of them in the bins up to j, C_0 = 0 and C_B = n:

    a_cj = floor(w_c C_j / n) - floor(w_c C_{j-1} / n),    j = 1..B.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: as C_j rises with j, every a_cj >= 0, and they telescope to floor(w_c) = w_c. Other
units' numbers do not change. So a unit moves all bins of all cells together by an L1 distance of at
most Σ_c w_c, and an L2 distance of at most √(Σ_c w_c²), as Σ_j a_cj² <= (Σ_j a_cj)². Weights in L1
have Σ_c w_c <= P, weights in L2 Σ_c w_c² <= P², for any counts, any values, any number of cells and
of bins: there is no budget for each bin, and no surcharge for rounding. (Where values alone are
private, weight moves from bin to bin: 2 P, or √2 P in L2.) Bins summed over cells move by
Σ_c a_cj, within P in L2 only if Σ_c w_c <= P: the pooled shape has weights in L1 under either
noise. Counts of a unit are saturated by themselves, which changes n and C_j alone.
Loss: P / b with discrete Laplace noise of scale b on every bin of every cell; or P² / r² as a
square of μ with discrete Gaussian noise of parameter r. Its lattice term is Σ_cj a_cj / r² =
Σ_c w_c / r², as `accounting.gaussian_composition` asks, bins in the place of halves.
Source: cumulative rounding as in apportionment; weights of `contribution`; L1 sensitivity of
histograms (Dwork, McSherry, Nissim and Smith, 2006).

Bins, prices and the cap were declared or follow from noisy numbers, so stages compose adaptively.
Every cell of the declared grid gets noise, whether records lie in it or not. Nothing overflows 64
bits: a count is at most 2^20, so n <= 2^36 with 2^16 fine bins, and w_c n <= 2^56.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS
from hexveil.base.errors import HexveilError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import EvenNoise, Values
from hexveil.mechanisms.distribution.binned_stage import apportion
from hexveil.mechanisms.presence.any_unit import AnyUnit, total_over_units
from hexveil.mechanisms.presence.contribution import L1, Norm, norm_of, unit_weights
from hexveil.mechanisms.presence.map_refinement import prices_of_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import Outputs, PrivateSums, SensitivityReport
    from hexveil.model.private_pairs import PrivatePairs


@dataclass(frozen=True, eq=False)
class BinnedWeights(EvenNoise, ReadOnlyArrays):
    """Noisy weight of each bin of each cell.

    Attributes
    ----------
    name : str
    prices : ndarray of int64, shape (n_cells,)
        p, 0 where a cell is closed.
    cap : int
        τ, in priced records; 0 without a cap.
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin.
    n_bins : int
        B, of a cell.
    law : NoiseLaw
        Of the noise on every bin.
    """

    name: str
    prices: Ints
    cap: int
    place: Ints
    n_bins: int
    law: NoiseLaw

    @property
    def n_noised(self) -> int:
        """Numbers that get noise."""
        return self.n_sums * self.n_bins

    @property
    def n_sums(self) -> int:
        """Sums of units' distributions."""
        return int(self.prices.size)

    @property
    def norm(self) -> Norm:
        """Size of a unit's priced records within which its weights are limited."""
        return norm_of(self.law)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that any unit moves all bins together by at most `PARTS`."""
        return (AnyUnit.of(self.law),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the weights of bins. PRIVATE."""
        # Public arrays alone: an executor is sent this, and no stage with all that is in it.
        totals = partial(
            _bin_totals,
            prices=self.prices,
            cap=self.cap,
            place=self.place,
            shape=(self.n_sums, self.n_bins),
            norm=self.norm,
        )
        return (Values(total_over_units(sums, totals)[None]),)


def _bin_totals(
    pairs: PrivatePairs,
    *,
    prices: Ints,
    cap: int,
    place: Ints,
    shape: tuple[int, int],
    norm: Norm,
) -> Ints:
    """Return the weights of bins of some units. PRIVATE."""
    if pairs.bins is None:
        raise HexveilError("this stage measures records by bin, which these pairs lack.")
    n_sums, n_bins = shape
    weights, rows = unit_weights(pairs, prices, cap, norm), pairs.bins
    pair, of_bin, parts = apportion(rows.pair, place[rows.bin], rows.count, weights)
    entry = (pairs.cell[pair] if n_sums == prices.size else 0) * n_bins + of_bin
    # Exact: every partial sum is a whole number below 2^53.
    return np.bincount(entry, weights=parts, minlength=n_sums * n_bins).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PooledBins(BinnedWeights):
    """Noisy weight of each bin over all cells; its row also holds the next bins, made from them.

    Attributes
    ----------
    placed : callable
        From noisy weights, in parts, to the bin of each fine bin in the next stage.
    """

    placed: Callable[[Ints], Ints]

    @property
    def norm(self) -> Norm:
        """Their sum, under either law: cells of a unit add up before they are noised."""
        return L1

    @property
    def entries(self) -> int:
        """Noisy bins, then the next bin of each fine bin."""
        return self.n_noised + self.place.size

    @property
    def n_sums(self) -> int:
        """One sum."""
        return 1

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy bins, then the next bin of each fine bin."""
        # Stored, as the last digits of a double may differ between processors.
        return np.hstack([drawn, np.array([self.placed(noisy) for noisy in drawn])])


@dataclass(frozen=True, eq=False)
class CoarseWeights(BinnedWeights):
    """Noisy weight of each cell in one bin; its row also holds the prices made from them.

    Attributes
    ----------
    threshold : int or None
        Noisy weight, in parts, from which a cell is open; None opens every cell.
    """

    threshold: int | None

    @property
    def entries(self) -> int:
        """Noisy weight and price of each cell."""
        return 2 * self.n_noised

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy weights, then the prices."""
        least = 0 if self.threshold is None else self.threshold
        priced = [
            prices_of_weights(noisy / PARTS, (noisy >= least) | (self.threshold is None))
            for noisy in drawn
        ]
        return np.hstack([drawn, np.array(priced)])
