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

**Averages over open cells** are weighted by noisy weights W, and M = Σ w θ / Σ w is estimated from
the published averages y: by middle + Σ W (y - middle) / Σ W, the middle an average in which no
weight is negative, so that what noise took below 0 takes away what it added elsewhere.

- Errors of cells are those of their intervals. Of an average the part that clipping has is off
  everywhere alike, and counts as bias; the rest, noise and weighting, averages out. Half a width h
  with a part b for clipping counts as noise of h - b and bias of b: for one cell that is h, and for
  several it is never below what quadrature gives. An end at a bound of the values tells that they
  may lie at any distance: all of it is bias.
- Distributions come from one model of all cells, whose errors cells have in common: all of it is
  bias, and intervals hold more often than they say.
- The noise of each weight moves the average by (y - M) / Σ W. Of a cell near the threshold noise
  made W too large: all of W less the lower end of its interval is bias, in the direction of y - M.

**Sums.** Noisy weights, and numbers of units, add up: a unit counts in each of its cells.

Post-processing of released numbers and public facts.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import Gaussian, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.presence.count_map import COUNT_MAP
from hexveil.mechanisms.presence.presence_decoding import MISS, cut_off_error, weight_interval
from hexveil.publishing.derived.cell_numbers import CellNumbers, add_cells
from hexveil.publishing.derived.derived_numbers import ReleaseSource
from hexveil.publishing.kinds.presence_manifest import stage_law, stated_ranges
from hexveil.publishing.kinds.presence_table import ENDS, has_shapes

USERS = "users"
WEIGHT_NUMBERS = 2
"""Noisy numbers that a weight is the sum of, where there are no bins."""
_SLACK = 1e-9


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
    tail = law.total_tails(terms, source.column("weight") / unit)
    is_open = 1.0 if opened is None else law.total_tails(terms, np.array([opened / unit]))
    return np.minimum(tail / np.maximum(is_open, np.finfo(np.float64).tiny), 1.0)


def published_noise(manifest: Any, stage: str = "") -> NoiseLaw:  # noqa: ANN401  parsed JSON
    """Return the law of the noise of a stage, by default of the map that is published."""
    law = stage_law(manifest["plan"], stage) or stage_law(manifest["plan"])
    assert law is not None  # noqa: S101  of releases that were checked
    return law


def weight_numbers(source: ReleaseSource) -> CellNumbers:
    """Return the noisy weights of open cells, with the parts of their error."""
    law, weight = published_noise(source.manifest), source.column("weight_noisy")
    margin = np.full_like(
        weight, law.scale / PARTS * law.total_quantile(_terms(source), MISS / 2.0)
    )
    above, zero = weight - source.column("weight_low"), np.zeros_like(weight)
    # By how much the opening raised each weight, at most.
    excess = np.where(above > margin * (1.0 + 1e-3), above, 0.0)
    unknown = np.full_like(weight, np.nan)
    return CellNumbers(weight, margin, margin, excess, zero, unknown, "model")


def numbers_to_average(source: ReleaseSource, column: str) -> CellNumbers:
    """Return a statistic in open cells, with errors that cells share as bias; see the module.

    Raises
    ------
    InputError
        If the statistic was not released.
    """
    numbers, limits = map_numbers(source, column), source.view(column).limits
    if has_shapes(source.statistics):
        return split_errors(numbers, (np.inf, np.inf), limits)
    is_open = np.ones_like(numbers.number, dtype=np.bool_)
    *_, excess = stated_ranges(source.manifest["plan"], source.column, is_open, limits)
    law, span = published_noise(source.manifest), limits[1] - limits[0]
    # What is left at a large weight is clipping.
    (below, above), _ = cut_off_error(excess, np.full_like(numbers.number, np.inf), law)
    return split_errors(numbers, (span * below, span * above), limits)


def split_errors(
    numbers: CellNumbers, shared: tuple[Floats | float, Floats | float], limits: tuple[float, float]
) -> CellNumbers:
    """Return numbers with the parts of their error that cells share as bias, at a limit all."""
    slack, low, high = _SLACK * (limits[1] - limits[0]), numbers.noise_low, numbers.noise_high
    bias_low = np.where(numbers.low <= limits[0] + slack, low, np.minimum(shared[0], low))
    bias_high = np.where(numbers.high >= limits[1] - slack, high, np.minimum(shared[1], high))
    return replace(
        numbers,
        noise_low=low - bias_low,
        noise_high=high - bias_high,
        bias_low=bias_low,
        bias_high=bias_high,
    )


def average_open_cells(
    numbers: CellNumbers, weights: CellNumbers, limits: tuple[float, float], group: Ints
) -> CellNumbers:
    """Return the average of each group of open cells; see the module.

    Parameters
    ----------
    numbers, weights : CellNumbers
        Of the cells.
    limits : tuple of float
        Least and largest value of the statistic.
    group : ndarray of int64, shape (n_cells,)
        Group of each cell, from 0 to n_groups - 1; each has a cell.
    """
    total = add_cells(weights, group)
    divisor = np.maximum(total.number, total.noise_low)[group]
    # What noise took below 0 has no interval of its own.
    share = np.maximum(weights.number, np.finfo(np.float64).tiny)
    averages = add_cells(numbers, group, share / np.bincount(group, share)[group])
    middle = averages.number
    offset = weights.number / divisor * (numbers.number - middle[group])
    number = np.clip(middle + np.bincount(group, offset), *limits)
    shift = (numbers.number - number[group]) / divisor
    is_opened = weights.bias_low > 0.0
    noise = np.where(is_opened, 0.0, shift * weights.noise_low)
    weight_error = np.sqrt(np.bincount(group, noise**2))
    too_high, too_low = (
        np.bincount(group, np.maximum(sign * shift * weights.bias_low, 0.0)) for sign in (1.0, -1.0)
    )
    return replace(
        averages,
        number=number,
        noise_low=np.hypot(averages.noise_low, weight_error),
        noise_high=np.hypot(averages.noise_high, weight_error),
        bias_low=averages.bias_low + too_high,
        bias_high=averages.bias_high + too_low,
    )
