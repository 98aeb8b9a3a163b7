"""Checks of a release of means and variances: its table, its numbers and statements, its losses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hexveil.base.work_share import FOLDER_CHECK, tell_share
from hexveil.publishing.verification import (
    accuracy_checks,
    loss_checks,
    recomputed_losses,
    square_checks,
    stated_facts,
)
from hexveil.publishing.verification.files import file_comparison
from hexveil.publishing.verification.release_statements import ReleaseStatements

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    Json = dict[str, Any]


def check_moment_table(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield the faults of columns and cells of the table; numbers come afterwards."""
    issues = [*file_comparison.check_columns(table, manifest)]
    yield from issues or file_comparison.check_places(table, manifest)


def check_moments(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers and statements that do not follow from each other."""
    stated = ReleaseStatements.from_release(manifest, table)
    yield from check_moment_numbers(table, stated)
    yield from stated_facts.check_counts(table, manifest)
    tell_share(FOLDER_CHECK, 0.8)
    yield from loss_checks.find_problems(stated, square_checks.check_squares)


def check_moment_numbers(table: pa.Table, stated: ReleaseStatements) -> Iterator[str]:
    """Yield numbers that do not follow from each other; also of a part of a release."""
    yield from file_comparison.check_numbers(table, stated)
    yield from file_comparison.check_cut_off(table, stated.manifest)
    yield from accuracy_checks.check_accuracy(table, stated.manifest)
    yield from stated_facts.check_plan_facts(table, stated.manifest)


def describe_moments(manifest: Json, table: pa.Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the figures that were recomputed and agree, and those that could not be, in words."""
    stated = ReleaseStatements.from_release(manifest, table)
    return (*_describe_recomputed(stated),), (*_describe_unknown(stated),)


def _describe_recomputed(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the figures that were recomputed and agree, in words."""
    if stated.delta:
        yield from square_checks.describe_squares(stated)
        return
    recomputed, losses = recomputed_losses.recompute_losses(stated), stated.manifest["losses"]
    unit = stated.manifest["guarantee"]["privacy_unit"]
    together = losses["units"] * losses["mean"]
    yield (
        f"sum of the losses of {losses['units']:,} {unit}s: {recomputed.total} by scales, biases "
        f"and bounds, {together:.6g} as stated"
    )
    yield (
        f"loss of the most exposed {unit}: {recomputed.largest} by scales, bounds and counts, "
        f"{losses['max']:.6g} as stated"
    )


def _describe_unknown(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the figures that could not be recomputed, in words."""
    unit = stated.manifest["guarantee"]["privacy_unit"]
    yield (
        f"the loss of each {unit}: the folder does not say who reported where, only how many, so "
        "the largest one is known within limits"
    )
    if stated.delta:
        yield "the exact sum of the squares of mu: they depend on who shares a cell with whom"
    else:
        total = recomputed_losses.recompute_losses(stated).total
        if not math.isclose(total.low, total.high, rel_tol=recomputed_losses.TOLERANCE):
            yield "the exact sum of the losses: variances or further steps leave limits"
    if not stated.has_no_range or stated.manifest["smoothing"]:
        yield "ends, grades, errors and counts that a model or a private interval leaves open"
