"""The stages of a map with private presence.

| stage | releases | from |
|---|---|---|
| wide values | histogram of the units' means | even bins over the bounds |
| values | the same, in narrower bins where most values lie | the wide values |
| coarse map | weight of each cell and side | a range from the values |
| residuals | histogram of distances from the cells' centres | the coarse map |
| fine map | weight of each cell and side | a range of each cell, from the residuals |

A one-shot map has no coarse map, so no residuals and no prices: its range is that of the values.
Which form is taken follows from declared numbers. Each stage sees the records, declared numbers and
released numbers of the stages before, nothing else.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: stated by each stage (`looks.pooled_means`, `map_stage`).
Loss: ε, or (ε, δ) with noise of Gaussian law, for any unit, present or not: the shares of the
stages add up to 1, whatever the outputs are (`accounting.promise`). Their defaults were chosen on
flights of New York and buses of Surat and Warsaw (`benchmarks/interval_sets.py`).
Source: adaptive composition (`hexveil.mechanisms.contract`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms import pooled_law
from hexveil.mechanisms.contract import NoisyTotals, Stage
from hexveil.mechanisms.presence import AnyUnitPlan, contribution
from hexveil.mechanisms.presence.presence_decoding import ReleasedMap, decode_map
from hexveil.mechanisms.stage_data import Outputs

WIDE_VALUES, VALUES, COARSE_MAP = "wide values", "values", "coarse map"
RESIDUALS, FINE_MAP = "residuals", "fine map"


# ---- shares of the loss ----


@dataclass(frozen=True)
class MapForm:
    """Shares of the loss of the stages of a map of averages; the map itself has the rest.

    Attributes
    ----------
    range_share : Fraction
        Of the values.
    coarse_share, residual_share : Fraction
        Of the coarse map and of the residuals; 0 of a one-shot map, which has neither.
    """

    range_share: Fraction
    coarse_share: Fraction = Fraction(0)
    residual_share: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse shares that would not add up to one."""
        shares = [self.range_share, self.map_share]
        if self.coarse_share or self.residual_share:
            shares += [self.coarse_share, self.residual_share]
        if not all(0 < share < 1 for share in shares):
            raise InputError("every stage of a map needs a share of epsilon above 0, of 1 in all.")

    @property
    def map_share(self) -> Fraction:
        """Share of the map that is published."""
        return 1 - self.range_share - self.coarse_share - self.residual_share


ONE_SHOT = MapForm(Fraction("0.25"))
THREE_STAGES = MapForm(Fraction("0.05"), Fraction("0.2"), Fraction("0.1"))
WIDE_PART = Fraction("0.25")
"""Part of the values' share that finds out where most of them lie."""


# ---- stages ----


