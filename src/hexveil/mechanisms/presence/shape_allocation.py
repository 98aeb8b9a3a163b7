"""The stages of a map of distributions with private presence.

| stage | releases | from |
|---|---|---|
| wide bins | pooled distribution over bins of equal width | bounds |
| narrow bins | pooled distribution over bins at quantiles | the wide bins |
| coarse weights | weight of each cell | - |
| cell bins | weight of each cell by few bins, at quantiles and public thresholds | all of these |

Small fleets have neither narrow bins nor coarse weights, so no prices: which stages there are
follows from declared numbers. Each stage sees the records, declared numbers and released numbers of
the stages before, nothing else.

Loss of all: ε, or (ε, δ) with noise of Gaussian law, for any unit, present or not: the shares of
the stages add up to 1, whatever the outputs are (`accounting.promise`), by adaptive composition
(`hexveil.mechanisms.contract`).

Each stage has weights of bins, a unit's distribution in each cell as one contribution.
A unit enters a cell with its weight w_c of `contribution`, within P = 2^20 over all
cells in the norm of the noise's law (`noise_law`), divided over B bins by its own records there.
With n records, C_j of them in the bins up to j, C_0 = 0 and C_B = n:

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

Bins and prices follow from noisy numbers, so stages compose adaptively.
Every cell of the declared grid gets noise, whether records lie in it or not. Nothing overflows 64
bits: a count is at most 2^20, so n <= 2^36 with 2^16 fine bins, and w_c n <= 2^56.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import NoisyTotals, Stage
from hexveil.mechanisms.distribution.binned_stage import apportion
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS, N_WIDE, NARROW, WIDE, ShapeBins
from hexveil.mechanisms.distribution.shape_statistics import (
    CellEstimates,
    ShapeStatistics,
    between_cells,
    cell_statistics,
)
from hexveil.mechanisms.distribution.tilt_estimation import (
    INFLATION,
    UNSEEN,
    TiltFit,
    fit_cells,
    weight_variances,
)
from hexveil.mechanisms.distribution.tilted_shapes import add_misfit
from hexveil.mechanisms.presence import L1, AnyUnitPlan, Norm, any_unit_stage, norm_of
from hexveil.mechanisms.presence.contribution import prices_of_weights, unit_weights
from hexveil.mechanisms.presence.presence_decoding import (
    ReleasedMap,
    noisy_columns,
    weight_interval,
)
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.private_pairs import PrivatePairs

COARSE_WEIGHTS = "coarse weights"
SHRUNK = 0.2
"""Part of the noise's standard deviation by which small shares shrink."""


