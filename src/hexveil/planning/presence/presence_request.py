"""Request for a map with private presence: declared numbers, from which its plan is made.

A request never sees records. Where the public-occupancy model would count, the holder declares: the
grid, the bounds, the number of units in the fleet and how much they report. A wrong declaration
costs accuracy, never privacy. Limits on records saturate (`hexveil.model.private_pairs`): no
request is refused for its records.

There is one class for averages, for distributions, for numbers of units, and for these beside a
map: what is asked for is a field, and its stages follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hexveil.accounting.promise import PARTS, Promise, check_units, promised
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms.distribution.pooled_shape import shape_bins
from hexveil.mechanisms.distribution.shape_statistics import (
    MEAN,
    SCORE_LATTICE,
    ShapeStatistics,
    indicator,
)
from hexveil.mechanisms.forecast_widths import choose_half_widths
from hexveil.mechanisms.presence.contribution import CellWindow, prices_of_weights
from hexveil.mechanisms.presence.count_map import CountAllocation, CountedAllocation
from hexveil.mechanisms.presence.presence_allocation import (
    ONE_SHOT,
    THREE_STAGES,
    MapForm,
    PresenceAllocation,
)
from hexveil.mechanisms.presence.remembered_map import RememberedMap, RememberedShapes
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation, ShapeForm
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.public_metadata import FineBins, ValueLattice
from hexveil.model.statistic_terms import Share, Term, fine_bins
from hexveil.planning.allocation import CellForecast

USERS = "users"
"""Numbers of units."""
SMALL_FLEET = 1000
"""Declared units below which a coarse map would be mostly noise: one shot instead."""
SMALL_FLEET_PART = 0.5
"""Weight of the cell that a small fleet's range is chosen for, over the mean of all cells."""
RESIDUAL_SHARE_CELLS, LEAST_RESIDUAL_SHARE = 4, Fraction("0.01")
"""Share of the residuals, times cells; and the least."""
MAX_FLEET = 2**32
SHAPE_NEED, COARSE_NEED = 320, 7
"""Declared units, and units per cell, times ε at which these stages need no more than all of ε."""
LEAST_SHARE, LEAST_SQUARES = Fraction("0.02"), Fraction("0.005")
"""Smallest share of ε, and of squares."""
UNITS_PER_HISTOGRAM, MIN_HISTOGRAM_SHARE = 166, Fraction("0.005")
"""Declared units times ε at which noise of scale 1 / ε of a bin is 0.6 % of the votes; and the
least share of ε of histograms."""
FINER_FROM = 250
"""Declared units per cell times ε from which cells have eight bins in place of four."""
FALSE_OPENINGS = 1.0
"""Expected number of empty cells that are opened in a whole grid of empty ones."""
PURE, ALONE = Fraction(0), Fraction(1)
"""δ of a pure promise; share of numbers of units without a map."""
REMEMBERED = ShapeForm(PURE, PURE, n_quantiles=8)
"""Form of days that remember: all of the loss for bins, which add up over days."""


PresenceStages = PresenceAllocation | ShapeAllocation | CountAllocation | CountedAllocation
"""Stages of a map, of numbers of units, or of both."""


