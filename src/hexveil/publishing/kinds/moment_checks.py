"""Checks of a release of means and variances: its table, its numbers and statements, its losses.

Figures that a manifest states twice, or that follow from others, have to agree: counts of users and
records add up to those stated, and records to what the rules left.

Checks of the numbers of means and variances: against the manifest, and against each other.

Typical errors, counts of grades, and deviations between cells by moments are computed anew. A
posterior, and grades by it, cannot be: users' weights are in no folder.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats
from hexveil.publishing.estimates import accuracy
from hexveil.publishing.estimates.table import limits_of
from hexveil.publishing.kinds import loss_checks
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    find_differences,
    is_ascending,
    is_close,
    is_interval,
)
from hexveil.publishing.kinds.loss_checks import ReleaseStatements, StatedStatistic
from hexveil.publishing.kinds.value_manifest import occupancy_section
from hexveil.report.manifest_view import RANGE, numbers_of

Json = dict[str, Any]

ROUNDING_SHARE = 2.0**-49
"""Largest relative rounding of a number on its grid."""
DEVIATION_TOLERANCE = 1e-6
"""Relative difference of two deviations by moments: near 0 a root magnifies rounding."""


def check_counted_cells(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns with gaps, and cells that are not those of the manifest, in its order."""
    for name in table.column_names:
        values = table[name]
        is_number = pa.types.is_floating(values.type)
        if values.null_count or (is_number and not np.isfinite(values.to_numpy()).all()):
            yield f"{name} has a row without a value."
    # Order matters: the manifest lists scales and biases by position.
    if table["cell"].to_pylist() != [cell["cell"] for cell in manifest["cells"]]:
        yield "cells.parquet does not have the cells of manifest.json, in that order."


