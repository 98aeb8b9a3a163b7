"""The map of a day with private presence, as the maps of earlier days led to it.

| map | stage | releases | from earlier releases |
|---|---|---|---|
| averages | fine map | weight of each cell and side | prices and ranges of cells |
| distributions | cell bins | weight of each cell by bins | prices of cells, edges of bins |

Sides are those of values, or of an indicator whose threshold was declared.

Neighbours, sensitivity: those of `contribution` and of `shape_allocation`, which hold for any whole
prices, ranges and bins.
Loss: all of ε, or of (ε, δ), in one stage.
What follows from earlier releases is a function of their outputs and of declared numbers alone.
Given these the map is one like any other, so that losses add up over releases, whatever earlier
outputs chose (docs/understand/guarantees.md). It is stored in the row of the map: late digits of
doubles differ between processors. A wrong forecast costs accuracy, never privacy.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import NoisyTotals, Stage
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.mechanisms.distribution.tilt_estimation import TiltFit
from hexveil.mechanisms.pooled_law import BeyondRange, nothing_beyond
from hexveil.mechanisms.presence.contribution import MAX_PRICE, CellWindow, weight_map
from hexveil.mechanisms.presence.presence_allocation import FINE_MAP, PresenceAllocation
from hexveil.mechanisms.presence.shape_allocation import ShapeAllocation, binned_stage
from hexveil.mechanisms.stage_data import Outputs


@dataclass(frozen=True, eq=False, kw_only=True)
class RememberedMap(PresenceAllocation):
    """Plan of a map in ranges by earlier releases: public numbers alone.

    Its text, by which a request is known, names the releases and no number that follows from them.

    Attributes
    ----------
    releases : tuple of str
        Digests of the releases that it rests on.
    window : CellWindow
    within : float
        Standard deviation of units' means within a cell, as a share of the span.
    scores : ndarray of int64, shape (n_fine_bins,), optional
        What is averaged in place of values: declared, as 0 and 1 beyond a threshold.
    """

    releases: tuple[str, ...]
    window: CellWindow = field(repr=False)
    within: float = field(repr=False)
    scores: Ints | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse prices and ranges that the sensitivity does not allow, whatever led to them."""
        window = self.window
        is_range = (window.low >= 0) & (window.low < window.high) & (window.high <= PARTS)
        _check_sensitivity(window.prices, is_range)

    @property
    def law(self) -> NoiseLaw:
        """Noise of the map: it has all of the loss."""
        return self.promise.noise()

    range_law = law

    @property
    def kind(self) -> str:
        """Form of the map in words."""
        return "remembered"

    def stages(self, earlier: Outputs) -> Iterator[Stage]:  # noqa: ARG002  there is one
        """Yield the only stage."""
        yield self._map

    @property
    def _map(self) -> NoisyTotals:
        window = self.window
        stored = np.concatenate([window.prices, window.low, window.high])
        stage = weight_map(FINE_MAP, window, self.span_quanta, self.law, self.scores)
        return replace(stage, decide=lambda _: stored, n_decided=stored.size)

    def fine_window(self, outputs: Outputs) -> CellWindow:
        """Return prices and ranges as they were measured."""
        return CellWindow(*np.split(self._map.decisions(outputs), 3))

    def centres(self, outputs: Outputs) -> Ints:
        """Return the middle of each cell's range, in parts of the span."""
        return np.rint(self.fine_window(outputs).middle).astype(np.int64)

    def statement(self, outputs: Outputs) -> dict[str, Any]:  # noqa: ARG002  of all maps
        """Return the releases and the deviation that the ranges rest on; of scores two numbers."""
        stated = {"history": list(self.releases), "within": self.within}
        return stated if self.scores is None else stated | {"bins": 2}

    def _cut_off(self, outputs: Outputs, window: CellWindow, centres: Ints) -> BeyondRange:  # noqa: ARG002
        return nothing_beyond(self.n_cells, self.within)


@dataclass(frozen=True, eq=False, kw_only=True)
class RememberedShapes(ShapeAllocation):
    """Plan of distributions in bins by earlier releases: public numbers alone.

    Its text names the releases and no number that follows from them.

    Attributes
    ----------
    releases : tuple of str
        Digests of the releases that it rests on.
    cell_prices : ndarray of int64, shape (n_cells,)
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin in the cells.
    published : tuple of ndarray, shape (n_fine_bins,)
        See `ShapeAllocation.pooled_shape`: shares by earlier days, bins of the first.
    tilts : TiltFit
        Of each cell, by earlier days.
    """

    releases: tuple[str, ...]
    cell_prices: Ints = field(repr=False)
    place: Ints = field(repr=False)
    published: tuple[Floats, Ints] = field(repr=False)
    tilts: TiltFit = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse prices and bins that the sensitivity does not allow, whatever led to them."""
        _check_sensitivity(self.cell_prices, (self.place >= 0) & (self.place < self.n_bins))

    kind = "remembered shapes"

    def stages(self, earlier: Outputs) -> Iterator[Stage]:  # noqa: ARG002  there is one
        """Yield the only stage."""
        stored = np.concatenate([self.cell_prices, self.place])
        shape = self.n_cells, self.n_bins
        stage = binned_stage(CELL_BINS, self.cell_prices, self.place, shape, self.law)
        yield replace(stage, decide=lambda _: stored, n_decided=stored.size)

    def _decided(self, outputs: Outputs) -> tuple[Ints, Ints]:
        """Return prices and bins as they were measured."""
        prices, place = np.split(
            outputs[CELL_BINS][0][-self.n_cells - self.place.size :], [self.n_cells]
        )
        return prices, place

    def prices(self, outputs: Outputs) -> Ints:
        """Return the price of each cell."""
        return self._decided(outputs)[0]

    def cell_place(self, outputs: Outputs) -> Ints:
        """Return the bin of each fine bin in the cells."""
        return self._decided(outputs)[1]

    def pooled_shape(self, outputs: Outputs) -> tuple[Floats, Ints]:  # noqa: ARG002  of all plans
        """Return what earlier days published."""
        return self.published

    def forecast_of(self, cells: Bools) -> TiltFit | None:
        """Return the tilts of cells by earlier days."""
        return self.tilts.rows(cells)

    def statement(self, outputs: Outputs) -> dict[str, Any]:
        """Return the releases that bins and prices rest on, and the bins in use."""
        return {"history": list(self.releases), **super().statement(outputs)}


def _check_sensitivity(prices: Ints, is_valid: Bools) -> None:
    """Raise InputError for what the sensitivity does not allow."""
    if not (is_valid.all() and ((prices >= 0) & (prices <= MAX_PRICE)).all()):
        raise InputError("history: the earlier releases lead to no map; set history to none.")
