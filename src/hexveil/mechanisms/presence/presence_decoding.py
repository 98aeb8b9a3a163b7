"""Estimates and intervals of a map with private presence. Public post-processing.

Of each open cell, with W and D the noisy A + B and A - B, b the scale of the noise and s the
standard deviation of a sum of two such noises X and Y:

- the weight is W, with the exact 95 % quantile of |X + Y| to either side (`noise_law`);
  A cell that was tested is seen only if its noisy weight reached the threshold T, so the lower end
  there is at most the w of which P(w + Z >= W | w + Z >= T) is 2.5 %, Z = X + Y;
- the mean is m + r q, q = D / max(W, s) within [-1, 1].

For the ratio z of the weights without noise, D - z W = (1 - z) X - (1 + z) Y has a known law
whatever W is. So the ratios for which |D - z W| is below its 95 % quantile cover the ratio with
probability 95 % (Fieller, 1954), also where W is small. For continuous Laplace numbers of scale 1
and a = 1 - z, c = 1 + z,

    P(|a X - c Y| > t) = (a² exp(-t/a) - c² exp(-t/c)) / (a² - c²),    (1 + t/2) exp(-t) at z = 0;

Gaussian noise of parameter 1 has a variance of a² + c² = 2 + 2 z² instead.

The ratio is that of clipped means of units by their weights. What a cell's range cuts off is known
of the whole fleet (`pooled_law`): above its end the excess E, its second moment E₂ and its error
e, and alike below.

- Estimate: of each side what counts (`pooled_law`) is added, which noise moves little, each by how
  near the cell's own ratio is to that end, against its average over cells and shrunk for noise.
- Interval: to the side of an excess it is wider by 1.96 sqrt(E₂ / w + E² + e²), w the lower end of
  the weight, as cells differ by about as much as they exceed on average; to the other side by E + e
  at most, as no excess is negative. The weights of units are not those of records: a deviation of
  d sqrt(WEIGHTING² / w + DRIFT²), d that of the law, to either side. All in quadrature.
- The law knows of no single cell that lies wholly beyond its range. Where the ratio's own interval
  comes near an end, that end of the average is unknown: the interval extends to the bound.

The constants were chosen on the tuning sets of `benchmarks/interval_sets.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.noise_law import LAPLACE, Gaussian, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.pooled_law import BeyondRange
from hexveil.mechanisms.presence.contribution import CellWindow, variance_between

MISS = 0.05
"""Probability that an interval does not cover."""
NORMAL_95, MEAN_ABS_NORMAL = 1.96, 0.7979
WEIGHTING, DRIFT = 0.6, 0.1
GAUSSIAN_DRIFT = 0.15
"""Under Gaussian noise, where weights limited in squares are less like those of records."""
LEAST_NEAR = 0.1
"""Least part of the pooled excess that a cell has, far from the end."""
MODEL_SHARE = 0.4
"""Part of a model's deviations that is expected: intervals allow for more."""
UNKNOWN_PART = 0.05
"""Expected error where an end is unknown, as a part of the distance to the bound."""
TINY = 1e-3
SATURATION = 0.95
"""Ratio from which an interval extends to the bound."""
N_RATIOS = 801
CHUNK_CELLS = 4096


@dataclass(frozen=True, eq=False)
class ReleasedMap:
    """Released numbers of a map: every cell of the declared grid, open or closed. Public.

    Attributes
    ----------
    is_open : ndarray of bool, shape (n_cells,)
    columns : mapping of str to ndarray of float, shape (n_cells,)
        By the names of released columns, NaN in closed cells; of `mean_smoothed` no cell is closed.
        Numbers that begin with `mean` are shares of the span above the lower bound until
        `in_units`. Noisy numbers are neither cut at 0 nor clipped: sums over cells are unbiased.
    error : mapping of str to ndarray of float, shape (n_cells,)
        Expected absolute error of each estimate.
    between : mapping of str to float
        Standard deviation of each estimate between open cells; NaN without any.
    """

    is_open: NDArray[np.bool_]
    columns: Mapping[str, Floats]
    error: Mapping[str, Floats] = field(default_factory=dict)
    between: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Floats:
        return self.columns[name]

    def in_units(self, lower: float, span: float) -> ReleasedMap:
        """Return the map with averages in value units."""
        columns = {
            name: lower + span * column if name.startswith("mean") else column
            for name, column in self.columns.items()
        }
        error = {name: span * figure for name, figure in self.error.items()}
        between = {name: span * figure for name, figure in self.between.items()}
        return ReleasedMap(self.is_open, columns, error, between)

    def beside(self, other: ReleasedMap) -> ReleasedMap:
        """Return the map with the columns of another one beside its own."""
        return replace(self, columns={**self.columns, **other.columns})


