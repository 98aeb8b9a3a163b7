"""Accuracy of a release as its manifest states it: typical error, differences, grades.

The typical error of a statistic is the mean over cells of its expected absolute error. Where the
release has a posterior, that error is estimated from the noisy numbers; elsewhere it is the
planning error, which is known before anything is drawn. How much the cells differ is estimated from
the noisy numbers (publishing/estimates/accuracy.py): an error says something only beside it.

Quality grades of cells: against the bounds, or against how much the cells of the map differ.

Within public bounds a cell is graded by its 95% bound, as a share of the range of the statistic.
Under a private range that share says little: noise is small there because averages are alike, and a
number of small noise may still not tell one cell from another. So half of the published 95%
interval is compared with the standard deviation between cells, which is estimated from the noisy
numbers: from the posterior where there is one, else by the method of moments. With a normal law of
the cells' averages an interval that knows only the map's average has a half width of 1.96 such
deviations. A cell is

- good, where the half width is at most `GOOD_DEVIATIONS`: the release explains about three quarters
  of the variance of the cell's average;
- caution, where it is at most `CAUTION_DEVIATIONS`: it explains about a fifth or more; or where
  the cell's range holds less than half of its users' averages, by the law fitted to them, since
  what such a range cuts off is known by the model alone;
- noise, where it is wider: the interval tells little beyond the map's average;
- cut off, whatever its interval, where the number lies at an end of its range
  (`posterior_estimates`), unless the 95% bound of its noise alone is wider than caution.

A map of one cell has no deviation between cells, and is graded against the bounds.

Post-processing of noisy numbers and public facts: it costs no privacy.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyarrow import Table

from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.base.arrays import Bools, Floats
from hexveil.mechanisms.presence.contribution import variance_between
from hexveil.planning.moment_component import MomentComponent
from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates
from hexveil.report import accuracy_text
from hexveil.report.manifest_view import RANGE, numbers_of


def accuracy_statement(
    plan: MomentComponent,
    table: Table,
    posterior: PosteriorEstimates | None,
    *,
    remembers: bool = False,
) -> list[dict[str, Any]]:
    """Return the manifest's statement on accuracy, an entry for each published statistic.

    Parameters
    ----------
    plan : MomentComponent
    table : pyarrow.Table
        The released table.
    posterior : PosteriorEstimates or None
        Of the mean.
    remembers : bool
        Whether estimates of the mean rest on earlier releases.
    """
    entries, clipping = [], plan.allocation.clipping
    for name in plan.statistics:
        modelled = posterior if name == "mean" else None
        basis = clipping.basis if modelled is None else "posterior"
        between = between_cells(table, name, modelled, plan.request.law)
        # A root is graded as its square, which may be compared with the map though it is not
        # published.
        by_map = bool(clipping.strategy) and (
            between is not None or (name == "sd" and plan.occupancy.n_cells > 1)
        )
        entry = accuracy_entry(table, name, basis, between, by_map=by_map)
        if remembers and name == "mean":
            entry["assumption"] += f" {accuracy_text.describe_memory()}"
        entries.append(entry)
    return entries


def accuracy_entry(
    table: Table, name: str, basis: str, between: float | None, *, by_map: bool
) -> dict[str, Any]:
    """Return the manifest's statement on the accuracy of a statistic of a table.

    Parameters
    ----------
    table : pyarrow.Table
    name : str
        As its columns begin.
    basis : str
        Origin of its errors.
    between : float or None
        Deviation between cells.
    by_map : bool
        Whether grades are by that deviation.
    """
    error, is_shape = typical_error(table, name), name not in RANGE
    grades = table[f"{name}_quality"].to_pylist()
    return {
        "statistic": name,
        "typical_error": error,
        "basis": basis,
        "between_cells": between,
        "beats_constant": beats_constant(error, between),
        "graded_by": "map" if by_map else "bounds",
        "grades": {key: grades.count(grade) for key, grade in accuracy_text.GRADES.items()},
        "assumption": accuracy_text.describe_assumption("distribution" if is_shape else basis),
    }


def typical_error(table: Table, name: str) -> float | None:
    """Return the mean over cells of a statistic's expected absolute error; None for a root."""
    for key in (f"{name}_expected_error", f"{name}_error"):
        if key in table.column_names:
            errors = numbers_of(table, key)
            return float(np.sum(errors) / errors.size)
    return None


