"""Checks of the numbers of means and variances: against the manifest, and against each other.

Typical errors, counts of grades, and deviations between cells by moments are computed anew; so are
grades against the map. A posterior cannot be: users' weights are in no folder.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.error_model import predicted_bound
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.base.arrays import Floats
from hexveil.publishing.estimates.accuracy import between_cells, count_grades, typical_error
from hexveil.publishing.estimates.quality_grades import beats_constant, grade, grade_against_map
from hexveil.publishing.estimates.table import cells_cut_off
from hexveil.publishing.verification.recomputed_losses import ReleaseStatements, StatedStatistic
from hexveil.publishing.verification.table_checks import TOLERANCE, column, is_close
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.manifest_view import RANGE

Json = dict[str, Any]

NOISE = "noise"
ROUNDING_SHARE = 2.0**-49
"""Largest relative rounding of a number on its grid."""
DEVIATION_TOLERANCE = 1e-6
"""Relative difference of two deviations by moments: near 0 a root magnifies rounding."""


def check_numbers(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield numbers that differ from the manifest's, or do not follow from each other."""
    for statistic in stated.statistics.values():
        if statistic.name in stated.manifest["plan"]["statistics"]:
            yield from _check_stated(table, statistic)
            yield from _check_derived(table, stated, statistic)
    if "sd" in stated.manifest["plan"]["statistics"]:
        yield from _check_roots(table, stated)
    yield from _check_errors(table, stated)
    yield from _check_cut_off(table, stated.manifest)
    yield from check_accuracy(table, stated.manifest, stated.law)


def _check_stated(table: pa.Table, statistic: StatedStatistic) -> Iterator[str]:
    """Yield columns of a statistic that differ from the manifest."""
    for key in ("scale", "bias", "bound95"):
        if not is_close(column(table, f"{statistic.name}_{key}"), getattr(statistic, key)):
            yield f"{statistic.name}_{key} is not what manifest.json says."
    if not is_on_grid(column(table, f"{statistic.name}_noisy"), statistic):
        yield f"{statistic.name}_noisy has a number that is not on the grid of manifest.json."


def is_on_grid(noisy: Floats, statistic: StatedStatistic) -> bool:
    """Return whether numbers are a start and whole steps, up to the precision of doubles."""
    distance = noisy - statistic.start
    n_steps = np.divide(
        distance, statistic.step, out=np.zeros_like(distance), where=statistic.step > 0
    )
    on_grid = ~np.isnan(statistic.step)  # estimates of a cell may lie on a curve and on no grid
    error = np.where(
        statistic.step > 0, np.abs(distance - np.round(n_steps) * statistic.step), np.abs(distance)
    )
    tolerance = ROUNDING_SHARE * (np.abs(noisy) + np.abs(statistic.start))
    return bool((error <= tolerance)[on_grid].all())


def _graded_bound(stated: ReleaseStatements, statistic: StatedStatistic, error: Floats) -> Floats:
    """Return the bound by which cells are graded: by a prediction where mechanisms have one."""
    if not stated.has_cell_stages:
        return statistic.bound95
    return predicted_bound(error, statistic.bound95)


