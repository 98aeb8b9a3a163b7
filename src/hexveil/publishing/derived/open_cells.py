"""Open cells of a map with private presence as numbers with errors.

Everything follows from the table and the manifest of a release. Symbols: X a number of noise, b its
scale, T the noisy weight or number of units from which a cell is open.

- **Averages, quantiles, shares.** An average is a ratio of noisy sums, and its interval is that of
  a ratio, widened by a model (`presence_decoding`); quantiles and shares have intervals by a model
  of the cell's distribution (`shape_allocation`). A difference takes the interval of each side as
  its error (square-and-add, `find_changes`).
- **Empty cells.** An open cell may be empty, opened by noise alone, and its average is noise then.
  Such a cell has a noisy weight of W or more with probability P(Z >= W | Z >= T), Z the sum of the
  noise of its numbers. A change is told only if both cells are told to be used too: its p-value is
  the largest of three, which is one for the union of the three hypotheses (intersection-union;
  Berger, Technometrics 24, 1982).
- **Numbers of units.** N = n + X with a law that is known, so bounds of differences are exact. N is
  taken as it was drawn, also below 0. Where the cell was opened by this very number, N is known to
  have reached T: the lower end is the n with P(n + X >= N | n + X >= T) = 2.5 %, and if that is
  below the bound of the noise, all of the distance is counted as bias.

**Averages over open cells**, weighted by noisy weights.

Symbols, of cell c: θ its average, w its weight, m and r the middle and half the width of its range,
W = w + X + Y its noisy weight, D = A - B its noisy balance, X and Y the noise of both halves, s²
the variance of X + Y. The number estimated is M = Σ w θ / Σ w over the n open cells of a group, by
Σ (m W + r D) / Σ W, a ratio of sums that are unbiased, since neither W is cut at 0 nor D / W
clipped; and by the average of what cells add for values beyond their ranges.

**Noise.** Σ (m W + r D) - M Σ W is noise alone, Σ (m - M)(X + Y) + r (X - Y), of variance
s² Σ ((m - M)² + r²). The M for which it is within its 95 % bound are the interval (Fieller, 1954),
the roots of a quadratic; all of the bounds where noise leaves Σ W open.

**Weighting and clipping** are modelled as in a cell (`presence_decoding`): a group is a cell of
weight Σ w, that has the excess of its cells. Clipping is taken to be off everywhere alike,
weighting to average out. An end at a bound of the values tells that they may lie at any distance:
what it adds is bias, in proportion to the weight that is surely there, and all of it where the
ratio of the group itself is at its end.

**Opening.** Of a cell near the threshold noise made W too large: then all of W less the lower end
of its interval is bias, in the direction of m - M.

**Distributions** come from one model of all cells, whose errors cells have in common: intervals are
averaged in full, and hold more often than they say.

**Sums.** Noisy weights, and numbers of units, add up: a unit counts in each of its cells.

Post-processing of released numbers and public facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import Gaussian, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_law import BeyondRange, Excess
from hexveil.mechanisms.presence.count_map import COUNT_MAP
from hexveil.mechanisms.presence.presence_decoding import (
    MISS,
    SATURATION,
    cut_off_error,
    noise_quantile95,
    weight_interval,
)
from hexveil.publishing.derived.cell_numbers import CellNumbers, add_cells
from hexveil.publishing.derived.derived_numbers import ReleaseSource
from hexveil.publishing.kinds.presence_manifest import stage_law, stated_ranges
from hexveil.publishing.kinds.presence_table import ENDS, has_shapes
from hexveil.report.manifest_view import ManifestView

USERS = "users"
WEIGHT_NUMBERS = 2
"""Noisy numbers that a weight is the sum of, where there are no bins."""
MIDDLE_RATIO = 0.5
"""Ratio z at which the noise of an average is taken: over deviations its bound varies by 3 %."""
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class CellSums(ReadOnlyArrays):
    """Sums behind the averages of open cells, as shares of the span: m + r D / W + v.

    Attributes
    ----------
    middle, radius, balance, shift : ndarray of float, shape (n_cells,)
        m and r of the clipping range, the noisy D, which is in units of weight, and v, by which the
        average is higher for what the range cuts off.
    cut : BeyondRange
        What that is.
    """

    middle: Floats
    radius: Floats
    balance: Floats
    shift: Floats
    cut: BeyondRange


@dataclass(frozen=True, eq=False)
class OpenCells(ReadOnlyArrays):
    """A statistic in the open cells of a map, with the weights of the cells.

    Attributes
    ----------
    numbers : CellNumbers
        Published numbers with their intervals.
    weight, weight_low : ndarray of float, shape (n_cells,)
        Noisy weight of the units there, and the lower end of its 95 percent interval.
    limits : tuple of float
        Least and largest value of the statistic.
    noise : NoiseLaw
        Of each number that a weight is made of, in parts.
    terms : int
        Noisy numbers that a weight is the sum of.
    noisy_sums : CellSums or None
        None of numbers by a model of distributions.
    """

    numbers: CellNumbers
    weight: Floats
    weight_low: Floats
    limits: tuple[float, float]
    noise: NoiseLaw
    terms: int
    noisy_sums: CellSums | None = None

    @property
    def margin(self) -> float:
        """The 95 percent bound of the noise of a weight."""
        return self.noise.scale / PARTS * self.noise.total_quantile(self.terms, MISS / 2.0)

    @property
    def excess(self) -> Floats:
        """By how much the opening raised each weight, at most; 0 elsewhere."""
        above = self.weight - self.weight_low
        return np.where(above > self.margin * (1.0 + 1e-3), above, 0.0)

    @property
    def weights(self) -> CellNumbers:
        """The weights, with the parts of their error."""
        margin, zero = np.full_like(self.weight, self.margin), np.zeros_like(self.weight)
        unknown = np.full_like(self.weight, np.nan)
        return CellNumbers(self.weight, margin, margin, self.excess, zero, unknown, "model")


def open_cells(source: ReleaseSource, column: str) -> OpenCells:
    """Return a statistic in the open cells of a map.

    Parameters
    ----------
    source : ReleaseSource
        Of a map with private presence.
    column : str
        Prefix of the statistic's columns, which is not `users`.

    Raises
    ------
    InputError
        If the statistic was not released.
    """
    return OpenCells(
        map_numbers(source, column),
        source.column("weight_noisy"),
        source.column("weight_low"),
        replace(ManifestView.from_manifest(source.manifest), shown=column).limits,
        published_noise(source.manifest),
        _terms(source),
        _sums(source),
    )


def _sums(source: ReleaseSource) -> CellSums | None:
    """Return the sums behind the averages of a map; None of distributions."""
    if has_shapes(source.statistics):
        return None
    view, noise = ManifestView.from_manifest(source.manifest), published_noise(source.manifest)
    mean = (source.column("mean") - view.lower) / (view.upper - view.lower)
    is_open, bounds = np.full(mean.size, fill_value=True), (view.lower, view.upper)
    window, _, cut = stated_ranges(source.manifest["plan"], source.column, is_open, bounds)
    balance, weight = source.column("balance_noisy"), source.column("weight_noisy")
    middle, radius = window.middle / PARTS, window.radius / PARTS
    ratio = np.clip(balance / np.maximum(weight, noise.sum_deviation / PARTS), -1.0, 1.0)
    return CellSums(middle, radius, balance, mean - middle - radius * ratio, cut)


def _terms(source: ReleaseSource) -> int:
    """Return how many noisy numbers a weight is the sum of."""
    return int(source.manifest["plan"]["bins"]) if has_shapes(source.statistics) else WEIGHT_NUMBERS


def map_numbers(source: ReleaseSource, column: str) -> CellNumbers:
    """Return the numbers of a statistic in open cells, with the parts of their error.

    Raises
    ------
    InputError
        If the statistic was not released.
    """
    if column == USERS:
        return unit_numbers(source)
    source.require(column)
    number, low, high = (source.column(f"{column}{end}") for end in ENDS)
    return replace(CellNumbers.of_interval(number, low, high), empty=empty_chances(source))


def unit_numbers(source: ReleaseSource) -> CellNumbers:
    """Return the numbers of units of open cells, with the parts of their error."""
    source.require(USERS)
    units, law = source.column(f"{USERS}_noisy"), published_noise(source.manifest, COUNT_MAP)
    is_gaussian, scale = isinstance(law, Gaussian), law.scale / PARTS
    noise = np.full_like(units, law.limit95 * scale)
    zero, opened = np.zeros_like(units), source.manifest["plan"]["open_from"]
    # Beside other statistics the map opens cells, whose noise is another.
    is_tested = source.statistics == (USERS,) and opened is not None
    low = weight_interval(units, law, 1, opened)[0] if is_tested else units - noise
    distance = units - low
    return CellNumbers(
        units,
        noise,
        noise,
        np.where(distance > noise * (1.0 + _SLACK), distance, zero),
        zero,
        np.full_like(units, np.nan if is_gaussian else scale),
        "proven",
        is_gaussian=is_gaussian,
    )


def empty_chances(source: ReleaseSource) -> Floats:
    """Return the chance that noise alone gives an open cell its noisy weight, or a larger one."""
    terms, opened = _terms(source), source.manifest["plan"]["open_from"]
    law = published_noise(source.manifest)
    unit = law.scale / PARTS
    seen = law.total_tails(terms, source.column("weight") / unit)
    is_open = 1.0 if opened is None else law.total_tails(terms, np.array([opened / unit]))
    return np.minimum(seen / np.maximum(is_open, np.finfo(np.float64).tiny), 1.0)


def published_noise(manifest: Any, stage: str = "") -> NoiseLaw:  # noqa: ANN401  parsed JSON
    """Return the law of the noise of a stage, by default of the map that is published."""
    law = stage_law(manifest["plan"], stage) or stage_law(manifest["plan"])
    assert law is not None  # noqa: S101  of releases that were checked
    return law


def average_open_cells(cells: OpenCells, group: Ints) -> CellNumbers:
    """Return the average of each group of open cells; see the module.

    Parameters
    ----------
    cells : OpenCells
    group : ndarray of int64, shape (n_cells,)
        Group of each cell, from 0 to n_groups - 1; each has a cell.
    """
    if cells.noisy_sums is None:
        return _average_intervals(cells, group)
    averaged, alone = _average_sums(cells, cells.noisy_sums, group), np.bincount(group) == 1
    # A lone cell keeps its interval.
    parts = ("number", "noise_low", "noise_high", "bias_low", "bias_high")
    chosen: dict[str, Any] = {
        name: np.where(alone, _add(group, getattr(cells.numbers, name)), getattr(averaged, name))
        for name in parts
    }
    return replace(averaged, **chosen)


def _average_sums(cells: OpenCells, sums: CellSums, group: Ints) -> CellNumbers:
    """Return the averages of groups by their sums, each group as a cell of its own."""
    n, own, (lower_limit, largest) = np.bincount(group), cells.numbers, cells.limits
    span = largest - lower_limit
    deviation = cells.noise.sum_deviation / PARTS
    noisy, weight = _add(group, cells.weight), add_cells(cells.weights, group)
    divisor = np.maximum(noisy, deviation * np.sqrt(n))
    centre = _add(group, sums.middle) / n
    # Around the centre of the group, so that no digits cancel.
    offset = sums.middle - centre[group]
    total = _add(group, offset * cells.weight + sums.radius * sums.balance)
    middle = np.clip(total / divisor, -centre, 1.0 - centre)
    low, high = _fieller(
        noisy, total, _noise_bound(cells.noise) ** 2, n, _add(group, offset**2 + sums.radius**2)
    )
    # Cells have what their ranges cut off in common; where noise made a weight negative, none.
    share = np.maximum(cells.weight, np.finfo(np.float64).tiny)
    share = share / _add(group, share)[group]
    below, above = (
        Excess(*(_add(group, share * piece) for piece in (side.mean, side.square, side.error)))
        for side in (sums.cut.below, sums.cut.above)
    )
    cut = BeyondRange(below, above, sums.cut.deviation)
    sides, _ = cut_off_error(cut, np.maximum(weight.low, 0.0), cells.noise)
    down, up = (
        np.hypot(np.maximum(gap, 0.0), side)
        for gap, side in zip((middle - low, high - middle), sides, strict=True)
    )
    number = lower_limit + span * np.clip(centre + middle + _add(group, share * sums.shift), 0, 1)
    sure = np.minimum(cells.weight_low, np.maximum(cells.weight, 0.0)) / divisor[group]
    excess = cells.excess * (offset - middle[group]) / divisor[group]
    slack = _SLACK * span
    far_low = sure * np.where(own.low <= lower_limit + slack, own.number - lower_limit, 0.0)
    far_high = sure * np.where(own.high >= largest - slack, largest - own.number, 0.0)
    ratio, radius = _add(group, sums.balance) / divisor, _add(group, share * sums.radius)
    return CellNumbers(
        number,
        np.where(
            ratio - down / radius <= -SATURATION, np.maximum(number - lower_limit, 0.0), span * down
        ),
        np.where(ratio + up / radius >= SATURATION, np.maximum(largest - number, 0.0), span * up),
        _add(group, far_low + span * np.maximum(excess, 0.0)),
        _add(group, far_high + span * np.maximum(-excess, 0.0)),
        np.full_like(number, np.nan),
        "model",
    )


def _fieller(
    weight: Floats, total: Floats, square: float, n: Ints, spread: Floats
) -> tuple[Floats, Floats]:
    """Return the M with (total - M weight)² at most square (spread + n M²): all, where it is."""
    leading = weight**2 - square * n
    root = np.sqrt(np.maximum(square * (n * total**2 + spread * leading), 0.0))
    # Of negative weight no average follows, however clearly it is.
    is_open = (leading <= 0.0) | (weight <= 0.0)
    safe = np.where(is_open, 1.0, leading)
    return (
        np.where(is_open, -np.inf, (total * weight - root) / safe),
        np.where(is_open, np.inf, (total * weight + root) / safe),
    )


def _noise_bound(law: NoiseLaw) -> float:
    """Return the 95 % bound of noise of a variance of one, times the deviation of X + Y."""
    quantile = float(noise_quantile95(np.array([MIDDLE_RATIO]), law)[0])
    return quantile * law.scale / PARTS / float(np.sqrt(1.0 + MIDDLE_RATIO**2))


def _average_intervals(cells: OpenCells, group: Ints) -> CellNumbers:
    """Return the averages of groups by intervals that are taken to err everywhere alike."""
    deviation, own, excess = cells.noise.number_deviation / PARTS, cells.numbers, cells.excess
    noise_floor = deviation * np.sqrt(cells.terms * np.bincount(group))
    total = np.maximum(_add(group, cells.weight), noise_floor)[group]
    # What noise took below 0 has no interval of its own.
    positive = np.maximum(cells.weight, np.finfo(np.float64).tiny)
    positive = positive / _add(group, positive)[group]
    middle = _add(group, positive * own.number)
    number = middle + _add(group, cells.weight / total * (own.number - middle[group]))
    number = np.clip(number, *cells.limits)
    shift = (own.number - number[group]) / total
    moved = np.sqrt(_add(group, np.where(excess > 0.0, 0.0, shift * cells.margin) ** 2))
    below, above = (
        np.hypot(_add(group, positive * side), moved) for side in (own.noise_low, own.noise_high)
    )
    too_high, too_low = (
        _add(group, np.maximum(sign * shift * excess, 0.0)) for sign in (1.0, -1.0)
    )
    unknown = np.full_like(number, np.nan)
    return CellNumbers(number, below, above, too_high, too_low, unknown, "model")


def _add(group: Ints, column: Floats) -> Floats:
    return np.asarray(np.bincount(group, column), dtype=np.float64)
