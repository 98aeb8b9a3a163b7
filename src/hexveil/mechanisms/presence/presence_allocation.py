"""The stages of a map with private presence.

| stage | releases | from |
|---|---|---|
| centre | median of the units' means | candidates over the bounds |
| radius | quantile of distances from the centre | the centre |
| coarse map | weight of each cell and side | centre, radius |
| residual radius | quantile of distances from the cells' centres | the coarse map |
| user cap | quantile of the units' priced records | prices from the coarse map |
| fine map | weight of each cell and side | all of these |

A one-shot map has no coarse map, so no residual radius, no prices and no private cap. Which form is
taken follows from declared numbers. Each stage sees the records, declared numbers and released
numbers of the stages before, nothing else.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: stated by each stage (`population_quantile`, `map_stage`).
Loss: ε, or (ε, δ) with noise of Gaussian law in the maps, for any unit, present or not: the shares
of the stages add up to 1, whatever the outputs are (`loss_shares`).
Source: adaptive composition (`hexveil.mechanisms.contract`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.contract import DONE
from hexveil.mechanisms.presence.cell_effects import NoisyLevels
from hexveil.mechanisms.presence.contribution import MAX_PRICE, PARTS, CellWindow
from hexveil.mechanisms.presence.loss_shares import LossShares, booked_losses, loss_shares
from hexveil.mechanisms.presence.map_noise import MapNoise, laplace_equivalent
from hexveil.mechanisms.presence.map_refinement import MapRefinement
from hexveil.mechanisms.presence.map_stage import CoarseMap, WeightMap
from hexveil.mechanisms.presence.population_quantile import (
    CentreDistances,
    PopulationQuantile,
    RangeDistances,
    UnitTotals,
    VotedPositions,
)
from hexveil.mechanisms.presence.presence_decoding import PresenceMap, decode_map
from hexveil.mechanisms.presence.presence_design import (
    CAPPED_WEIGHT,
    CENTRE_PART,
    DEFAULT_RANGES,
    RESIDUAL_CLIPPED,
    DeclaredCap,
    Form,
    OneShot,
    PrivateCap,
    RangeDesign,
    ThreeStages,
    quantile_for_noise,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.mechanisms.contract import Floats, Ints, Outputs, Stage

CENTRE, RADIUS, COARSE_MAP = "centre", "radius", "coarse map"
MEDIAN = Fraction(1, 2)
RESIDUAL_RADIUS, USER_CAP, FINE_MAP = "residual radius", "user cap", "fine map"


@dataclass(frozen=True, eq=False)
class PresenceAllocation:
    """Plan of a map with private presence: public numbers alone.

    Attributes
    ----------
    n_cells : int
        Of the declared grid.
    span_quanta : int
        Width of the bounds.
    epsilon : Fraction
    form : OneShot or ThreeStages
    false_openings : float or None
        Expected number of empty cells that are opened; None opens every cell.
    design : RangeDesign
    shape : tuple of int
        Dimensions of the grid, cells in C order; empty for one alone.
    delta : Fraction
        0 for a pure promise.
    """

    n_cells: int
    span_quanta: int
    epsilon: Fraction
    form: Form
    false_openings: float | None = 1.0
    design: RangeDesign = DEFAULT_RANGES
    shape: tuple[int, ...] = ()
    delta: Fraction = Fraction(0)
    kind = "presence"

    @property
    def shares(self) -> LossShares:
        """The loss; each stage has a share of it."""
        return loss_shares(self.epsilon, self.delta)

    def losses(self) -> Floats:
        """Return the loss of any unit, shape (1,): booked."""
        return booked_losses(self.shares)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the stage after these outputs: see `Allocation`."""
        # Each stage is built from the outputs of those before it, so no further than the first
        # that has none of its own.
        return next((stage for stage in self._stages(earlier) if stage.name not in earlier), DONE)

    @property
    def law(self) -> MapNoise:
        """Noise of the map that is published."""
        return self.shares.map_noise(self.form.map_share)

    @property
    def fine_scale(self) -> float:
        """Noise scale of the map that is published, in parts."""
        return self.law.scale

    @property
    def threshold(self) -> int | None:
        """Noisy weight, in parts, from which a cell is published; None without a test."""
        if self.false_openings is None:
            return None
        return self.law.opening_threshold(self.n_cells, self.false_openings)

    def fine_window(self, outputs: Outputs) -> CellWindow:
        """Return prices, centres, radius and cap of the map that is published."""
        if isinstance(self.form, OneShot):
            cap = self.form.cap.records if isinstance(self.form.cap, DeclaredCap) else 0
            return self._range_window(outputs, cap)
        _, centres, prices = self._coarse_row(outputs)
        radius = self._residual_radius(outputs, self.form).selected(outputs)
        return CellWindow(prices, centres, radius, self._cap(outputs, self.form))

    def decode(self, outputs: Outputs) -> PresenceMap:
        """Return the map, with every cell of the grid, open or closed."""
        # Cells that the coarse map closed stay closed; of the others the fine map decides.
        noisy = outputs[FINE_MAP][0]
        window = self.fine_window(outputs)
        levels = self._levels(outputs, window) if self.shape else None
        return decode_map(window, noisy, self.law, self.threshold, levels)

    def _levels(self, outputs: Outputs, window: CellWindow) -> Floats:
        """Return levels of all cells, in parts; of cells without a price from the coarse map."""
        published = self._noisy_levels(window, outputs[FINE_MAP][0], self.law)
        if isinstance(self.form, OneShot):
            return published.smoothed(self.shape).levels(self.shape)
        law = self.coarse_law(self.form)
        coarse = self._noisy_levels(self._range_window(outputs), self._coarse_row(outputs)[0], law)
        has_price = window.prices > 0
        merged = published.above_noise().where(has_price, coarse.smoothed(self.shape))
        return merged.levels(self.shape)

    def _noisy_levels(self, window: CellWindow, noisy: Ints, law: MapNoise) -> NoisyLevels:
        weight, difference = window.decode(noisy)
        deviation = law.sum_deviation / PARTS
        return NoisyLevels.of(weight, difference, window.centres, window.radius, deviation)

    # ---- stages ----

    def _stages(self, earlier: Outputs) -> Iterator[Stage]:
        yield self._centre()
        yield self._radius(earlier)
        if isinstance(self.form, ThreeStages):
            yield self._coarse_map(earlier, self.form)
            yield self._residual_radius(earlier, self.form)
            if isinstance(self.form.cap, PrivateCap):
                yield self._user_cap(earlier, self.form.cap)
        yield WeightMap(FINE_MAP, self.fine_window(earlier), self.span_quanta, self.law)

    def coarse_law(self, form: ThreeStages) -> MapNoise:
        """Return the noise of the coarse map."""
        return self.shares.map_noise(form.coarse_share)

    def _centre(self) -> PopulationQuantile:
        return PopulationQuantile.at_loss(
            CENTRE,
            VotedPositions(self.span_quanta),
            self.design.centres(),
            MEDIAN,
            self.shares.choice_epsilon(self.form.range_share * CENTRE_PART),
        )

    def _radius(self, earlier: Outputs) -> PopulationQuantile:
        centre = self._centre().selected(earlier)
        return PopulationQuantile.at_loss(
            RADIUS,
            RangeDistances(self.span_quanta, centre),
            self.design.radii(),
            self.design.radius_quantile,
            self.shares.choice_epsilon(self.form.range_share * (1 - CENTRE_PART)),
        )

    def _range_window(self, outputs: Outputs, cap: int = 0) -> CellWindow:
        """Return the window of the private range: all cells alike, at a price of 1."""
        centre = self._centre().selected(outputs)
        radius = self._radius(outputs).selected(outputs)
        ones = np.ones(self.n_cells, dtype=np.int64)
        return CellWindow(ones, np.full(self.n_cells, centre), radius, cap)

    def _coarse_map(self, earlier: Outputs, form: ThreeStages) -> CoarseMap:
        law = self.coarse_law(form)
        window = self._range_window(earlier)
        # The threshold of the published map, not one of the coarse map's larger noise: an empty
        # cell that stays open takes nobody's weight, a used one that is closed is lost.
        refinement = MapRefinement(law.sum_deviation, self.threshold, self.shape)
        return CoarseMap(COARSE_MAP, window, self.span_quanta, law, refinement)

    def _coarse_row(self, outputs: Outputs) -> tuple[Ints, Ints, Ints]:
        """Return the noisy numbers of the coarse map, the centres and the prices."""
        row, n = outputs[COARSE_MAP][0], self.n_cells
        return row[: 2 * n], row[2 * n : 3 * n], row[3 * n :]

    def _residual_radius(self, earlier: Outputs, form: ThreeStages) -> PopulationQuantile:
        noisy, centres, prices = self._coarse_row(earlier)
        weight = _mean_weight(noisy, prices)
        if isinstance(form.cap, PrivateCap):
            weight *= CAPPED_WEIGHT
        return PopulationQuantile.at_loss(
            RESIDUAL_RADIUS,
            CentreDistances(self.span_quanta, centres, prices),
            self.design.radii(),
            quantile_for_noise(laplace_equivalent(self.law), weight, RESIDUAL_CLIPPED),
            self.shares.choice_epsilon(form.residual_share),
        )

    def _user_cap(self, earlier: Outputs, cap: PrivateCap) -> PopulationQuantile:
        prices = self._coarse_row(earlier)[2]
        return PopulationQuantile.at_loss(
            USER_CAP,
            UnitTotals(prices, self.law.norm),
            cap.candidates(middle_price(prices)),
            cap.quantile,
            self.shares.choice_epsilon(cap.share),
            cap.penalty_votes,
        )

    def _cap(self, outputs: Outputs, form: ThreeStages) -> int:
        """Return the cap of the fine map, in priced records."""
        if isinstance(form.cap, PrivateCap):
            return self._user_cap(outputs, form.cap).selected(outputs)
        if isinstance(form.cap, DeclaredCap):
            noisy, _, prices = self._coarse_row(outputs)
            return form.cap.records * _mean_price(noisy, prices)
        return 0


def middle_price(prices: Ints) -> int:
    """Return the middle price of the open cells, `MAX_PRICE` if there are none."""
    positive = np.sort(prices[prices > 0])
    return int(positive[positive.size // 2]) if positive.size else MAX_PRICE


def _mean_weight(noisy: Ints, prices: Ints) -> Fraction:
    """Return the mean noisy weight of the open cells, in parts; 0 if there are none."""
    weights = (noisy[: prices.size] + noisy[prices.size :])[prices > 0].tolist()
    return Fraction(sum(weights), len(weights)) if weights else Fraction(0)


def _mean_price(noisy: Ints, prices: Ints) -> int:
    """Return the mean price of the open cells by noisy weight, at least 1; in whole numbers."""
    weight = np.maximum(noisy[: prices.size] + noisy[prices.size :], 0)
    pairs = [(int(w), int(p)) for w, p in zip(weight, prices, strict=True) if p]
    total = sum(w for w, _ in pairs)
    return max(sum(w * p for w, p in pairs) // total, 1) if total else MAX_PRICE
