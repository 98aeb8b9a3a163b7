"""Accuracy of a release as its manifest states it: typical error, differences, grades.

The typical error of a statistic is the mean over cells of its expected absolute error. Where the
release has a posterior, that error is estimated from the noisy numbers; elsewhere it is the
planning error, which is known before anything is drawn. How much the cells differ is estimated from
the noisy numbers (publishing/estimates/quality_grades.py): an error says something only beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.publishing.estimates.quality_grades import beats_constant
from hexveil.publishing.estimates.table import deviation_of
from hexveil.report.accuracy_text import GRADES, describe_assumption, describe_memory

if TYPE_CHECKING:
    from pyarrow import Table

    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates


def accuracy_statement(
    plan: MomentComponent, table: Table, posterior: PosteriorEstimates | None
) -> list[dict[str, Any]]:
    """Return the manifest's statement on accuracy, an entry for each published statistic.

    Parameters
    ----------
    plan : MomentComponent
    table : pyarrow.Table
        The released table.
    posterior : PosteriorEstimates or None
        Of the mean.
    """
    return [_statement(plan, table, name, posterior) for name in plan.statistics]


def _statement(
    plan: MomentComponent, table: Table, name: str, posterior: PosteriorEstimates | None
) -> dict[str, Any]:
    modelled = posterior if name == "mean" else None
    basis = plan.allocation.clipping.basis if modelled is None else "posterior"
    between = between_cells(table, name, modelled, plan.request.law)
    # A root is graded as its square, which may be compared with the map though it is not published.
    by_map = bool(plan.allocation.clipping.strategy) and (
        between is not None or (name == "sd" and plan.occupancy.n_cells > 1)
    )
    error = typical_error(table, name)
    return {
        "statistic": name,
        "typical_error": error,
        "basis": basis,
        "between_cells": between,
        "beats_constant": beats_constant(error, between),
        "graded_by": "map" if by_map else "bounds",
        "grades": count_grades(table, name),
        "assumption": describe_assumption(basis),
    }


def with_memory(statement: dict[str, Any]) -> dict[str, Any]:
    """Return the statement of a release that remembers earlier ones; only means do."""
    if statement["statistic"] != "mean":
        return statement
    return statement | {"assumption": f"{statement['assumption']} {describe_memory()}"}


def typical_error(table: Table, name: str) -> float | None:
    """Return the mean over cells of a statistic's expected absolute error; None for a root."""
    for key in (f"{name}_expected_error", f"{name}_error"):
        if key in table.column_names:
            errors = _column(table, key)
            return float(np.sum(errors) / errors.size)
    return None


def count_grades(table: Table, name: str) -> dict[str, int]:
    """Return how many cells of a statistic have each grade."""
    grades = table[f"{name}_quality"].to_pylist()
    return {key: grades.count(grade) for key, grade in GRADES.items()}


def between_cells(
    table: Table, name: str, posterior: PosteriorEstimates | None, law: NoiseLaw
) -> float | None:
    """Return the deviation between cells; None where the table has no noisy numbers."""
    if f"{name}_noisy" not in table.column_names:
        return None
    keys = ("noisy", "scale", "bias", "bound95")
    columns = {key: _column(table, f"{name}_{key}") for key in keys}
    return deviation_of(name, columns, posterior, law)


def _column(table: Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