@dataclass(frozen=True, eq=False)
class PresenceAllocation(AnyUnitPlan):
    """Plan of a map with private presence: public numbers alone.

    Attributes
    ----------
    n_cells : int
        Of the declared grid.
    span_quanta : int
        Width of the bounds.
    epsilon : Fraction
    form : MapForm
    false_openings : float or None
        Expected number of empty cells that are opened; None opens every cell.
    delta : Fraction
        0 for a pure promise.
    typical_weight : float
        W for which the first range is chosen: of a typical cell, in units.
    """

    n_cells: int
    span_quanta: int
    epsilon: Fraction
    form: MapForm
    false_openings: float | None = 1.0
    delta: Fraction = Fraction(0)
    typical_weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an ε with a share too small: its noise would not fit integers."""
        for name in (WIDE_VALUES, VALUES, RESIDUALS):
            self.histogram_law(name)

    @property
    def threshold(self) -> int | None:
        """Noisy weight, in parts, from which a cell is published; None without a test."""
        if self.false_openings is None:
            return None
        return self.law.opening_threshold(self.n_cells, self.false_openings)

    @property
    def tests(self) -> tuple[int | None, list[tuple[NoiseLaw, int]]]:
        """The threshold, and noise and numbers of each noisy weight that has to reach it."""
        laws = [self.law, *([self.coarse_law] if self.form.coarse_share else [])]
        return self.threshold, [(law, 2) for law in laws]

    @property
    def kind(self) -> str:
        """Form of the map in words."""
        return "three stages" if self.form.coarse_share else "one shot"

    def opening(self, outputs: Outputs) -> int | None:  # noqa: ARG002  see ShapeAllocation
        """Return the threshold."""
        return self.threshold

    def fine_window(self, outputs: Outputs) -> contribution.CellWindow:
        """Return prices and ranges of the map that is published."""
        if not self.form.coarse_share:
            return self._first_window(outputs)
        low, high = np.split(self._residuals(outputs).decisions(outputs), 2)
        return contribution.CellWindow(self._coarse_row(outputs)[2], low, high)

    def centres(self, outputs: Outputs) -> Ints:
        """Return the centre of each cell's range, in parts of the span."""
        return self._coarse_row(outputs)[1]

    def histogram(self, outputs: Outputs) -> tuple[str, Ints, Ints]:
        """Return the histogram behind the ranges of the published map: name, edges, votes."""
        if not self.form.coarse_share:
            votes = self._values(outputs).noisy(outputs)
            return VALUES, *pooled_law.used_bins(self._value_edges(outputs), votes)
        _, centres, prices = self._coarse_row(outputs)
        votes = self._residuals(outputs).noisy(outputs)
        return RESIDUALS, *pooled_law.used_bins(pooled_law.within_reach(centres, prices), votes)

    def statement(self, outputs: Outputs) -> dict[str, Any]:
        """Return the released histogram behind the ranges of the published map."""
        name, edges, votes = self.histogram(outputs)
        return {"histogram": {"stage": name, "edges": edges.tolist(), "votes": votes.tolist()}}

    def decode(self, outputs: Outputs) -> ReleasedMap:
        """Return the map, with every cell of the grid, open or closed."""
        # Cells that the coarse map closed stay closed; of the others the fine map decides.
        noisy = outputs[FINE_MAP][0][: 2 * self.n_cells]
        window, centres = self.fine_window(outputs), self.centres(outputs)
        cut = self._cut_off(outputs, window, centres)
        return decode_map(window, noisy, self.law, cut, centres, self.threshold)

    def _cut_off(
        self, outputs: Outputs, window: contribution.CellWindow, centres: Ints
    ) -> pooled_law.BeyondRange:
        """Return the excess beyond the ranges of the published map."""
        name, edges, votes = self.histogram(outputs)
        origin = centres if name == RESIDUALS else np.zeros_like(centres)
        return pooled_law.BeyondRange.of(
            pooled_law.PooledLaw.of(edges / PARTS, votes, self.histogram_law(name)),
            origin,
            window.low,
            window.high,
        )

    # ---- stages ----

    def stages(self, earlier: Outputs) -> Iterator[Stage]:
        """Yield the stages of the form."""
        yield self._wide_values()
        yield self._values(earlier)
        if self.form.coarse_share:
            yield self._coarse_map(earlier)
            yield self._residuals(earlier)
        yield contribution.weight_map(
            FINE_MAP, self.fine_window(earlier), self.span_quanta, self.law
        )

    @property
    def range_law(self) -> NoiseLaw:
        """Noise of the histogram by which the published map's ranges are chosen."""
        return self.histogram_law(RESIDUALS if self.form.coarse_share else VALUES)

    def histogram_law(self, name: str) -> NoiseLaw:
        """Return the noise of a histogram."""
        if name == RESIDUALS and self.form.residual_share:
            return self.promise.part(self.form.residual_share).noise()
        part = WIDE_PART if name == WIDE_VALUES else 1 - WIDE_PART
        return self.promise.part(self.form.range_share * part).noise()

    def _histogram(
        self,
        name: str,
        edges: Ints,
        decide: Callable[[pooled_law.PooledLaw], Ints],
        n_decided: int,
        around: tuple[Ints, Ints] | None = None,
    ) -> NoisyTotals:
        """Return the stage of a histogram; its row also holds decisions made by its law."""
        noise = self.histogram_law(name)

        def decided(noisy: Ints) -> Ints:
            return decide(pooled_law.PooledLaw.of(edges / PARTS, noisy, noise))

        # Bins of distances are the same whatever the centres are: some are out of reach.
        inner = (edges if around is None else pooled_law.RESIDUAL_EDGES)[1:-1]
        stage = contribution.value_votes(name, self.span_quanta, inner, noise, around)
        return replace(stage, decide=decided, n_decided=n_decided)

    def _wide_values(self) -> NoisyTotals:
        """Return the stage that decides where bins of values are narrow."""
        return self._histogram(WIDE_VALUES, pooled_law.VALUE_EDGES, pooled_law.crowded_range, 2)

    def _value_edges(self, outputs: Outputs) -> Ints:
        return pooled_law.refined_edges(*self._wide_values().decisions(outputs).tolist())

    def _values(self, earlier: Outputs) -> NoisyTotals:
        """Return the stage that decides the median and the ends of the first range."""
        edges = self._value_edges(earlier)
        law = self.coarse_law if self.form.coarse_share else self.law
        weight = np.array([max(self.typical_weight, (self.threshold or 0) / PARTS)])

        def decide(values: pooled_law.PooledLaw) -> Ints:
            median = np.array([round(PARTS * values.quantile(0.5))])
            noise = law.sum_deviation / PARTS / weight
            return np.concatenate(
                [median, *pooled_law.best_ranges(values, median, noise, weight, around=False)]
            )

        return self._histogram(VALUES, edges, decide, 3)

    def median(self, outputs: Outputs) -> int:
        """Return the median of the values, in parts."""
        return int(self._values(outputs).decisions(outputs)[0])

    def _first_window(self, outputs: Outputs) -> contribution.CellWindow:
        """Return the window of the values' range: all cells alike, at a price of 1."""
        ones = np.ones(self.n_cells, dtype=np.int64)
        _, low, high = self._values(outputs).decisions(outputs)
        return contribution.CellWindow(ones, low * ones, high * ones)

    def _coarse_map(self, earlier: Outputs) -> NoisyTotals:
        law = self.coarse_law
        window, median = self._first_window(earlier), self.median(earlier)

        def decide(noisy: Ints) -> Ints:
            # The threshold of the published map, not one of the coarse map's larger noise: an empty
            # cell that stays open takes nobody's weight, a used one that is closed is lost.
            return contribution.refine_map(window, noisy, law.sum_deviation, self.threshold, median)

        stage = contribution.weight_map(COARSE_MAP, window, self.span_quanta, law)
        return replace(stage, decide=decide, n_decided=2 * self.n_cells)

    def _coarse_row(self, outputs: Outputs) -> tuple[Ints, Ints, Ints]:
        """Return the noisy numbers of the coarse map, the centres and the prices.

        Of one shot no numbers, the median of the values and prices of 1.
        """
        if not self.form.coarse_share:
            ones = np.ones(self.n_cells, dtype=np.int64)
            return ones[:0], self.median(outputs) * ones, ones
        row, n = outputs[COARSE_MAP][0], self.n_cells
        return row[: 2 * n], row[2 * n : 3 * n], row[3 * n :]

    def _residuals(self, earlier: Outputs) -> NoisyTotals:
        """Return the stage that decides the ends of each cell's range."""
        noisy, centres, prices = self._coarse_row(earlier)
        floor = self.coarse_law.sum_deviation
        weight = np.maximum(noisy[: self.n_cells] + noisy[self.n_cells :], floor) / PARTS

        def decide(distances: pooled_law.PooledLaw) -> Ints:
            ends, is_open = np.repeat([[0], [PARTS]], self.n_cells, axis=1), prices > 0
            # Centres of cells below the mean weight are less sure: no narrower ranges for them.
            own = np.maximum(weight[is_open], weight[is_open].mean() if is_open.any() else 0.0)
            noise = self.law.sum_deviation / PARTS / own
            ends[:, is_open] = pooled_law.best_ranges(
                distances, centres[is_open], noise, own, around=True
            )
            return ends.ravel()

        edges, around = pooled_law.within_reach(centres, prices), (centres, prices)
        return self._histogram(RESIDUALS, edges, decide, 2 * self.n_cells, around)