@dataclass(frozen=True)
class ShapeForm:
    """Shares of the loss and numbers of bins: all public, from declarations.

    Attributes
    ----------
    shape_share, coarse_share : Fraction
        Of the pooled shape and of the coarse weights; 0 of what is not measured.
    n_wide, n_narrow : int
        Bins of the pooled shape; no narrow ones are 0.
    n_quantiles : int
        Bins of a cell, without those that thresholds add.
    """

    shape_share: Fraction = Fraction("0.15")
    coarse_share: Fraction = Fraction("0.15")
    n_wide: int = 16
    n_narrow: int = 20
    n_quantiles: int = 4

    def __post_init__(self) -> None:
        if not (self.shape_share >= 0 and self.coarse_share >= 0 and self.map_share > 0):
            raise InputError("every stage of a map needs a share of epsilon above 0, of 1 in all.")

    @property
    def map_share(self) -> Fraction:
        """Share of the bins of cells."""
        return 1 - self.shape_share - self.coarse_share


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
    def n_bins(self) -> int:
        """Bins of a cell at most: so many are noised, whatever the pooled shape is."""
        return self.form.n_quantiles + len(self.threshold_edges)

    def n_used(self, outputs: Outputs) -> int:
        """Return the bins of a cell that fine bins lie in; those after them are noise alone."""
        return int(self.cell_place(outputs).max()) + 1

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

    @property
    def tests(self) -> tuple[int | None, list[tuple[NoiseLaw, int]]]:
        """The threshold of all bins, and noise and numbers of each weight that has to reach it."""
        coarse = [(self.coarse_law, 1)] if self.form.coarse_share else []
        return self.threshold(self.n_bins), [(self.law, self.n_bins), *coarse]

    kind = "shapes"

    def opening(self, outputs: Outputs) -> int | None:
        """Return the threshold of the bins in use."""
        return self.threshold(self.n_used(outputs))

    def statement(self, outputs: Outputs) -> dict[str, Any]:
        """Return the bins of a cell that are in use."""
        return {"bins": self.n_used(outputs)}

    # ---- what outputs say ----

    @property
    def shape(self) -> ShapeBins:
        """Bins of the pooled shape; the number of units is private."""
        edges, form = np.array(self.fine_edges, dtype=np.int64), self.form
        promise = self.promise.part(form.shape_share)
        return ShapeBins(edges, form.n_wide, form.n_narrow, promise, 1, SHRUNK)

    def prices(self, outputs: Outputs) -> Ints:
        """Return the price of each cell, 0 where the coarse weights closed it."""
        if not self.form.coarse_share:
            return self._ones
        return np.asarray(outputs[COARSE_WEIGHTS][0][self.n_cells :])

    def cell_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the cells."""
        last, n_bins = (
            (NARROW, self.form.n_narrow) if self.form.n_narrow else (WIDE, self.form.n_wide)
        )
        return np.asarray(outputs[last][0][n_bins:])

    def pooled_shape(self, outputs: Outputs) -> tuple[Floats, Ints]:
        """Return the shares of fine bins, and the bin of each in the finest measurement."""
        return self.shape.shares(outputs), self.shape.measured_place(outputs)

    def forecast_of(self, cells: Bools) -> TiltFit | None:  # noqa: ARG002  see RememberedShapes
        """Return the tilts of cells by earlier days; None without."""
        return None

    def noisy_bins(self, outputs: Outputs) -> Floats:
        """Return the noisy weights of bins in use, in units; shape (n_cells, n_used)."""
        noisy = outputs[CELL_BINS][0][: self.n_cells * self.n_bins].reshape(-1, self.n_bins)
        return np.asarray(noisy[:, : self.n_used(outputs)] / PARTS)

    def decode(
        self, outputs: Outputs, statistics: ShapeStatistics, groups: Sequence[Ints] = ()
    ) -> ReleasedMap:
        """Return the map of a release; `groups` as in `fit_bins`, of all cells. Post-processing.

        All statistics of a cell are those of one tilted form of the pooled shape, so they agree.
        The weight of a cell is the sum of its noisy bins.
        """
        bins = self.noisy_bins(outputs)
        weight, is_open = bins.sum(axis=1), self.prices(outputs) > 0
        least, columns = self.open_from(outputs), statistics.columns
        if least is not None:
            is_open &= np.rint(weight * PARTS) >= least * PARTS
        numbers = np.full((4, weight.size, len(columns)), np.nan)
        between = np.full(len(columns), np.nan)
        if is_open.any():
            known = self.pooled_shape(outputs), self.cell_place(outputs)
            alike, noise = [group[is_open] for group in groups], self.law.number_deviation / PARTS
            forecast = self.forecast_of(is_open)
            made = estimate_cells(statistics, *known, bins[is_open], noise, alike, forecast)
            numbers[:, is_open] = made.estimate, made.low, made.high, made.error
            between = between_cells(made.estimate, made.error, statistics.half_bins)
        ends = weight_interval(weight, self.law, bins.shape[1], least)
        estimates = {
            f"{name}{end}": numbers[number, :, k]
            for number, end in enumerate(("", "_low", "_high"))
            for k, name in enumerate(columns)
        }
        return ReleasedMap(
            is_open,
            estimates | noisy_columns("weight", weight, ends, is_open),
            dict(zip(columns, numbers[3].T, strict=True)),
            dict(zip(columns, between.tolist(), strict=True)),
        )

    # ---- stages ----

    @property
    def _ones(self) -> Ints:
        return np.ones(self.n_cells, dtype=np.int64)

    def stages(self, earlier: Outputs) -> Iterator[Stage]:
        """Yield the stages of the form."""
        shape = self.shape
        yield self._pooled(WIDE, shape.wide_place, shape.n_wide)
        if shape.n_narrow:
            yield self._pooled(NARROW, shape.measured_place(earlier), shape.n_narrow)
        if self.form.coarse_share:
            yield self._coarse_weights(earlier)
        place, prices = self.cell_place(earlier), self.prices(earlier)
        yield binned_stage(CELL_BINS, prices, place, (self.n_cells, self.n_bins), self.law)

    def _pooled(self, name: str, place: Ints, n_bins: int) -> NoisyTotals:
        """Return the stage of bins over all cells; its row also holds the next bins."""
        shape, edges = self.shape, np.array(self.threshold_edges, dtype=np.int64)

        def placed(noisy: Ints) -> Ints:
            if name == WIDE and shape.n_narrow:
                return shape.narrow_place(noisy)
            of_bins = shape.smooth if name == WIDE else shape.even
            shares = of_bins(name, noisy, place)
            return shape.quantile_place(shares, self.form.n_quantiles, edges)

        # In L1 under either law: cells of a unit add up before they are noised.
        stage = binned_stage(name, self._ones, place, (1, n_bins), shape.law(name), norm=L1)
        return replace(stage, decide=placed, n_decided=place.size)

    def _coarse_weights(self, earlier: Outputs) -> NoisyTotals:
        # That of the published map: an empty cell that stays open takes nobody's weight.
        least = self.opening(earlier)
        one_bin = np.zeros(len(self.fine_edges), dtype=np.int64)

        def priced(noisy: Ints) -> Ints:
            is_open = np.full(noisy.size, fill_value=True) if least is None else noisy >= least
            return prices_of_weights(noisy / PARTS, is_open)

        shape = self.n_cells, 1
        stage = binned_stage(COARSE_WEIGHTS, self._ones, one_bin, shape, self.coarse_law)
        return replace(stage, decide=priced, n_decided=self.n_cells)


def estimate_cells(
    statistics: ShapeStatistics,
    pooled: tuple[Floats, Ints],
    place: Ints,
    bins: Floats,
    noise: float,
    groups: Sequence[Ints],
    forecast: TiltFit | None,
) -> CellEstimates:
    """Return the statistics of cells by their noisy bins: see `ShapeAllocation.decode`.

    Intervals of quantiles reach to the ends of the bins that were measured. Not so with a forecast
    and a shape of narrow bins: these show numbers that many records share, and draws differ as to
    where in its bins a cell's records lie.
    """
    shares, measured = pooled
    fit = fit_cells(shares, bins, place, noise, groups, forecast)
    if forecast is None:
        inflated = TiltFit(fit.alpha, INFLATION * fit.covariance)
        return cell_statistics(statistics, shares, inflated, INFLATION, measured)
    weight, noise_variance, misfit = (one[:, None] for one in weight_variances(bins, noise))
    target, seen = bins / weight, (1.0 - UNSEEN) * misfit
    hidden = noise_variance + UNSEEN * misfit

    def adjusted(rows: slice, middle: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        return middle, add_misfit(drawn, place, shares, target[rows], hidden[rows], seen[rows])

    is_edge = (np.diff(place) != 0) | (np.diff(measured) != 0) | (measured.max() >= N_WIDE)
    ends = np.append(0, np.cumsum(is_edge))
    return cell_statistics(statistics, shares, fit, 1.0, ends, adjusted=adjusted)


def binned_stage(
    name: str,
    prices: Ints,
    place: Ints,
    shape: tuple[int, int],
    law: NoiseLaw,
    norm: Norm | None = None,
) -> NoisyTotals:
    """Return the stage of the bins of each cell, or of all: `shape` has sums and bins of each."""
    # Public arrays alone: an executor is sent this.
    totals = partial(bin_totals, prices=prices, place=place, shape=shape, norm=norm or norm_of(law))
    return any_unit_stage(name, shape[0] * shape[1], law, totals)


def bin_totals(
    pairs: PrivatePairs, *, prices: Ints, place: Ints, shape: tuple[int, int], norm: Norm
) -> Ints:
    """Return the weights of bins of some units. PRIVATE."""
    n_sums, n_bins = shape
    weights, rows = unit_weights(pairs, prices, norm), pairs.counted
    pair, of_bin, parts = apportion(rows.pair, place[rows.bin], rows.count, weights)
    entry = (pairs.cell[pair] if n_sums == prices.size else 0) * n_bins + of_bin
    # Exact: every partial sum is a whole number below 2^53.
    return np.bincount(entry, weights=parts, minlength=n_sums * n_bins).astype(np.int64)
