"""Checks of a release of means and variances: its table, its numbers and statements, its losses.

Figures that a manifest states twice, or that follow from others, have to agree: the epsilon that
was requested is that of the plan, and with the bounds it makes the noise floor; counts of users and
records add up to those stated, and records to what the rules left; the gap is that of the lower
bound.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hexveil.accounting.error_model import gaussian_noise_floor, noise_floor
from hexveil.accounting.gaussian_composition import calibrated_square
from hexveil.base.rational import decimal_text
from hexveil.base.work_share import FOLDER_CHECK, tell_share
from hexveil.publishing.estimates.released_columns import STATISTICS, TODAY
from hexveil.publishing.manifest import occupancy_section
from hexveil.publishing.promise_section import epsilon_text
from hexveil.publishing.verification import loss_checks
from hexveil.publishing.verification.moment_numbers import check_numbers
from hexveil.publishing.verification.recomputed_losses import ReleaseStatements
from hexveil.publishing.verification.table_checks import TOLERANCE, check_filled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Json = dict[str, Any]

KEPT = {"cells before selection", "cells left out by selection", "records left"}
"""Counts of rules that are of no records which were left out."""
EXCLUSIVE = (
    *("without ", "outside the ", "unparsable", "with an id that is no exact"),
    *("repeats of a user and time", "values that mean no reading"),
)
"""Beginnings of the names of counts of records that one rule each left out."""


def typed_columns(manifest: Json) -> dict[str, pa.DataType]:
    """Return the columns of a release of means and variances, with their types."""
    return types_of(("users", "records", *moment_columns(manifest)))


def types_of(names: Iterable[str]) -> dict[str, pa.DataType]:
    """Return the types of columns where occupancy is public."""
    return {
        name: pa.int64() if name in ("users", "records")
        else pa.string() if name.endswith("_quality") else pa.float64()
        for name in names
    }  # fmt: skip


def check_counted_cells(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns with gaps, and cells that are not those of the manifest, in its order."""
    yield from check_filled(table)
    # Order matters: the manifest lists scales and biases by position.
    if table["cell"].to_pylist() != [cell["cell"] for cell in manifest["cells"]]:
        yield "cells.parquet does not have the cells of manifest.json, in that order."


def moment_columns(manifest: Json) -> tuple[str, ...]:
    """Return the columns of means and variances that follow from the manifest, in order."""
    statistics = manifest["plan"]["statistics"]
    smoothed = {entry["statistic"] for entry in manifest["smoothing"]}
    has_posterior = any(entry["basis"] == "posterior" for entry in manifest["accuracy"])
    names: list[str] = []
    for statistic in statistics:
        keys = [*STATISTICS[statistic]]
        if statistic == "mean" and has_posterior:
            keys[keys.index("low") : keys.index("low")] = ["estimate", "expected_error"]
        if {"sd": "variance"}.get(statistic, statistic) in smoothed:
            keys.append("smoothed")
        names += [f"{statistic}_{key}" for key in keys]
        if statistic == "mean" and manifest.get("memory", {}).get("releases"):
            names += TODAY
    return tuple(names)


