"""Averages over the open cells of a map with private presence, weighted by noisy weights.

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

**Numbers of units** add up: a unit counts in each of its cells. Their noise is a sum of independent
numbers, with an exact bound.

**Bounds.** Over n cells together a unit weighs at most 1, or counts at most min(n, k), k its cap on
cells; under Gaussian noise, which limits squares, √n and min(n, √(k n)). So many times the declared
units is the most that a group holds.

Post-processing of released numbers and public facts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hexveil.accounting.noise_law import Gaussian, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_law import BeyondRange, Excess
from hexveil.mechanisms.presence.presence_decoding import (
    MISS,
    SATURATION,
    cut_off_error,
    noise_quantile95,
)
from hexveil.publishing.derived.cell_numbers import CellNumbers, sum_bound
from hexveil.publishing.derived.open_cells import CellSums, OpenCells

MIDDLE_RATIO = 0.5
"""Ratio z at which the noise of an average is taken: over deviations its bound varies by 3 %."""
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class GroupWeights(ReadOnlyArrays):
    """Weights of coarser cells: those of the units in their open cells.

    Attributes
    ----------
    weight, low, high : ndarray of float, shape (n_groups,)
        With 95 percent intervals.
    """

    weight: Floats
    low: Floats
    high: Floats


def average_open_cells(cells: OpenCells, group: Ints) -> CellNumbers:
    """Return the average of each group of open cells; see the module.

    Parameters
    ----------
    cells : OpenCells
    group : ndarray of int64, shape (n_cells,)
        Group of each cell, from 0 to n_groups - 1; each has a cell.
    """
    if cells.balances is None:
        return _average_intervals(cells, group)
    averaged = _average_sums(cells, cells.balances, group)
    # A lone cell keeps its interval.
    alone = np.bincount(group) == 1

    def chosen(part: Floats, own: Floats | float = 0.0) -> Floats:
        return np.where(alone, _add(group, np.broadcast_to(own, group.shape)), part)

    return CellNumbers(
        chosen(averaged.number, cells.number),
        chosen(averaged.noise_low, cells.number - cells.low),
        chosen(averaged.noise_high, cells.high - cells.number),
        chosen(averaged.bias_low),
        chosen(averaged.bias_high),
        averaged.scale,
        "model",
    )


def _average_sums(cells: OpenCells, sums: CellSums, group: Ints) -> CellNumbers:
    """Return the averages of groups by their sums, each group as a cell of its own."""
    n, (lower_limit, largest) = np.bincount(group), cells.limits
    span = largest - lower_limit
    deviation = cells.noise.sum_deviation / PARTS
    noisy, weight = _add(group, cells.weight_noisy), add_weights(cells, group)
    divisor = np.maximum(noisy, deviation * np.sqrt(n))
    centre = _add(group, sums.middle) / n
    # Around the centre of the group, so that no digits cancel.
    offset = sums.middle - centre[group]
    total = _add(group, offset * cells.weight_noisy + sums.radius * sums.balance)
    middle = np.clip(total / divisor, -centre, 1.0 - centre)
    low, high = _fieller(
        noisy, total, _noise_bound(cells.noise) ** 2, n, _add(group, offset**2 + sums.radius**2)
    )
    # Cells have what their ranges cut off in common; where noise made a weight negative, none.
    share = np.maximum(cells.weight_noisy, np.finfo(np.float64).tiny)
    share = share / _add(group, share)[group]
    below, above = (
        Excess(*(_add(group, share * piece) for piece in (side.mean, side.square, side.error)))
        for side in (sums.cut.below, sums.cut.above)
    )
    cut = BeyondRange(below, above, sums.cut.deviation)
    sides, _ = cut_off_error(cut, weight.low, cells.noise)
    down, up = (
        np.hypot(np.maximum(gap, 0.0), side)
        for gap, side in zip((middle - low, high - middle), sides, strict=True)
    )
    number = lower_limit + span * np.clip(centre + middle + _add(group, share * sums.shift), 0, 1)
    sure = np.minimum(cells.weight_low, np.maximum(cells.weight_noisy, 0.0)) / divisor[group]
    excess = _excess(cells) * (offset - middle[group]) / divisor[group]
    slack = _SLACK * span
    far_low = sure * np.where(cells.low <= lower_limit + slack, cells.number - lower_limit, 0.0)
    far_high = sure * np.where(cells.high >= largest - slack, largest - cells.number, 0.0)
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
    deviation = cells.noise.number_deviation * np.sqrt(cells.terms) / PARTS
    noise_floor = deviation * np.sqrt(np.bincount(group))
    share = cells.weight_noisy / np.maximum(_add(group, cells.weight_noisy), noise_floor)[group]
    # What noise took below 0 has no interval of its own.
    positive = np.maximum(cells.weight_noisy, np.finfo(np.float64).tiny)
    positive = positive / _add(group, positive)[group]
    middle = _add(group, positive * cells.number)
    number = middle + _add(group, share * (cells.number - middle[group]))
    number = np.clip(number, *cells.limits)
    shift = (cells.number - number[group]) / np.maximum(
        _add(group, cells.weight_noisy), noise_floor
    )[group]
    excess = _excess(cells)
    moved = np.sqrt(_add(group, np.where(excess > 0.0, 0.0, shift * _margin(cells)) ** 2))
    below, above = (
        np.hypot(_add(group, positive * side), moved)
        for side in (cells.number - cells.low, cells.high - cells.number)
    )
    too_high, too_low = (
        _add(group, np.maximum(sign * shift * excess, 0.0)) for sign in (1.0, -1.0)
    )
    unknown = np.full_like(number, np.nan)
    return CellNumbers(number, below, above, too_high, too_low, unknown, "model")


def add_weights(cells: OpenCells, group: Ints, most: Floats | float = np.inf) -> GroupWeights:
    """Return the weight of each group of open cells.

    The root of the squared sum of the cells' bounds is never below the bound of the sum, as sums of
    more numbers have lighter tails.

    Parameters
    ----------
    cells : OpenCells
    group : ndarray of int64, shape (n_cells,)
    most : ndarray of float, shape (n_groups,), optional
        The most that the declared units weigh there; not used where they weigh more for sure.
    """
    weight, around = _add(group, cells.weight_noisy), _margin(cells) * np.sqrt(np.bincount(group))
    low = np.maximum(weight - around - _add(group, _excess(cells)), 0.0)
    most = np.where(low > most, np.inf, most)
    weight, high = (np.clip(bound, 0.0, most) for bound in (weight, weight + around))
    return GroupWeights(weight, low, high)


def most_per_unit(group: Ints, law: NoiseLaw, cap: float = 1.0) -> Floats:
    """Return the most that one unit weighs, or counts, in each group of cells together."""
    n = np.bincount(group)
    most = np.sqrt(cap * n) if isinstance(law, Gaussian) else np.full(n.size, cap)
    return np.asarray(np.minimum(most, n))


def add_units(numbers: CellNumbers, group: Ints, *, most: Floats | float = np.inf) -> CellNumbers:
    """Return the numbers of units of each group of open cells; see the module.

    Parameters
    ----------
    numbers : CellNumbers
        Of cells, as `unit_numbers` returns them.
    group : ndarray of int64, shape (n_cells,)
    most : ndarray of float, shape (n_groups,), optional
        The most that the declared units count there.
    """
    counts, scale = np.bincount(group), numbers.scale[0]
    if numbers.is_gaussian:
        noise = np.sqrt(_add(group, numbers.noise_low**2))
    else:
        bounds = {int(n): sum_bound(np.full(n, scale)) for n in set(counts.tolist())}
        noise = np.array([bounds[int(n)] for n in counts])
    total, bias = _add(group, numbers.number), _add(group, numbers.bias_low)
    most = np.where(total - noise - bias > most, np.inf, most)
    number, high = np.minimum(total, most), np.minimum(total + noise, most)
    return CellNumbers(
        number,
        noise + number - total,
        high - number,
        bias,
        _add(group, numbers.bias_high),
        np.where(counts == 1, scale, np.nan),
        "proven",
        is_gaussian=numbers.is_gaussian,
    )


def _add(group: Ints, column: Floats) -> Floats:
    return np.asarray(np.bincount(group, column), dtype=np.float64)


def _margin(cells: OpenCells) -> float:
    """Return the 95 % bound of the noise of a weight."""
    return cells.noise.scale / PARTS * cells.noise.total_quantile(cells.terms, MISS / 2.0)


def _excess(cells: OpenCells) -> Floats:
    """Return by how much the opening raised each weight, at most; 0 elsewhere."""
    above = cells.weight_noisy - cells.weight_low
    return np.where(above > _margin(cells) * (1.0 + 1e-3), above, 0.0)
