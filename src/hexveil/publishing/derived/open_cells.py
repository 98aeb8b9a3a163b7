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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hexveil.accounting.noise_law import Gaussian, NoiseLaw
from hexveil.accounting.promise import PARTS
from hexveil.base.arrays import Floats
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.pooled_law import BeyondRange
from hexveil.mechanisms.presence.count_map import COUNT_MAP
from hexveil.mechanisms.presence.presence_decoding import weight_interval
from hexveil.publishing.derived.cell_numbers import CellNumbers
from hexveil.publishing.derived.release_source import ReleaseSource
from hexveil.publishing.kinds.presence_manifest import GAUSSIAN, stage_law, stated_ranges
from hexveil.publishing.kinds.presence_table import ENDS, has_shapes
from hexveil.report.manifest_view import ManifestView

USERS = "users"
WEIGHT_NUMBERS = 2
"""Noisy numbers that a weight is the sum of, where there are no bins."""
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
    number, low, high : ndarray of float, shape (n_cells,)
        Published number and its 95 percent interval.
    weight_noisy, weight_low : ndarray of float, shape (n_cells,)
        Noisy weight of the units there, and the lower end of its 95 percent interval.
    limits : tuple of float
        Least and largest value of the statistic.
    noise : LaplaceMapNoise or Gaussian
        Of each number that a weight is made of, in parts.
    terms : int
        Noisy numbers that a weight is the sum of.
    balances : CellSums or None
        None of numbers by a model of distributions.
    """

    number: Floats
    low: Floats
    high: Floats
    weight_noisy: Floats
    weight_low: Floats
    limits: tuple[float, float]
    noise: NoiseLaw
    terms: int
    balances: CellSums | None = None


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
    source.require(column)
    number, low, high = (source.column(f"{column}{end}") for end in ENDS)
    return OpenCells(
        number,
        low,
        high,
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


def cell_cap(manifest: Any) -> float:  # noqa: ANN401  parsed JSON
    """Return in how many cells a unit counts fully, by the sensitivity of their stage."""
    stages = manifest["plan"]["stages"]
    stage = next(entry for entry in stages if entry["stage"] == COUNT_MAP)
    cap = stage["sensitivity"] / PARTS
    return float(cap**2 if stage["noise"] == GAUSSIAN else cap)
