"""The stages of a map of distributions with private presence.

| stage | releases | from |
|---|---|---|
| wide bins | pooled distribution over bins of equal width | bounds |
| narrow bins | pooled distribution over bins at quantiles | the wide bins |
| coarse weights | weight of each cell | - |
| user cap | quantile of the units' priced records | prices from the coarse weights |
| cell bins | weight of each cell by few bins, at quantiles and public thresholds | all of these |

Small fleets have neither narrow bins nor coarse weights, so no prices and no private cap: which
stages there are follows from declared numbers. Each stage sees the records, declared numbers and
released numbers of the stages before, nothing else.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: stated by each stage (`binned_weights`, `pooled_histogram`).
Loss: ε, or (ε, δ) with noise of Gaussian law, for any unit, present or not: the shares of the
stages add up to 1, whatever the outputs are (`accounting.promise`).
Source: adaptive composition (`hexveil.mechanisms.contract`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import PARTS, Promise, promised
from hexveil.base.errors import InputError
from hexveil.mechanisms.distribution.pooled_shape import PooledDensity
from hexveil.mechanisms.presence.any_unit import AnyUnitPlan
from hexveil.mechanisms.presence.contribution import norm_of
from hexveil.mechanisms.presence.presence_design import NO_CAP, DeclaredCap, PrivateCap, UserCap
from hexveil.mechanisms.presence.shapes.binned_weights import (
    BinnedWeights,
    CoarseWeights,
    PooledBins,
)
from hexveil.mechanisms.presence.unit_votes import cap_stage, middle_price

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import Outputs, Stage
    from hexveil.mechanisms.pooled_histogram import PooledHistogram

WIDE_BINS, NARROW_BINS = "wide bins", "narrow bins"
COARSE_WEIGHTS, CELL_BINS = "coarse weights", "cell bins"
SHRUNK = 0.2
"""Part of the noise's standard deviation by which small shares shrink."""
WIDE_PART = Fraction(2, 5)
"""Part of the shape's share that the wide bins have where narrow ones follow."""


@dataclass(frozen=True)
class ShapeForm:
    """Shares of the loss and numbers of bins: all public, from declarations.

    Attributes
    ----------
    shape_share, coarse_share : Fraction
        Of the pooled shape and of the coarse weights; 0 without coarse weights.
    n_wide, n_narrow : int
        Bins of the pooled shape; no narrow ones are 0.
    n_quantiles : int
        Bins of a cell, without those that thresholds add.
    cap : NoCap, DeclaredCap or PrivateCap
        A private one needs coarse weights.
    """

    shape_share: Fraction = Fraction("0.15")
    coarse_share: Fraction = Fraction("0.15")
    n_wide: int = 16
    n_narrow: int = 20
    n_quantiles: int = 4
    cap: UserCap = NO_CAP

    def __post_init__(self) -> None:
        if isinstance(self.cap, PrivateCap) and not self.coarse_share:
            raise InputError("a private cap needs the coarse weights of a large fleet.")
        if not (self.shape_share > 0 and self.coarse_share >= 0 and self.cell_share > 0):
            raise InputError("every stage of a map needs a share of epsilon above 0, of 1 in all.")

    @property
    def cell_share(self) -> Fraction:
        """Share of the bins of cells."""
        cap_share = self.cap.share if isinstance(self.cap, PrivateCap) else 0
        return 1 - self.shape_share - self.coarse_share - cap_share