def check_moments(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers and statements that do not follow from each other."""
    stated = ReleaseStatements.from_release(manifest, table)
    yield from check_moment_numbers(table, stated)
    yield from check_counts(table, manifest)
    tell_share(FOLDER_CHECK, 0.8)
    yield from loss_checks.find_problems(stated)


def check_moment_numbers(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield numbers that do not follow from each other; also of a part of a release."""
    yield from check_numbers(table, stated)
    yield from _check_plan_facts(table, stated.manifest)


def describe_moments(manifest: Json, table: pa.Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the figures that were recomputed and agree, and those that could not be, in words."""
    stated = ReleaseStatements.from_release(manifest, table)
    return (*loss_checks.describe_losses(stated),), (*loss_checks.describe_unknown(stated),)


def check_counts(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if counts of users and records are not those stated, or those of the rules."""
    users, records = (table[name].to_numpy() for name in ("users", "records"))
    if manifest["occupancy"] != occupancy_section(users, records):
        yield "occupancy is not the sum of users and records over the cells."
    if (users < 1).any() or (records < users).any():
        yield "a cell has fewer records than users, or no users."
    rules = manifest["rules"]
    first_rule = next(iter(rules), None)
    if first_rule != "records read" or not rules.keys() >= KEPT:
        return
    if rules["records left"] != int(records.sum()):
        yield "rules/records left is not the sum of the records of the cells."
    left_out = {name: n for name, n in rules.items() if name not in KEPT and name != first_rule}
    n_exclusive = sum(n for name, n in left_out.items() if name.startswith(EXCLUSIVE))
    # Counts that this version does not know may be of records that were kept.
    upper_limit = rules[first_rule] - n_exclusive
    lower_limit = upper_limit - sum(left_out.values()) + n_exclusive
    if rules["cells left out by selection"]:
        lower_limit = 0
    if not lower_limit <= rules["records left"] <= upper_limit:
        yield "the counts of rules do not add up to the records read."
    n_cells = rules["cells before selection"] - rules["cells left out by selection"]
    if n_cells != table.num_rows:
        yield "the counts of cells in rules are not those of the table."


def _check_plan_facts(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield requests and figures of a plan of moments that do not follow from others."""
    yield from _check_requested(manifest)
    yield from _check_support(table, manifest)
    yield from _check_gap(manifest)


def _check_requested(manifest: Json) -> Iterator[str]:
    """Yield if the epsilon that was requested is not that of the plan's request."""
    guarantee, stated = manifest["guarantee"], manifest["plan"]["request"]["epsilon"]
    # Of targets, what they cost.
    requested = Fraction(guarantee["epsilon_spent"] if stated is None else stated)
    if guarantee["epsilon_requested"] not in (decimal_text(requested), epsilon_text(requested)):
        yield "guarantee/epsilon_requested is not that of the request."


def _check_support(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if the noise floor, or the number of useful cells, is not that of the cells."""
    plan, bounds, delta = manifest["plan"], manifest["bounds"], manifest["guarantee"].get("delta")
    epsilon = Fraction(manifest["guarantee"]["epsilon_requested"])
    width = float(Fraction(bounds["upper"]) - Fraction(bounds["lower"]))
    sizes = width, table.num_rows, manifest["losses"]["units"]
    floor = 0.0
    if delta:
        floor = gaussian_noise_floor(*sizes, float(calibrated_square(epsilon, Fraction(delta))))
    elif epsilon:
        floor = noise_floor(*sizes, float(epsilon))
    if not math.isclose(plan["noise_floor"], floor, rel_tol=TOLERANCE):
        yield "plan/noise_floor is not that of bounds, cells, units and epsilon."
    primary = next(
        (name for name in ("mean", "variance") if f"{name}_error" in table.column_names), None
    )
    if primary is not None:
        errors = table[f"{primary}_error"].to_numpy()
        if plan["cells_better_than_constant"] != int((errors < plan["baseline_error"]).sum()):
            yield "plan/cells_better_than_constant is not the number of such cells."


def _check_gap(manifest: Json) -> Iterator[str]:
    """Yield if the gap is not that of the lower bound."""
    plan = manifest["plan"]
    lower, gap = plan["lower_bound"], plan["gap"]
    if (lower is None) != (gap is None):
        yield "plan/gap and plan/lower_bound do not belong together."
        return
    key = {"mean error": "mean_error", "max error": "max_error"}.get(plan["certifies"] or "")
    value = plan[key] if key else manifest["losses"]["max"]
    if lower is None or isinstance(value, dict):
        return
    expected = (value - lower) / value if value else 0.0
    if not math.isclose(gap, expected, rel_tol=1e-6, abs_tol=TOLERANCE):
        yield "plan/gap is not that of plan/lower_bound."
