"""Released numbers of cells with the parts of their error, for averages and differences.

The error of a number is noise plus bias. Noise is drawn for each cell, so it averages out and adds
as independent numbers do. Bias (clipping, weights, private ranges) is no draw, and cells can share
it: it adds up linearly. Three kinds of parts:

- Within public bounds: noise of the released scale, bias up to the released bound. Proven,
  whatever the values.
- Under a private range, for a difference: the interval of the released posterior, all of it as if
  it were noise. By a model.
- Under a private range, for an average: noise of the released scale. The bias is the
  predicted effect of weights and clipping, `error - scale`, the mean absolute value of a normal
  number of which it takes the 95 percent bound, as if all cells had it in common. Posterior
  estimates are not averaged: each is shrunk towards the map's centre, and an average of them would
  lose what the averaged cells have in common. Where a range cuts a cell off, the bias extends to
  the posterior's estimate and the 95 percent bound of its expected error, at most to the end of the
  cell's interval; without a posterior, to that end. By a model.

Noise is Laplace, or under a δ Gaussian: then 95 percent bounds of independent numbers add up as the
root of the sum of their squares, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexveil.accounting.noise_law import law_at
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.manifest_view import ManifestView

if TYPE_CHECKING:
    import pyarrow as pa

    from hexveil.base.arrays import Floats
    from hexveil.publishing.derived.release_source import ReleaseSource


Basis = Literal["proven", "model"]
BOUND_PER_MEAN = 1.959964 * math.sqrt(math.pi / 2.0)
"""The 95 percent bound of a centred normal number of mean absolute value 1."""


@dataclass(frozen=True, eq=False)
class CellNumbers(ReadOnlyArrays):
    """Numbers of cells: the true one is from number - low parts to number + high parts.

    Attributes
    ----------
    number : ndarray of float, shape (n_cells,)
        Not clamped to the bounds, in the statistic's units.
    noise_low, noise_high : ndarray of float, shape (n_cells,)
        95 percent bounds of the noise, below and above.
    bias_low, bias_high : ndarray of float, shape (n_cells,)
        Largest bias, below and above.
    scale : ndarray of float, shape (n_cells,)
        Scale of the noise where it is one Laplace number; NaN elsewhere.
    is_gaussian : bool
        Whether all noise is Gaussian.
    basis : "proven" or "model"
    """

    number: Floats
    noise_low: Floats
    noise_high: Floats
    bias_low: Floats
    bias_high: Floats
    scale: Floats
    basis: Basis
    is_gaussian: bool = False


def numbers_to_compare(source: ReleaseSource, statistic: str) -> CellNumbers:
    """Return the numbers of a statistic for differences of two releases; see the module.

    Raises
    ------
    InputError
        If the statistic was not released, or was released without an interval.
    """
    table = source.table
    view = replace(ManifestView.from_manifest(source.manifest), shown=statistic)
    if view.has_posterior(table):
        return _from_interval(table, f"{statistic}_estimate", view.bound_limits(table))
    if f"{statistic}_scale" in table.column_names:
        return _from_noise(source, statistic)
    if f"{statistic}_low" in table.column_names:
        # Not the ends in the table: where estimates were smoothed, those are about another number.
        return _from_interval(table, f"{statistic}_raw", view.bound_limits(table))
    raise InputError(
        f"the release of {source.identity['dataset']} has no {statistic}; it has "
        f"{', '.join(source.statistics)}."
    )


def numbers_to_average(source: ReleaseSource) -> CellNumbers:
    """Return the means of cells for weighted averages; see the module.

    Raises
    ------
    InputError
        If no mean was released.
    """
    if "mean_scale" not in source.table.column_names:
        raise InputError(
            "only averages can be averaged over cells, and the release of "
            f"{source.identity['dataset']} has {', '.join(source.statistics)}; publish the "
            "coarser grid instead."
        )
    return _from_noise(source, "mean")


def _from_noise(source: ReleaseSource, statistic: str) -> CellNumbers:
    number, scale, bias, error, bound, low, high = (
        _column(source.table, f"{statistic}_{key}")
        for key in ("noisy", "scale", "bias", "error", "bound95", "low", "high")
    )
    is_gaussian = "delta" in source.manifest["guarantee"]
    law = law_at(is_gaussian)
    laplace = np.full_like(scale, np.nan) if is_gaussian else scale
    if not source.strategy:
        noise = law.limit95 * scale
        return CellNumbers(
            number, noise, noise, bias, bias, laplace, "proven", is_gaussian=is_gaussian
        )
    is_single = statistic == "mean"
    noise = law.limit95 * scale if is_single else np.maximum(bound - bias, 0.0)
    typical = BOUND_PER_MEAN * np.maximum(error - law.mean_absolute * scale, 0.0)
    below, above = np.maximum(number - low, typical), np.maximum(high - number, typical)
    if f"{statistic}_estimate" in source.table.column_names:
        estimate, expected = (
            _column(source.table, f"{statistic}_{key}") for key in ("estimate", "expected_error")
        )
        far = BOUND_PER_MEAN * expected
        below = np.clip(number - estimate + far, typical, below)
        above = np.clip(estimate - number + far, typical, above)
    is_cut = np.array(source.table[f"{statistic}_quality"].to_pylist()) == CUT_OFF
    return CellNumbers(
        number,
        noise,
        noise,
        np.where(is_cut, below, typical),
        np.where(is_cut, above, typical),
        laplace if is_single else np.full_like(scale, np.nan),
        "model",
        is_gaussian and is_single,
    )


def _from_interval(table: pa.Table, column: str, limits: tuple[Floats, Floats]) -> CellNumbers:
    number, (low, high) = _column(table, column), limits
    zero = np.zeros_like(number)
    unknown = np.full_like(number, np.nan)
    below, above = np.maximum(number - low, 0.0), np.maximum(high - number, 0.0)
    return CellNumbers(number, below, above, zero, zero, unknown, "model")


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
