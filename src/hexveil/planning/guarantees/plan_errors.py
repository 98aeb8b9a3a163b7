"""Errors of an allocation: functions of public facts that solvers and plans ask.

Formulas: accounting/error_model.py. A plan states exactly these numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.contributions import contributes_wholly, lost_shares
from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    CellMechanismErrorModel,
    ErrorModel,
    RenormalisedErrorModel,
    WeightedMeanErrorModel,
    constant_error,
)
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.errors import InputError
from hexveil.planning.allocation import (
    CellMechanisms,
    PerCellRange,
    PrivateRange,
    WithinBounds,
)
from hexveil.planning.clipping_range import cell_ranges
from hexveil.planning.clipping_range.variance_range import variance_error_model
from hexveil.planning.guarantees.planning_problem import (
    PlanningProblem,
    clipped_share,
    divisors,
    map_contributions,
    mean_noise,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.allocation import PlanAllocation
    from hexveil.planning.request import Request


def error_models(problem: PlanningProblem, allocation: PlanAllocation) -> dict[str, ErrorModel]:
    """Return the error model of each noised statistic, by its name."""
    if allocation.normaliser == "contributions":
        return {
            name: _renormalised_error_model(problem, allocation, name)
            for name in problem.request.noised
        }
    models = {"mean": _mean_error_model, "variance": _variance_error_model}
    return {name: models[name](problem, allocation) for name in problem.request.noised}


def _renormalised_error_model(
    problem: PlanningProblem, allocation: PlanAllocation, statistic: str
) -> ErrorModel:
    occupancy, span = problem.occupancy, problem.span
    total, records = divisors(problem, allocation), occupancy.records_per_cell
    moved = map_contributions(problem, allocation, lost_shares, (records, total))
    unit, noise, max_bias = span, mean_noise(problem, allocation), moved
    if statistic == "variance":
        unit, noise = span**2, allocation.variance_noise
        max_bias = np.where(
            map_contributions(problem, allocation, contributes_wholly),
            variance_share(records - total, records),
            variance_sensitivity_bound(moved),
        )
    nothing = np.zeros(occupancy.n_cells)
    return RenormalisedErrorModel(statistic, unit, noise, nothing, nothing, max_bias=max_bias)


def _mean_error_model(problem: PlanningProblem, allocation: PlanAllocation) -> ErrorModel:
    occupancy, span, noise = problem.occupancy, problem.span, mean_noise(problem, allocation)
    constant = constant_error("mean", occupancy)
    match allocation.clipping:
        case WithinBounds():
            share = clipped_share(problem, allocation, "mean")
            return ErrorModel("mean", span, noise, share, constant, law=problem.request.law)
        case PrivateRange(range=clipping_range):
            return WeightedMeanErrorModel(
                "mean",
                span * clipping_range.width,
                noise,
                np.zeros_like(noise),
                constant,
                max_bias=clipping_range.max_bias(),
                expected_bias=clipping_range.expected_bias(),
                law=problem.request.law,
            )
        case PerCellRange(plan=plan):
            return cell_ranges.mean_error_model(span, plan, noise, problem.request.law)
        case CellMechanisms() as clipping:
            return _cells_error_model(span, occupancy, clipping)


def _variance_error_model(problem: PlanningProblem, allocation: PlanAllocation) -> ErrorModel:
    occupancy, span, noise = problem.occupancy, problem.span, allocation.variance_noise
    match allocation.clipping:
        case WithinBounds():
            share = clipped_share(problem, allocation, "variance")
            constant = constant_error("variance", occupancy)
            law = problem.request.law
            return ErrorModel("variance", span**2, noise, share, constant, law=law)
        case PrivateRange(range=clipping_range):
            noises = mean_noise(problem, allocation), noise
            return variance_error_model(
                clipping_range, occupancy, span, noises, problem.request.law
            )
        case PerCellRange():
            raise InputError('clipping_range "per-cell" publishes the mean alone.')
        case CellMechanisms():
            raise no_variances()


def _cells_error_model(
    span: Floats, occupancy: Occupancy, clipping: CellMechanisms
) -> CellMechanismErrorModel:
    """Return the error model of the cells' means."""
    figures = clipping.cells.figures
    return CellMechanismErrorModel(
        "mean",
        span,
        figures.scale,
        np.zeros(figures.scale.size),
        constant_error("mean", occupancy),
        reads_values=figures.n_stages > 0,
        proven=figures.proven,
        max_bias=figures.bias,
        predicted_error=clipping.predicted_error,
        error_bound95=figures.bound95,
    )


def no_variances() -> InputError:
    """Return the refusal of variances."""
    return InputError(
        "mechanisms with stages of their own publish the mean alone; for variances take "
        'method "joint", or the mechanism OptimalClipping() or Baseline().'
    )


def objective_errors(request: Request, span: Floats, models: Mapping[str, ErrorModel]) -> Floats:
    """Return the error of each cell that the objective is about.

    The planning error of the one statistic; the sum of both where requested; else the largest (for
    objective "mean" the average) of both as shares of the error of a constant.
    """
    if len(models) == 1 or request.error == "sum":
        return np.asarray(np.sum([m.error for m in models.values()], axis=0), dtype=np.float64)
    unit = {"mean": span, "variance": span**2}
    shares = np.stack([m.error / (unit[n] * MAX_CONSTANT_ERROR[n]) for n, m in models.items()])
    over = shares.max if request.objective == "max" else shares.mean
    return np.asarray(over(axis=0), dtype=np.float64)
