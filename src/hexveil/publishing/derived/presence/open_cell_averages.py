"""Averages over the open cells of a map with private presence, weighted by noisy weights.

Symbols, of cell c: θ its average, w its weight, m and r its centre and radius, W = w + X + Y its
noisy weight, y = m + r D / W its published average, with X and Y the noise of both halves. The
number estimated is M = Σ w θ / Σ w over the open cells of a group, by Σ W y / Σ W. Since
Σ w (θ - M) = 0, the estimate is off by exactly

    Σ W (y - θ) / Σ W  +  Σ (W - w) (θ - M) / Σ W.

**Noise.** W (y - θ) = r (X - Y) - (θ - m)(X + Y) is linear in the noise, without any bias, and so
is (W - w)(θ - M): both average out, as sums of independent numbers. Together they are
r (X - Y) + (m - M)(X + Y), so both parts have a covariance of -s² (θ - m)(θ - M), s the deviation
of X + Y. It is left out: it is negative wherever a centre m lies between the cell and the map's
average, as a common centre does, and centres that were drawn towards it.

**Parts of an interval.** A folder has intervals and no radius. The half width of an interval is
that of the noise, r q b / W (`presence_decoding`), of weighting, 1.96 r · 0.3 / √w, and of
clipping, 1.96 r · 0.1, as the root of their squared sum, so their ratios are known. The first two
average out. Clipping is taken to be off everywhere alike: its part is averaged, and joins as one
number of its own. An end at a bound of the values tells that they may lie at any distance: what it
adds is bias, and averaged in full.

**Weights.** θ - M is taken from the published numbers, whose noise only makes it larger. Of a cell
near the threshold noise made W too large: then all of W less the lower end of its interval is
bias, with the sign of y - M.

**Shares.** They come from one model of all cells, whose errors cells have in common: intervals are
averaged in full, and hold more often than they say.

**Numbers of units** add up: a unit counts in each of its cells. Their noise is a sum of independent
numbers, with an exact bound; a number that is published as 0 in place of a negative one raises the
sum by E (X + n)⁻ = b exp(-n/b) / 2 at most, which is bias.

Post-processing of released numbers and public facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.presence.contribution import PARTS
from hexveil.mechanisms.presence.map_noise import GaussianMapNoise
from hexveil.mechanisms.presence.presence_decoding import (
    CLIPPING,
    GAUSSIAN_CLIPPING,
    NORMAL_95,
    WEIGHTING,
    noise_quantile95,
)
from hexveil.publishing.derived.cell_numbers import CellNumbers
from hexveil.publishing.derived.laplace_sums import sum_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.publishing.derived.presence.open_cells import OpenCells

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MIDDLE_RATIO = 0.5
"""Ratio z at which the noise of an average is taken: between -1 and 1 its bound varies by 1.5."""
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
    # Of a grid that was declared to be in use, noise can leave a group without weight.
    weight = np.maximum(cells.weight, np.finfo(np.float64).tiny)
    share = weight / np.bincount(group, weight)[group]

    def averaged(column: Floats) -> Floats:
        return _add(group, share * column)

    def joined(column: Floats) -> Floats:
        return np.sqrt(_add(group, column**2))

    number = averaged(cells.number)
    parts = _shape_parts(cells) if cells.has_shapes else _parts(cells)
    shift = (cells.number - number[group]) * share / weight
    margin, is_raised = _weight_margins(cells)
    moved = joined(np.where(is_raised, 0.0, shift * margin))
    raised = np.where(is_raised, shift * (cells.weight - cells.weight_low), 0.0)
    own = joined(share * parts.own)
    noise_low, noise_high = (
        np.sqrt(own**2 + averaged(common) ** 2 + moved**2)
        for common in (parts.common_low, parts.common_high)
    )
    too_high, too_low = (_add(group, np.maximum(sign * raised, 0.0)) for sign in (1.0, -1.0))
    return CellNumbers(
        number,
        noise_low,
        noise_high,
        averaged(parts.far_low) + too_high,
        averaged(parts.far_high) + too_low,
        np.full_like(number, np.nan),
        "model",
    )


def add_weights(cells: OpenCells, group: Ints) -> GroupWeights:
    """Return the weight of each group of open cells.

    The root of the squared sum of the cells' bounds is never below the bound of the sum, as sums of
    more numbers have lighter tails.
    """
    margin, is_raised = _weight_margins(cells)
    weight = _add(group, cells.weight)
    around = np.sqrt(_add(group, margin**2))
    raised = np.where(is_raised, cells.weight - cells.weight_low, 0.0)
    low = weight - around - _add(group, raised)
    return GroupWeights(weight, np.maximum(low, 0.0), weight + around)


def add_units(numbers: CellNumbers, scale: float, group: Ints) -> CellNumbers:
    """Return the numbers of units of each group of open cells; see the module.

    Parameters
    ----------
    numbers : CellNumbers
        Of cells, as `unit_numbers` returns them.
    scale : float
        Of the noise of each.
    group : ndarray of int64, shape (n_cells,)
    """
    counts = np.bincount(group)
    if numbers.is_gaussian:
        noise = np.sqrt(_add(group, numbers.noise_low**2))
    else:
        bounds = {int(n): sum_bound(np.full(n, scale)) for n in set(counts.tolist())}
        noise = np.array([bounds[int(n)] for n in counts])
    least = np.maximum(numbers.number - numbers.noise_low, 0.0)
    at_zero = np.where(counts[group] > 1, scale / 2.0 * np.exp(-least / scale), 0.0)
    return CellNumbers(
        _add(group, numbers.number),
        noise,
        noise,
        _add(group, numbers.bias_low + at_zero),
        _add(group, numbers.bias_high),
        np.where((counts == 1) & (not numbers.is_gaussian), scale, np.nan),
        "proven",
        is_gaussian=numbers.is_gaussian,
    )


def _add(group: Ints, column: Floats) -> Floats:
    return np.asarray(np.bincount(group, column), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _ErrorParts:
    """Parts of the error of cells: their own, what they have in common, what lies far off."""

    own: Floats
    common_low: Floats
    common_high: Floats
    far_low: Floats
    far_high: Floats


def _parts(cells: OpenCells) -> _ErrorParts:
    """Return the parts of averages by sums of both signs."""
    law = cells.noise
    weight = np.maximum(cells.weight, law.sum_deviation / PARTS)
    quantile = float(noise_quantile95(np.array([MIDDLE_RATIO]), law)[0])
    noise = quantile * law.scale / PARTS / weight
    weighting = NORMAL_95 * WEIGHTING / np.sqrt(np.maximum(cells.weight_low, 1.0))
    clipping = GAUSSIAN_CLIPPING if isinstance(law, GaussianMapNoise) else CLIPPING
    common = NORMAL_95 * clipping
    whole = np.sqrt(noise**2 + weighting**2 + common**2)
    below, above = cells.number - cells.low, cells.high - cells.number
    slack = _SLACK * (cells.limits[1] - cells.limits[0])
    is_inside = [cells.low > cells.limits[0] + slack, cells.high < cells.limits[1] - slack]
    inside = np.maximum(np.where(is_inside[0], below, 0.0), np.where(is_inside[1], above, 0.0))
    half = np.where(is_inside[0] | is_inside[1], inside, np.maximum(below, above))
    far_low, far_high = (np.maximum(of - half, 0.0) for of in (below, above))
    own, shared = half * np.hypot(noise, weighting) / whole, half * common / whole
    return _ErrorParts(own, shared, shared, far_low, far_high)


def _shape_parts(cells: OpenCells) -> _ErrorParts:
    """Return the parts of statistics of distributions: all of them in common."""
    zero = np.zeros_like(cells.number)
    return _ErrorParts(zero, cells.number - cells.low, cells.high - cells.number, zero, zero)


def _weight_margins(cells: OpenCells) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the bound of the noise of each weight, and whether the opening raised it."""
    margin = cells.weight_high - cells.weight
    return margin, cells.weight - cells.weight_low > margin * (1.0 + _SLACK)