def _check_derived(
    table: pa.Table, stated: ReleaseStatements, statistic: StatedStatistic
) -> Iterator[str]:
    """Yield columns that do not follow from the noisy numbers, the scale and the bias."""
    name, is_smoothed = statistic.name, f"{statistic.name}_smoothed" in table.column_names
    low, high = _limits(stated, name)
    raw = np.clip(column(table, f"{name}_noisy"), low, high)
    if not is_close(column(table, f"{name}_raw"), raw):
        yield f"{name}_raw is not {name}_noisy clamped to the bounds."
    if stated.has_no_range:
        stated_error = column(table, f"{name}_error")
        # Predictions of errors cannot be recomputed: a mechanism with stages has them.
        if not stated.has_cell_stages and not is_close(
            stated_error, statistic.bias + statistic.scale * stated.law.mean_absolute
        ):
            yield f"{name}_error is not bias and scale."
        has_noise = statistic.scale > 0
        # Grades follow from the public bound, so they can be recomputed.
        flags = np.array(
            grade(_graded_bound(stated, statistic, stated_error), high - low, has_noise)
        )
        # A constant has its own rule for cells whose statistic is known beforehand.
        if (flags != table[f"{name}_quality"].to_numpy())[has_noise].any():
            yield f"{name}_quality is not that of its bound."
        if not is_smoothed:
            ends = (
                np.maximum(raw - statistic.bound95, low),
                np.minimum(raw + statistic.bound95, high),
            )
            if not all(map(is_close, _interval(table, name), ends)):
                yield f"{name}_low and {name}_high are not {name}_raw and its bound."
    below, above = _interval(table, name)
    if is_smoothed:
        middle = column(table, f"{name}_smoothed")
        if ((middle < below - TOLERANCE) | (middle > above + TOLERANCE)).any():
            yield f"{name}_smoothed is outside {name}_low and {name}_high."
    if (below > above).any() or not (
        (low - TOLERANCE <= below) & (above <= high + TOLERANCE)
    ).all():
        yield f"{name}_low and {name}_high are no interval within the bounds."