def decode_map(
    window: CellWindow,
    noisy: Ints,
    law: NoiseLaw,
    cut: BeyondRange,
    centres: Ints,
    threshold: int | None = None,
) -> ReleasedMap:
    """Return the map of noisy halves of weights.

    Parameters
    ----------
    window : CellWindow
        A cell of price 0 is closed.
    noisy : ndarray of int64, shape (2 n_cells,)
    law : NoiseLaw
    cut : BeyondRange
        What the ranges cut off.
    centres : ndarray of int64, shape (n_cells,)
        What they were chosen around.
    threshold : int, optional
        Noisy weight in parts below which a cell is closed, where none was closed before.
    """
    weight, difference = window.decode(noisy)
    is_open, least = window.prices > 0, None
    if threshold is not None:
        least = threshold / PARTS
        is_open &= weight >= least
    margin = law.opening_threshold(1, MISS / 2) / PARTS
    low, _ = ends = weight_interval(weight, law, 2, least, margin)
    *means, error = _averages(window, (weight, difference, low), law, cut, centres / PARTS, is_open)
    levels = np.where(is_open, PARTS * means[0], centres)
    columns = {
        **dict(zip(("mean", "mean_low", "mean_high"), np.clip(means, 0.0, 1.0), strict=True)),
        "balance_noisy": difference,
        "mean_centre": centres / PARTS,
        "mean_range_low": window.low / PARTS,
        "mean_range_high": window.high / PARTS,
    }
    shown = {name: np.where(is_open, column, np.nan) for name, column in columns.items()}
    return ReleasedMap(
        is_open,
        shown | {"mean_smoothed": np.clip(levels / PARTS, 0.0, 1.0)}
        | noisy_columns("weight", weight, ends, is_open),
        {"mean": np.where(is_open, error, np.nan)},
        {"mean": deviation_between(window, (weight, difference), law, is_open)},
    )  # fmt: skip


def noisy_columns(
    name: str, noisy: Floats, ends: tuple[Floats, Floats], is_open: NDArray[np.bool_]
) -> dict[str, Floats]:
    """Return the columns of noisy numbers of units, or of their weights, and their intervals."""
    numbers = {"": np.maximum(noisy, 0.0), "_low": ends[0], "_high": ends[1], "_noisy": noisy}
    return {f"{name}{end}": np.where(is_open, figure, np.nan) for end, figure in numbers.items()}


def weight_interval(
    weight: Floats,
    law: NoiseLaw,
    n_numbers: int,
    threshold: float | None,
    margin: float | None = None,
) -> tuple[Floats, Floats]:
    """Return 95 % intervals of weights, by the law of the noise.

    Parameters
    ----------
    weight : ndarray of float, shape (n_cells,)
        Noisy weights, in units.
    law : NoiseLaw
        Of each number of noise.
    n_numbers : int
        Numbers in each weight.
    threshold : float or None
        Noisy weight from which a cell is seen; None where all are.
    margin : float, optional
        Size of noise in units that is exceeded to either side with 2.5 %; by default that of the
        continuous law.
    """
    noise = law.scale / PARTS
    if margin is None:
        margin = noise * law.total_quantile(n_numbers, MISS / 2.0)
    low = np.maximum(weight - margin, 0.0)
    if threshold is not None:
        least = lowest_weights(weight / noise, threshold / noise, law, n_numbers)
        low = np.minimum(low, noise * least)
    return low, np.maximum(weight + margin, 0.0)


