"""Checks of a release's statement on accuracy against its table.

Typical errors, counts of grades, and deviations between cells by moments are computed anew; so are
grades against the map. A posterior cannot be: users' weights are in no folder.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.noise_law import law_at
from hexveil.publishing.estimates.accuracy import count_grades, typical_error
from hexveil.publishing.estimates.quality_grades import beats_constant, grade_against_map
from hexveil.publishing.estimates.table import deviation_of
from hexveil.report.clipping_text import CUT_OFF

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats

    Json = dict[str, Any]

NOISE = "noise"
TOLERANCE = 1e-9
DEVIATION_TOLERANCE = 1e-6
"""Relative difference of two deviations by moments: near 0 a root magnifies rounding."""


def check_accuracy(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield differences of the statement on accuracy from the table."""
    statements = manifest["accuracy"]
    if [one["statistic"] for one in statements] != manifest["plan"]["statistics"]:
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    law = law_at("delta" in manifest.get("guarantee", {}))
    for statement in statements:
        yield from _check_statement(table, statement, law)
    if "mean_estimate" in table.column_names:
        yield from _check_estimates(table)


def _check_statement(table: pa.Table, statement: Json, law: NoiseLaw) -> Iterator[str]:
    name = statement["statistic"]
    if statement["grades"] != count_grades(table, name):
        yield f"cells.parquet does not have the grades of {name} that manifest.json counts."
    if not _is_close(statement["typical_error"], typical_error(table, name), TOLERANCE):
        yield f"the typical error of {name} is not that of the cells."
    has_posterior = f"{name}_estimate" in table.column_names
    if (statement["basis"] == "posterior") != has_posterior:
        yield f"the basis of the typical error of {name} is not that of the table."
        return
    between = statement["between_cells"]
    if not has_posterior and not _is_close(
        between, _moments(table, name, law), DEVIATION_TOLERANCE
    ):
        yield f"the deviation of {name} between cells is not that of its noisy numbers."
    # Earlier versions do not state it.
    if statement.get("beats_constant") not in (
        None,
        beats_constant(statement["typical_error"], between),
    ):
        yield f"accuracy/beats_constant of {name} is not that of its error and its deviation."
    if statement["graded_by"] == "map":
        yield from _check_grades(table, name, between)


def _moments(table: pa.Table, name: str, law: NoiseLaw) -> float | None:
    """Return the deviation between cells by moments; None where the table has no noisy numbers."""
    if f"{name}_noisy" not in table.column_names:
        return None
    columns = {
        key: _column(table, f"{name}_{key}") for key in ("noisy", "scale", "bias", "bound95")
    }
    return deviation_of(name, columns, None, law)


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
    interval = _column(table, f"{name}_low"), _column(table, f"{name}_high")
    is_noised = _column(table, f"{name}_scale") > 0
    expected = np.array(grade_against_map(interval, between, is_noised))
    # The interval of a cell that is cut off was widened after it was graded; a constant is noise,
    # and so is a cell with noise that alone is too wide, whatever its interval.
    judged = is_noised & (grades != CUT_OFF) & (grades != NOISE)
    if (grades != expected)[judged].any():
        yield f"{name}_quality is not that of its interval."


def _check_estimates(table: pa.Table) -> Iterator[str]:
    """Yield estimates outside their intervals, and errors that none can have."""
    estimate, low, high = (_column(table, f"mean_{key}") for key in ("estimate", "low", "high"))
    if ((estimate < low - TOLERANCE) | (estimate > high + TOLERANCE)).any():
        yield "mean_estimate is outside mean_low and mean_high."
    if (_column(table, "mean_expected_error") < 0).any():
        yield "mean_expected_error is negative."


def _is_close(stated: float | None, recomputed: float | None, tolerance: float) -> bool:
    if stated is None or recomputed is None:
        return stated is recomputed
    return math.isclose(stated, recomputed, rel_tol=tolerance, abs_tol=tolerance)


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