def _check_roots(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield columns of the standard deviation that are not roots of the variance's."""
    low, high = _interval(table, "sd")
    raw, largest = column(table, "sd_raw"), stated.span * RANGE["sd"]
    if (low > high).any() or not ((low >= 0) & (high <= largest * (1.0 + TOLERANCE))).all():
        yield "sd_low and sd_high are no interval within the bounds."
    if "variance" in stated.manifest["plan"]["statistics"]:
        squares = [column(table, f"variance_{key}") for key in ("raw", "low", "high")]
        if not all(map(is_close, (raw, low, high), map(np.sqrt, np.maximum(squares, 0.0)))):
            yield "sd_raw, sd_low and sd_high are not the roots of the variance's."
    if "sd_smoothed" not in table.column_names:
        farthest, bound = np.maximum(raw - low, high - raw), column(table, "sd_bound95")
        # A cell that its range may have cut off reaches to a limit of all roots, beyond the bound.
        reaches = (low <= 0.0) | (high >= largest * (1.0 - TOLERANCE))
        if not is_close(np.where(reaches, np.minimum(bound, farthest), farthest), bound):
            yield "sd_bound95 is not the distance from sd_raw to its ends."


def _check_errors(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield if the largest or the average error is not that of the cells."""
    plan = stated.manifest["plan"]
    names = [name for name in stated.statistics if f"{name}_error" in table.column_names]
    if len(names) < len(stated.statistics):
        return  # where the root alone is published, errors of the variance are not in the table
    errors = {name: column(table, f"{name}_error") for name in names}
    for key, over in (("max_error", np.max), ("mean_error", np.mean)):
        planned = plan[key]
        recomputed = {name: float(over(errors[name])) for name in names}
        if not isinstance(planned, dict):
            planned, recomputed = (
                {"": planned},
                {"": float(over(np.sum(list(errors.values()), axis=0)))},
            )
        if set(planned) != set(recomputed) or not all(
            math.isclose(planned[name], recomputed[name], rel_tol=TOLERANCE) for name in recomputed
        ):
            yield f"{key} of the plan is not that of the cells."


def _check_cut_off(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if the table has another number of cells cut off than the manifest says."""
    counts = {entry["statistic"]: entry["cells"] for entry in manifest["cut_off"]}
    graded = {f"{name}_quality" for name in counts} <= set(table.column_names)
    if graded and cells_cut_off(table, tuple(counts)) != counts:
        yield "cells.parquet does not have as many cells cut off as manifest.json says."


def _limits(stated: ReleaseStatements, name: str) -> tuple[Floats, Floats]:
    """Return the limits of a statistic."""
    if name == "mean":
        return stated.lower, stated.upper
    return np.zeros_like(stated.span), stated.span**2 * RANGE["variance"]


def _interval(table: pa.Table, name: str) -> tuple[Floats, Floats]:
    return column(table, f"{name}_low"), column(table, f"{name}_high")


def check_accuracy(table: pa.Table, manifest: Json, law: NoiseLaw) -> Iterator[str]:
    """Yield differences of the statement on accuracy from the table."""
    statements = manifest["accuracy"]
    if [entry["statistic"] for entry in statements] != manifest["plan"]["statistics"]:
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    for statement in statements:
        yield from _check_statement(table, statement, law)
    if "mean_estimate" in table.column_names:
        yield from _check_estimates(table)


def _check_statement(table: pa.Table, statement: Json, law: NoiseLaw) -> Iterator[str]:
    name = statement["statistic"]
    if statement["grades"] != count_grades(table, name):
        yield f"cells.parquet does not have the grades of {name} that manifest.json counts."
    if not is_same(statement["typical_error"], typical_error(table, name), TOLERANCE):
        yield f"the typical error of {name} is not that of the cells."
    has_posterior = f"{name}_estimate" in table.column_names
    if (statement["basis"] == "posterior") != has_posterior:
        yield f"the basis of the typical error of {name} is not that of the table."
        return
    between = statement["between_cells"]
    if not has_posterior and not is_same(
        between, between_cells(table, name, None, law), DEVIATION_TOLERANCE
    ):
        yield f"the deviation of {name} between cells is not that of its noisy numbers."
    if statement["beats_constant"] != beats_constant(statement["typical_error"], between):
        yield f"accuracy/beats_constant of {name} is not that of its error and its deviation."
    if statement["graded_by"] == "map":
        yield from _check_grades(table, name, between)


def _check_grades(table: pa.Table, name: str, between: float | None) -> Iterator[str]:
    """Yield if a grade is not that of the cell's interval, or a root's not that of its square."""
    grades = np.array(table[f"{name}_quality"].to_pylist())
    if name == "sd":
        squares = "variance_quality"
        if squares in table.column_names and grades.tolist() != table[squares].to_pylist():
            yield "sd_quality is not variance_quality."
        return
    if between is None:
        yield f"{name} is graded against a deviation that manifest.json does not state."
        return
    interval = column(table, f"{name}_low"), column(table, f"{name}_high")
    is_noised = column(table, f"{name}_scale") > 0
    expected = np.array(grade_against_map(interval, between, is_noised))
    # The interval of a cell that is cut off was widened after it was graded; a constant is noise,
    # and so is a cell with noise that alone is too wide, whatever its interval.
    judged = is_noised & (grades != CUT_OFF) & (grades != NOISE)
    # Of a posterior: a range that is tight against the spread within a cell makes good a caution.
    if f"{name}_estimate" in table.column_names:
        judged &= ~((grades == "caution") & (expected == "good"))
    if (grades != expected)[judged].any():
        yield f"{name}_quality is not that of its interval."


def _check_estimates(table: pa.Table) -> Iterator[str]:
    """Yield estimates outside their intervals, and errors that none can have."""
    estimate, low, high = (column(table, f"mean_{key}") for key in ("estimate", "low", "high"))
    if ((estimate < low - TOLERANCE) | (estimate > high + TOLERANCE)).any():
        yield "mean_estimate is outside mean_low and mean_high."
    if (column(table, "mean_expected_error") < 0).any():
        yield "mean_expected_error is negative."


def is_same(stated: float | None, expected: float | None, tolerance: float) -> bool:
    """Return whether a number is the one expected, or both are missing."""
    if stated is None or expected is None:
        return stated is expected
    return math.isclose(stated, expected, rel_tol=tolerance, abs_tol=tolerance)