def _averages(
    window: CellWindow,
    weights: tuple[Floats, Floats, Floats],
    law: NoiseLaw,
    cut: BeyondRange,
    centres: Floats,
    is_open: NDArray[np.bool_],
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return averages, the ends of their intervals and expected errors, as shares of the span."""
    weight, difference, least = weights
    middle, radius, deviation = window.middle / PARTS, window.radius / PARTS, law.sum_deviation
    sure = np.maximum(weight, deviation / PARTS)
    ratio = np.clip(difference / sure, -1.0, 1.0)
    low, high = ratio_interval(weight, difference, law.scale / PARTS, law)
    lowest, highest = (middle + radius * end for end in (low, high))
    # Of the distance from the centre to the end; of a range to both sides alike, of its half.
    down_to, up_to = centres - window.low / PARTS, window.high / PARTS - centres
    unknown_low = lowest <= centres - SATURATION * down_to
    unknown_high = highest >= centres + SATURATION * up_to
    # Noise may put a ratio, and all of its interval, where averages would lie beyond the bounds.
    reachable = -middle / radius, (1.0 - middle) / radius
    ratio, low, high = (np.clip(number, *reachable) for number in (ratio, low, high))
    noise = deviation / PARTS / sure
    near = [_nearness(sign * ratio, sure, noise / 2.0, is_open) for sign in (-1.0, 1.0)]
    below, above = (
        replace(side, mean=side.mean * part)
        for side, part in zip((cut.below, cut.above), near, strict=True)
    )
    mean = middle + radius * ratio + above.mean * above.sure - below.mean * below.sure
    sides, expected = cut_off_error(replace(cut, below=below, above=above), least, law)
    down, up = (
        np.hypot(radius * np.maximum(gap, 0.0), side)
        for gap, side in zip((ratio - low, high - ratio), sides, strict=True)
    )
    mean_low = np.where(unknown_low, 0.0, np.maximum(mean - down, 0.0))
    mean_high = np.where(unknown_high, 1.0, np.minimum(mean + up, 1.0))
    error = MEAN_ABS_NORMAL * np.hypot(radius * noise * np.sqrt(1.0 + ratio**2), expected)
    beyond = np.where(unknown_low, mean, 0.0) + np.where(unknown_high, 1.0 - mean, 0.0)
    return mean, mean_low, mean_high, error + UNKNOWN_PART * np.clip(beyond, 0.0, 1.0)


def cut_off_error(
    cut: BeyondRange, weight: Floats, law: NoiseLaw
) -> tuple[tuple[Floats, Floats], Floats]:
    """Return the width of intervals below and above but for noise, and the expected error.

    Parameters
    ----------
    cut : BeyondRange
        What the ranges cut off.
    weight : ndarray of float
        Lower end of the weight.
    law : NoiseLaw
        Only its kind counts here.
    """
    own = np.maximum(weight, 1.0)
    below, above = (
        np.sqrt(side.square / own + side.mean**2 + side.error**2) for side in (cut.below, cut.above)
    )
    drift = GAUSSIAN_DRIFT if isinstance(law, Gaussian) else DRIFT
    model = cut.deviation * np.sqrt(WEIGHTING**2 / own + drift**2)
    sides = tuple(
        np.hypot(
            np.minimum(NORMAL_95 * far, other.mean + other.error), NORMAL_95 * np.hypot(near, model)
        )
        for near, far, other in ((below, above, cut.above), (above, below, cut.below))
    )
    return (sides[0], sides[1]), MODEL_SHARE * np.sqrt(model**2 + below**2 + above**2)


def _nearness(ratio: Floats, weight: Floats, noise: Floats, is_open: NDArray[np.bool_]) -> Floats:
    """Return each cell's part of the pooled excess at an end, by its share near it, shrunk."""
    near = (1.0 + ratio) / 2.0
    if not is_open.any():
        return np.ones_like(near)
    typical = float(np.average(near[is_open], weights=weight[is_open]))
    spread = max(float(np.var(near[is_open]) - np.mean(noise[is_open] ** 2)), 0.0)
    kept = spread / np.maximum(spread + noise**2, TINY**2)
    parts = (typical + kept * (near - typical)) / max(typical, TINY)
    return np.asarray(np.maximum(parts, LEAST_NEAR))


def deviation_between(
    window: CellWindow, noisy: tuple[Floats, Floats], law: NoiseLaw, is_open: NDArray[np.bool_]
) -> float:
    """Return the standard deviation of averages between open cells, as a share of the span.

    From noisy numbers and their noise, by the method of moments: with W and D those of a cell, m
    and r the middle and half the width of its range and θ the common average, m + r D / W has the
    noise of r D + (m - θ) W, over W. No ratio is cut at the ends of the range, or noise would count
    twice.
    """
    weight, difference = (number[is_open] for number in noisy)
    centre, radius = (part[is_open] / PARTS for part in (window.middle, window.radius))
    if weight.size < 2 or weight.sum() <= 0:
        return 0.0
    total = radius * difference + centre * weight
    common = np.clip(total.sum() / weight.sum(), 0.0, 1.0)
    deviation = law.sum_deviation / PARTS
    # A weight of nothing says nothing: of either sign, its variance is large.
    divisor = np.where(np.abs(weight) < TINY * deviation, TINY * deviation, weight)
    variance = (deviation / divisor) ** 2 * (radius**2 + (centre - common) ** 2)
    return float(np.sqrt(variance_between(total / divisor, variance)))


def lowest_weights(
    noisy: Floats, threshold: float, law: NoiseLaw = LAPLACE, n_terms: int = 2
) -> Floats:
    """Return the w with P(w + Z >= noisy | w + Z >= threshold) = 2.5 %, 0 at least.

    All in units of the noise scale; Z is the sum of so many numbers of scale 1.

    Examples
    --------
    >>> lowest_weights(np.array([9.0, 12.0, 30.0]), 8.0).round(1).tolist()
    [0.0, 0.0, 25.9]
    """
    low, high = np.zeros_like(noisy), np.maximum(noisy, 0.0)
    for _ in range(50):
        middle = (low + high) / 2.0
        # Far below the threshold both tails vanish: such a weight is not likely to be seen at all.
        is_seen = np.maximum(law.total_tails(n_terms, threshold - middle), np.finfo(float).tiny)
        seen = law.total_tails(n_terms, noisy - middle) / is_seen
        low, high = np.where(seen < MISS / 2, middle, low), np.where(seen < MISS / 2, high, middle)
    return np.asarray(low)


def ratio_interval(
    weight: Floats, difference: Floats, scale: float, law: NoiseLaw = LAPLACE
) -> tuple[Floats, Floats]:
    """Return 95 % intervals of the ratio (A - B) / (A + B) within [-1, 1].

    Parameters
    ----------
    weight, difference : ndarray of float, shape (n_cells,)
        Noisy A + B and A - B.
    scale : float
        Of the noise, in the same unit.
    law : NoiseLaw, optional
        Only its kind counts here.

    Examples
    --------
    >>> low, high = ratio_interval(np.array([100.0]), np.array([50.0]), 1.0)
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([0.45], [0.55])
    """
    ratios = np.linspace(-1.0, 1.0, N_RATIOS)
    margins = scale * noise_quantile95(np.abs(ratios), law)
    low, high = np.empty(weight.size), np.empty(weight.size)
    for begin in range(0, weight.size, CHUNK_CELLS):
        rows = slice(begin, begin + CHUNK_CELLS)
        gap = difference[rows, None] - ratios * weight[rows, None]
        accepted = np.abs(gap) <= margins
        # If noise left no ratio within the bounds, the interval is the end that is nearest.
        accepted[np.arange(len(gap)), np.abs(gap / margins).argmin(axis=1)] = True
        step = ratios[1] - ratios[0]
        low[rows] = ratios[accepted.argmax(axis=1)] - step
        high[rows] = -ratios[accepted[:, ::-1].argmax(axis=1)] + step
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def noise_quantile95(ratio: Floats, law: NoiseLaw = LAPLACE) -> Floats:
    """Return the 95 % quantile of |(1 - z) X - (1 + z) Y|, X and Y noise of scale 1.

    Parameters
    ----------
    ratio : ndarray of float
        z, from 0 to 1.

    Examples
    --------
    >>> noise_quantile95(np.array([0.0, 1.0])).round(3).tolist()
    [4.113, 5.991]
    """
    low, high = np.zeros_like(ratio), np.full_like(ratio, 8.0)
    for _ in range(50):
        middle = (low + high) / 2.0
        above = law.mixture_tail(ratio, middle) > MISS
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(high)