def between_cells(
    table: Table, name: str, posterior: PosteriorEstimates | None, law: NoiseLaw
) -> float | None:
    """Return the deviation between cells; None where the table has no noisy numbers."""
    if f"{name}_noisy" not in table.column_names:
        return None
    keys = ("noisy", "scale", "bias", "bound95")
    columns = {key: numbers_of(table, f"{name}_{key}") for key in keys}
    return deviation_of(name, columns, posterior, law)


GOOD, CAUTION = 10, 4
"""A bound within range/10 is good, within range/4 a caution; beyond, or a constant, is noise."""
AS_WELL = 0.9
"""Part of the error of one number for all cells from which on a map says no more: estimates that
borrow from all cells are never off by more than one number, so that only nearly as much shows."""


def grade_intervals(
    half_width: Floats, between: float | None, width: Floats | float, informative: Bools
) -> list[str]:
    """Return each cell's quality by half its interval: against the map, or the statistic's range.

    Parameters
    ----------
    half_width : ndarray of float, shape (n_cells,)
        Of 95% intervals, before those of cells that are cut off are widened.
    between : float or None
        Standard deviation between cells; None for a map of one cell.
    width : float or ndarray of float
        Range of the statistic.
    informative : ndarray of bool, shape (n_cells,)
        False for cells with a number that says nothing of them.

    Examples
    --------
    >>> grade_intervals(np.array([2.0, 3.0, 4.0]), 2.0, 60.0, np.full(3, True))
    ['good', 'caution', 'noise']
    """
    if between is None:
        limits = width / GOOD, width / CAUTION
    else:
        limits = accuracy_text.GOOD_DEVIATIONS * between, accuracy_text.CAUTION_DEVIATIONS * between
    flags = np.select([half_width <= limit for limit in limits], ["good", "caution"], "noise")
    return [str(flag) for flag in np.where(informative, flags, "noise")]


def beats_constant(typical_error: float | None, deviation: float | None) -> bool | None:
    """Return whether a map says more than one number for all of its cells; None if not known.

    One number misses normal averages by 0.8 of their deviation. A map that is off by nearly as much
    says no more, even where planning assumed that cells differ by more.

    Parameters
    ----------
    typical_error : float or None
        Mean over cells of the expected absolute error.
    deviation : float or None
        Standard deviation between cells, estimated from the noisy numbers.

    Examples
    --------
    >>> beats_constant(0.96, 0.86), beats_constant(0.4, 0.86), beats_constant(None, 0.86)
    (False, True, None)
    """
    if typical_error is None or deviation is None:
        return None
    return typical_error < AS_WELL * accuracy_text.MEAN_ABS_NORMAL * deviation


def deviation_of(
    name: str,
    columns: Mapping[str, Any],
    posterior: PosteriorEstimates | None,
    law: NoiseLaw = LAPLACE,
) -> float | None:
    """Return the standard deviation of a statistic between cells, by the method of moments.

    See `variance_between` (Paule and Mandel 1982, J. Res. Natl. Bur. Stand. 87, 377-385). Cells
    without noise are constants, and do not count; None where fewer than two cells count. Of means
    with a posterior it is that of the posterior.

    Parameters
    ----------
    name : str
    columns : mapping of str to ndarray of float, shape (n_cells,)
        Of the statistic, without its name.
    posterior : PosteriorEstimates or None
    law : NoiseLaw

    Examples
    --------
    >>> columns = {"noisy": [1.0, 5.0, 9.0], "scale": [1.87] * 3, "bias": [0] * 3, "bound95": 0}
    >>> round(deviation_of("mean", columns, None), 2)
    3.0
    """
    if name == "mean" and posterior is not None:
        return posterior.deviation
    keys = ("noisy", "scale", "bias", "bound95")
    number, scale, bias, bound95 = (np.asarray(columns[key], dtype=np.float64) for key in keys)
    # That of a variance has the noise of the average in it, with as large a share as the bound has.
    if name == "variance":
        scale = (bound95 - bias) / law.paired_limit95
    variance = law.variance * scale**2
    counted = variance > 0
    if counted.sum() < 2:
        return None
    return float(np.sqrt(variance_between(number[counted], variance[counted])))