@dataclass(frozen=True)
class ShapeAllocation(AnyUnitPlan):
    """Plan of a map of distributions with private presence: public numbers alone.

    Attributes
    ----------
    n_cells : int
        Of the declared grid.
    fine_edges : tuple of int
        Upper ends of the fine bins, in quanta; the last is the span.
    threshold_edges : tuple of int
        Those at which bins of cells are split as well.
    epsilon : Fraction
    form : ShapeForm
    false_openings : float or None
        Expected number of empty cells that are opened; None opens every cell.
    delta : Fraction
        0 for a pure promise.
    """

    n_cells: int
    fine_edges: tuple[int, ...]
    threshold_edges: tuple[int, ...]
    epsilon: Fraction
    form: ShapeForm
    false_openings: float | None = 1.0
    delta: Fraction = Fraction(0)

    @property
    def promise(self) -> Promise:
        """The loss; each stage has a share of it."""
        return promised(self.epsilon, self.delta)

    @property
    def n_bins(self) -> int:
        """Bins of a cell at most: so many are noised, whatever the pooled shape is."""
        return self.form.n_quantiles + len(self.threshold_edges)

    def n_used(self, outputs: Outputs) -> int:
        """Return the bins of a cell that fine bins lie in; those after them are noise alone."""
        return int(self.cell_place(outputs).max()) + 1

    @property
    def law(self) -> NoiseLaw:
        """Noise of the bins of cells."""
        return self.promise.part(self.form.cell_share).noise()

    @property
    def coarse_law(self) -> NoiseLaw:
        """Noise of the coarse weights."""
        return self.promise.part(self.form.coarse_share).noise()

    def threshold(self, n_bins: int) -> int | None:
        """Return the noisy weight, in parts, from which a cell is published; None without a test.

        Parameters
        ----------
        n_bins : int
            Bins that weights are sums of.
        """
        if self.false_openings is None:
            return None
        tail, law = min(self.false_openings / self.n_cells, 0.5), self.law
        return int(np.ceil(law.scale * law.total_quantile(n_bins, tail)))

    # ---- what outputs say ----

    def prices(self, outputs: Outputs) -> Ints:
        """Return the price of each cell, 0 where the coarse weights closed it."""
        if not self.form.coarse_share:
            return self._ones
        return np.asarray(outputs[COARSE_WEIGHTS][0][self.n_cells :])

    def cell_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the cells."""
        name, n_bins = (
            (NARROW_BINS, self.form.n_narrow)
            if self.form.n_narrow
            else (
                WIDE_BINS,
                self.form.n_wide,
            )
        )
        return np.asarray(outputs[name][0][n_bins:])

    def measured_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the finest release of the pooled shape."""
        if self.form.n_narrow:
            return np.asarray(outputs[WIDE_BINS][0][self.form.n_wide :])
        return self._density.wide_place(self.form.n_wide)

    def noisy_bins(self, outputs: Outputs) -> Floats:
        """Return the noisy weights of bins in use, in units; shape (n_cells, n_used)."""
        noisy = outputs[CELL_BINS][0].reshape(-1, self.n_bins)
        return np.asarray(noisy[:, : self.n_used(outputs)] / PARTS)

    def pooled_shares(self, outputs: Outputs) -> Floats:
        """Return the pooled share of each fine bin: positive, with the sum 1."""
        if self.form.n_narrow:
            wide = outputs[WIDE_BINS][0][self.form.n_wide :]
            return self._even_shares(NARROW_BINS, outputs[NARROW_BINS][0], wide)
        return self._smooth_shares(outputs[WIDE_BINS][0])

    # ---- stages ----

    @property
    def _ones(self) -> Ints:
        return np.ones(self.n_cells, dtype=np.int64)

    @property
    def _density(self) -> PooledDensity:
        return PooledDensity(np.array(self.fine_edges, dtype=np.int64))

    def _shape_law(self, name: str) -> NoiseLaw:
        part = Fraction(1)
        if self.form.n_narrow:
            part = WIDE_PART if name == WIDE_BINS else 1 - WIDE_PART
        return self.promise.part(self.form.shape_share * part).noise()

    def _even_shares(self, name: str, noisy: Ints, place: Ints) -> Floats:
        n_bins = self.form.n_wide if name == WIDE_BINS else self.form.n_narrow
        noise = self._shape_law(name).number_deviation / PARTS
        return self._density.even_shares(noisy[:n_bins] / PARTS, place, SHRUNK * noise)

    def _smooth_shares(self, noisy: Ints) -> Floats:
        n_wide = self.form.n_wide
        noise = self._shape_law(WIDE_BINS).number_deviation / PARTS
        weights = noisy[:n_wide] / PARTS
        # The number of units is private: shares are those of the noisy sum over all bins.
        weight = max(float(weights.sum()), noise * np.sqrt(n_wide))
        place = self._density.wide_place(n_wide)
        return self._density.smooth_shares(weights / weight, place, (noise / weight) ** 2)

    def _in_cells(self, shares: Floats) -> Ints:
        edges = np.array(self.threshold_edges, dtype=np.int64)
        return self._density.quantile_place(shares, self.form.n_quantiles, edges)

    def stages(self, earlier: Outputs) -> Iterator[Stage]:
        """Yield the stages of the form."""
        yield self._wide_bins()
        if self.form.n_narrow:
            yield self._narrow_bins(earlier)
        if self.form.coarse_share:
            yield self._coarse_weights(earlier)
        if isinstance(self.form.cap, PrivateCap):
            yield self._user_cap(earlier, self.form.cap)
        yield BinnedWeights(
            CELL_BINS,
            self.prices(earlier),
            self._cap(earlier),
            self.cell_place(earlier),
            self.n_bins,
            self.law,
        )

    def _wide_bins(self) -> PooledBins:
        place = self._density.wide_place(self.form.n_wide)

        def placed(noisy: Ints) -> Ints:
            if not self.form.n_narrow:
                return self._in_cells(self._smooth_shares(noisy))
            return self._density.at_quantiles(
                self._even_shares(WIDE_BINS, noisy, place), self.form.n_narrow
            )

        law = self._shape_law(WIDE_BINS)
        return PooledBins(WIDE_BINS, self._ones, 0, place, self.form.n_wide, law, placed)

    def _narrow_bins(self, earlier: Outputs) -> PooledBins:
        place = np.asarray(earlier[WIDE_BINS][0][self.form.n_wide :])

        def placed(noisy: Ints) -> Ints:
            return self._in_cells(self._even_shares(NARROW_BINS, noisy, place))

        law = self._shape_law(NARROW_BINS)
        return PooledBins(NARROW_BINS, self._ones, 0, place, self.form.n_narrow, law, placed)

    def _coarse_weights(self, earlier: Outputs) -> CoarseWeights:
        # That of the published map: an empty cell that stays open takes nobody's weight.
        least = self.threshold(self.n_used(earlier))
        one_bin = np.zeros(len(self.fine_edges), dtype=np.int64)
        return CoarseWeights(COARSE_WEIGHTS, self._ones, 0, one_bin, 1, self.coarse_law, least)

    def _user_cap(self, earlier: Outputs, cap: PrivateCap) -> PooledHistogram:
        noise = self.promise.part(cap.share).noise()
        return cap_stage(self.prices(earlier), norm_of(self.law), noise, cap.quantile)

    def _cap(self, outputs: Outputs) -> int:
        """Return the cap of the bins of cells, in priced records."""
        if isinstance(self.form.cap, PrivateCap):
            return int(self._user_cap(outputs, self.form.cap).decisions(outputs)[0])
        if isinstance(self.form.cap, DeclaredCap):
            return self.form.cap.records * middle_price(self.prices(outputs))
        return 0