@dataclass(frozen=True)
class FleetDeclaration:
    """Declared size of the fleet; public, not checked against records.

    Attributes
    ----------
    units : int
        Privacy units that may be in the records.
    records_per_unit : int
        Typical number of records of a unit in the whole grid.
    cells_per_unit : int
        Typical number of cells that a unit is in.
    """

    units: int
    records_per_unit: int = 100
    cells_per_unit: int = 10

    def __post_init__(self) -> None:
        for name in ("units", "records_per_unit", "cells_per_unit"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(f"declare {name} as a whole number from 1, got {number!r}.")
        if self.units > MAX_FLEET:
            raise InputError(f"a fleet has at most {MAX_FLEET:,} units, got {self.units:,}.")


@dataclass(frozen=True, eq=False)
class PresenceRequest:
    """Request for averages or distributions and weights per cell, and for numbers of units.

    Attributes
    ----------
    grid : DeclaredGrid
    lattice : ValueLattice
        Bounds and quantum of the values.
    fleet : FleetDeclaration
    epsilon : Fraction
        Loss of any unit, present or not.
    delta : Fraction, optional
        0, the default, for a pure promise; else below 1 / units.
    terms : tuple of Term, optional
        Quantiles, shares and histograms.
    bins : FineBins, optional
        In which records are counted: needed for terms.
    has_mean : bool
        Whether averages are published: beside terms of the same distributions, at no further cost.
    count_share : Fraction
        Share of the loss that numbers of units take: 0 without them, 1 without a map.
    weights : mapping of str to Fraction
        Importance of the kinds of statistics, by which that share was found.
    forecast : CellForecast, optional
        Of the cells by earlier releases: of averages alone, or of one share, the average of an
        indicator, ranges follow from it; of other distributions bins.
    """

    grid: DeclaredGrid
    lattice: ValueLattice
    fleet: FleetDeclaration
    epsilon: Fraction
    delta: Fraction = PURE
    terms: tuple[Term, ...] = ()
    bins: FineBins | None = None
    has_mean: bool = True
    count_share: Fraction = PURE
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    forecast: CellForecast | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", to_positive_fraction(self.epsilon, "epsilon"))
        check_units(self.delta, self.fleet.units)
        edges = set() if self.bins is None else set(self.bins.edges.tolist())
        needed = {term: fine_bins(self.lattice, [term]).edges.tolist() for term in self.terms}
        lacking = [term.text for term, own in needed.items() if not edges.issuperset(own)]
        if lacking:
            raise InputError(
                f"statistics: {lacking[0]!r} needs records counted by bin; name the same "
                "statistics where the records are read and declared (statistics=)."
            )

    # ---- what is asked for ----

    @property
    def promise(self) -> Promise:
        """The loss of all parts together."""
        return promised(self.epsilon, self.delta)

    @property
    def has_map(self) -> bool:
        """Whether there are averages or distributions, perhaps with numbers of units."""
        return self.count_share < ALONE

    @property
    def has_bins(self) -> bool:
        """Whether cells are measured by bins: distributions, but for a share of a later day."""
        return bool(self.terms) and (self.forecast is None or self.forecast.shape is not None)

    @property
    def of_map(self) -> PresenceRequest:
        """The request for the map alone, at its part of the loss."""
        if not self.count_share:
            return self
        return replace(self, epsilon=self._parts[0], count_share=PURE)

    @property
    def _parts(self) -> list[Fraction]:
        """ε of the map and of numbers of units."""
        if not self.has_map:
            return [PURE, self.epsilon]
        return self.promise.epsilons([1 - self.count_share, self.count_share])

    @property
    def measured(self) -> ShapeStatistics:
        """Statistics of each cell's distribution."""
        assert self.bins is not None  # noqa: S101  see __post_init__
        return ShapeStatistics(self.bins, self.lattice, self.terms, self.has_mean)

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the statistics: the mean first, numbers of units last."""
        mean = (MEAN,) if self.has_mean else ()
        of_map = (*mean, *(term.text for term in self.terms)) if self.has_map else ()
        return (*of_map, USERS) if self.count_share else of_map

    @property
    def weight_per_cell(self) -> Fraction:
        """Mean weight of a cell if all declared units are in the records, in units."""
        return Fraction(self.fleet.units, self.grid.n_cells)

    @property
    def even_weight(self) -> float:
        """Weight over all cells of a unit that is in all its declared cells alike.

        1 in L1; in k cells alike, a weight limited in squares is the root of k.
        """
        return math.sqrt(self.cells_of_unit) if self.delta else 1.0

    @property
    def cells_of_unit(self) -> int:
        """Declared cells of a unit, no more than it has records or there are cells."""
        fleet = self.fleet
        return min(fleet.cells_per_unit, fleet.records_per_unit, self.grid.n_cells)

    # ---- stages ----

    def allocation(self) -> PresenceStages:
        """Return the plan: stages with shares of the loss, from declared numbers."""
        if not self.has_map:
            return self.count_allocation()
        of_map = self.of_map
        stages = of_map.shape_allocation() if self.has_bins else of_map.mean_allocation()
        if not self.count_share:
            return stages
        # Which cells are open is decided once, by the map.
        return CountedAllocation(replace(self.count_allocation(), false_openings=None), stages)

    def count_allocation(self) -> CountAllocation:
        """Return the plan of numbers of units: one stage."""
        cap = min(self.fleet.cells_per_unit, self.grid.n_cells)
        epsilon, n_cells = self._parts[1], self.grid.n_cells
        return CountAllocation(n_cells, cap, epsilon, self._false_openings, self.delta)

    def mean_allocation(self) -> PresenceAllocation:
        """Return the plan of averages alone."""
        if self.forecast is not None:
            return self._remembered_map(self.forecast)
        form = self.form()
        sure = 1.0 if form.coarse_share else SMALL_FLEET_PART
        weight = sure * self.even_weight * float(self.weight_per_cell)
        return PresenceAllocation(*self._of_form(form), weight)

    def _of_form(self, form: MapForm) -> tuple[int, int, Fraction, MapForm, float | None, Fraction]:
        """Return the first components of plans of averages."""
        n_cells, steps = self.grid.n_cells, self._averaged.span_quanta
        return n_cells, steps, self.epsilon, form, self._false_openings, self.delta

    @property
    def _averaged(self) -> ValueLattice:
        return SCORE_LATTICE if self.terms else self.lattice

    @property
    def share(self) -> Share | None:
        """The share that is asked for alone, which later days remember; None of other terms."""
        term = self.terms[0] if len(self.terms) == 1 and not self.has_mean else None
        return term if isinstance(term, Share) else None

    @property
    def indicator(self) -> Ints | None:
        """Scores of fine bins whose average is that share."""
        if self.share is None or self.bins is None:
            return None
        return indicator(self.share, self.lattice, self.bins.edges)

    def _remembered_map(self, forecast: CellForecast) -> RememberedMap:
        """Return the plan of averages, or of an indicator's, in ranges by earlier releases."""
        lattice, steps, law = self._averaged, float(PARTS), self.promise.noise()
        span = float(lattice.span)
        within, deviation = forecast.within / span, forecast.deviation / span
        weight, prices = self._expected_weights(forecast)
        priced = weight * prices
        weight = np.maximum(weight.sum() / priced.sum() * priced, 1.0)
        noise = law.sum_deviation / PARTS / (2.0 * weight)
        half, _ = choose_half_widths(within, deviation, noise, np.ones_like(weight))
        centre = np.clip((forecast.mean - float(lattice.lower)) / span, 0.0, 1.0)
        low = np.clip(np.floor((centre - half) * steps), 0, steps - 1).astype(np.int64)
        high = np.clip(np.ceil((centre + half) * steps), low + 1, steps).astype(np.int64)
        return RememberedMap(
            *self._of_form(ONE_SHOT),
            releases=forecast.releases,
            window=CellWindow(prices, low, high),
            within=within,
            scores=self.indicator,
        )

    def _expected_weights(self, forecast: CellForecast) -> tuple[Floats, Ints]:
        """Return the weights of cells that earlier days lead to expect, and the prices by these."""
        assert forecast.weight is not None  # noqa: S101  of cells of a declared grid
        is_used = forecast.weight > 0
        weight = forecast.weight / self.cells_of_unit
        weight = np.where(is_used, weight, weight[is_used].min(initial=np.inf))
        prices = prices_of_weights(weight, is_used)
        # Cells in which nobody is expected may open again, at the cost of the others.
        prices[~is_used] = np.median(prices[is_used]).astype(np.int64)
        return weight, prices

    def shape_allocation(self) -> ShapeAllocation:
        """Return the plan of distributions."""
        assert self.bins is not None  # noqa: S101  see __post_init__
        thresholds = {t.edge(self.lattice) for t in self.terms if isinstance(t, Share)}
        plan = ShapeAllocation(
            self.grid.n_cells,
            tuple(self.bins.edges.tolist()),
            tuple(sorted(thresholds)),
            self.epsilon,
            self.shape_form(),
            self._false_openings,
            self.delta,
        )
        if self.forecast is None or self.forecast.shape is None:
            return plan
        shape, shares, tilts = self.forecast.shape, self.forecast.shares, self.forecast.tilts
        assert shares is not None and tilts is not None  # noqa: S101, PT018  beside a shape
        edges = np.array(plan.threshold_edges, dtype=np.int64)
        return RememberedShapes(
            **vars(plan) | {"form": REMEMBERED},
            releases=self.forecast.releases,
            cell_prices=self._expected_weights(self.forecast)[1],
            place=plan.shape.quantile_place(shape.shares, REMEMBERED.n_quantiles, edges),
            published=(shares, shape.place),
            tilts=tilts,
        )

    @property
    def _false_openings(self) -> float | None:
        """Expected number of empty cells that are opened; None opens every cell."""
        return None if self.grid.is_in_use else FALSE_OPENINGS

    def form(self) -> MapForm:
        """Return the stages: one shot for a small declared fleet, small shares for a large one."""
        if self.fleet.units < SMALL_FLEET:
            return ONE_SHOT
        largest = THREE_STAGES.residual_share
        # The noise of the residuals is in all cells alike.
        by_cells = min(Fraction(RESIDUAL_SHARE_CELLS, self.grid.n_cells), largest)
        residuals = max(self._histogram_share(1, largest), by_cells, LEAST_RESIDUAL_SHARE)
        return replace(
            THREE_STAGES,
            range_share=self._histogram_share(2, THREE_STAGES.range_share),
            residual_share=residuals,
        )

    def shape_form(self) -> ShapeForm:
        """Return the stages of distributions: fewer and coarser ones for a small declared fleet."""
        units, epsilon = self.fleet.units, self._equivalent_epsilon
        weight = self.weight_per_cell * Fraction(self.even_weight)
        shape_share = self._needed(SHAPE_NEED, units * epsilon, ShapeForm.shape_share)
        # The share of ε with the noise of this share: of squares, its root.
        noise_share = Fraction(math.sqrt(shape_share)) if self.delta else shape_share
        n_wide, n_narrow = shape_bins(units * epsilon * noise_share)
        coarse_share = Fraction(0)
        if units >= SMALL_FLEET:
            coarse_share = self._needed(COARSE_NEED, weight * epsilon, ShapeForm.coarse_share)
        return ShapeForm(
            shape_share,
            coarse_share,
            n_wide=n_wide,
            n_narrow=n_narrow,
            n_quantiles=8 if weight * epsilon > FINER_FROM else 4,
        )

    @property
    def _equivalent_epsilon(self) -> Fraction:
        """The ε at which Laplace noise of all of it deviates as this promise's noise does.

        Under a δ in thousandths: shares are made from it, and plans are compared as text.
        """
        exact = self.promise.laplace_epsilon()
        return Fraction(max(round(1000 * exact), 1), 1000) if self.delta else exact

    def _needed(self, need: int, told: Fraction, largest: Fraction) -> Fraction:
        """Return the share of the loss that a stage needs, at most the largest.

        Of ε it falls as one over the number that is told; of squares as its square.
        """
        power, least = (2, LEAST_SQUARES) if self.delta else (1, LEAST_SHARE)
        share = Fraction(round(1000 * (need / told) ** power), 1000)
        return max(min(share, largest), least)

    def _histogram_share(self, n_histograms: int, largest: Fraction) -> Fraction:
        """Return the share of so many histograms: the need of a fleet of this size, and no more.

        At most that of a fleet that is too small for precise ones; of a promise with δ of its
        square, with similar noise.
        """
        need = n_histograms * UNITS_PER_HISTOGRAM / (self.fleet.units * self.epsilon)
        share = max(min(Fraction(round(1000 * need), 1000), largest), MIN_HISTOGRAM_SHARE)
        return min(self.promise.share_worth(self.epsilon * share, n_histograms), largest)