def check_moments(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers and statements that do not follow from each other."""
    stated = ReleaseStatements.from_release(manifest, table)
    yield from check_moment_numbers(table, stated)
    yield from check_counts(table, manifest)
    yield from loss_checks.find_problems(stated)


def check_moment_numbers(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield numbers that differ from the manifest's, or do not follow from each other.

    Also of a part of a release.
    """
    manifest = stated.manifest
    names = manifest["plan"]["statistics"]
    for statistic in stated.statistics.values():
        if statistic.name in names:
            yield from _check_statistic(table, stated, statistic)
    if "sd" in names:
        yield from _check_roots(table, stated)
    planned = _planned_errors(table, stated)
    yield from find_differences(manifest["plan"], planned, "plan", "the cells")
    yield from check_accuracy(table, manifest["accuracy"], names)


def check_counts(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if counts of users and records are not those stated, or those of the rules."""
    users, records = (table[name].to_numpy() for name in ("users", "records"))
    expected = occupancy_section(users, records)
    yield from find_differences(manifest["occupancy"], expected, "occupancy", "the cells")
    if (users < 1).any() or (records < users).any():
        yield "a cell has fewer records than users, or no users."
    if manifest["rules"].get("records left", records.sum()) != records.sum():
        yield "rules/records left is not the sum of the records of the cells."


def _planned_errors(table: pa.Table, stated: ReleaseStatements) -> Json:
    """Return the planning errors over all cells that follow from those of each."""
    names = [name for name in stated.statistics if f"{name}_error" in table.column_names]
    # Where the root alone is published, errors of the variance are not in the table.
    if len(names) < len(stated.statistics):
        return {}
    errors = {name: numbers_of(table, f"{name}_error") for name in names}
    made = {}
    for key, over in (("max_error", np.max), ("mean_error", np.mean)):
        planned = {name: float(over(own)) for name, own in errors.items()}
        made[key] = planned if len(planned) > 1 else planned[names[0]]
    return made


def check_accuracy(
    table: pa.Table, statements: Sequence[Json], names: Collection[str]
) -> Iterator[str]:
    """Yield statements on accuracy that are not those of a table, by statistics in their order.

    The deviation between cells is as it is stated: a posterior's follows from what is in no folder.
    """
    if [entry["statistic"] for entry in statements] != [*names]:
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    for stated in statements:
        name, by_map = stated["statistic"], stated["graded_by"] == "map"
        has_posterior = f"{name}_estimate" in table.column_names
        basis = "posterior" if has_posterior else stated["basis"].removeprefix("posterior")
        between = stated["between_cells"]
        expected = accuracy.accuracy_entry(table, name, basis, between, by_map=by_map)
        # By stated numbers: rounding must not turn a statement. Words are of their version.
        expected["beats_constant"] = accuracy.beats_constant(stated["typical_error"], between)
        del expected["assumption"]
        place = f"accuracy of {name}"
        yield from find_differences(stated, expected, place, "the cells", DEVIATION_TOLERANCE)


def is_on_grid(noisy: Floats, statistic: StatedStatistic) -> bool:
    """Return whether numbers are a start and whole steps, up to the precision of doubles."""
    distance, step = noisy - statistic.grid_start, statistic.grid_step
    n_steps = np.divide(distance, step, out=np.zeros_like(distance), where=step > 0)
    error = np.where(step > 0, np.abs(distance - np.round(n_steps) * step), np.abs(distance))
    tolerance = ROUNDING_SHARE * (np.abs(noisy) + np.abs(statistic.grid_start))
    # Estimates of a cell may lie on a curve and on no grid.
    return bool((error <= tolerance)[~np.isnan(step)].all())


def _check_statistic(
    table: pa.Table, stated: ReleaseStatements, statistic: StatedStatistic
) -> Iterator[str]:
    """Yield columns that do not follow from the noisy numbers and the manifest."""
    name, is_smoothed = statistic.name, f"{statistic.name}_smoothed" in table.column_names
    low, high = limits_of(name, *(np.full(table.num_rows, end) for end in stated.bounds))
    noisy, bound = numbers_of(table, f"{name}_noisy"), statistic.bound95
    if not is_on_grid(noisy, statistic):
        yield f"{name}_noisy has a number that is not on the grid of manifest.json."
    raw = np.clip(noisy, low, high)
    expected = {"scale": statistic.scale, "bias": statistic.bias, "bound95": bound, "raw": raw}
    if stated.has_no_range:
        expected["error"] = statistic.bias + statistic.scale * stated.law.mean_absolute
        if not is_smoothed:
            expected |= {"low": np.maximum(raw - bound, low), "high": np.minimum(raw + bound, high)}
        # Grades follow from the public bound, so they can be recomputed. A constant has its own
        # rule for cells whose statistic is known beforehand.
        has_noise = statistic.scale > 0
        flags = np.array(accuracy.grade_intervals(bound, None, high - low, has_noise))
        if (flags != table[f"{name}_quality"].to_numpy())[has_noise].any():
            yield f"{name}_quality is not that of its bound."
    for key, numbers in expected.items():
        if not is_close(numbers_of(table, f"{name}_{key}"), numbers):
            yield f"{name}_{key} does not follow from {name}_noisy and manifest.json."
    ends, keys = _interval(table, name), ("low", "smoothed", "estimate")
    for column in (f"{name}_{key}" for key in keys if f"{name}_{key}" in table.column_names):
        if not is_ascending([low, ends[0], numbers_of(table, column), ends[1], high], TOLERANCE):
            yield f"{name}_low and {name}_high are no interval within the bounds, around {column}."


def _check_roots(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield columns of the standard deviation that are not roots of the variance's."""
    low, high = _interval(table, "sd")
    raw, largest = numbers_of(table, "sd_raw"), stated.span * RANGE["sd"]
    if not is_interval([low, high], (0.0, largest), TOLERANCE * largest):
        yield "sd_low and sd_high are no interval within the bounds."
    if "variance" in stated.manifest["plan"]["statistics"]:
        squares = [numbers_of(table, f"variance_{key}") for key in ("raw", "low", "high")]
        if not all(map(is_close, (raw, low, high), map(np.sqrt, np.maximum(squares, 0.0)))):
            yield "sd_raw, sd_low and sd_high are not the roots of the variance's."
    if "sd_smoothed" not in table.column_names:
        farthest, bound = np.maximum(raw - low, high - raw), numbers_of(table, "sd_bound95")
        # A cell that its range may have cut off reaches to a limit of all roots, beyond the bound.
        reaches = (low <= 0.0) | (high >= largest * (1.0 - TOLERANCE))
        if not is_close(np.where(reaches, np.minimum(bound, farthest), farthest), bound):
            yield "sd_bound95 is not the distance from sd_raw to its ends."


def _interval(table: pa.Table, name: str) -> tuple[Floats, Floats]:
    return numbers_of(table, f"{name}_low"), numbers_of(table, f"{name}_high")
