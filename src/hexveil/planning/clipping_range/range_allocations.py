"""Rows of plans under private ranges: weights and noise, fitted to the promise that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.planning.allocation import PerCellRange, PlanAllocation, PrivateRange, full_factors
from hexveil.planning.calibration import fit_noise
from hexveil.planning.clipping_range.cell_ranges import plan_cell_ranges
from hexveil.planning.clipping_range.fast_prediction import RangeSearch
from hexveil.planning.clipping_range.variance_range import plan_variance_range

if TYPE_CHECKING:
    from hexveil.accounting.promise import Promise
    from hexveil.base.arrays import Floats
    from hexveil.planning.guarantees.planning_problem import PlanningProblem


def allocate_with_range(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return weights and noise under one range, for means, or for variances too."""
    request = problem.request
    assert request.epsilon is not None  # noqa: S101  targets are met at an epsilon that is tried
    search = RangeSearch(problem.occupancy, promise, request.epsilon, request.range_share)
    if "variance" in request.noised:
        both = plan_variance_range(search, request)
        return _fitted(problem, promise, PrivateRange(both.interval), both.mean, both.variance)
    best, rough = search.rough()
    interval, weights = search.interval(best, begin=rough.rates)
    return _fitted(problem, promise, PrivateRange(interval), weights.noise)


def allocate_cell_ranges(problem: PlanningProblem, promise: Promise) -> PlanAllocation:
    """Return weights and noise of cells with ranges of their own."""
    request = problem.request
    assert request.epsilon is not None  # noqa: S101  as above
    plan, noise = plan_cell_ranges(problem.occupancy, promise, request.epsilon, request.range_share)
    return _fitted(problem, promise, PerCellRange(plan), noise)


def _fitted(
    problem: PlanningProblem,
    promise: Promise,
    clipping: PrivateRange | PerCellRange,
    mean: Floats,
    variance: Floats | None = None,
) -> PlanAllocation:
    """Return rows with noise of means for a range of width 1, and of squares for a radius of 1."""
    occupancy = problem.occupancy
    largest = occupancy.largest_count
    squares = np.zeros(occupancy.n_cells) if variance is None else variance
    rows = PlanAllocation(
        mechanism="weights",
        contribution_cap=largest,
        noise_scale_records=mean * occupancy.records_per_cell,
        variance_cap=np.where(squares > 0, largest, 0),
        variance_noise=squares,
        contribution_factor=full_factors(occupancy),
        clipping=clipping,
    )
    return fit_noise(problem, promise, rows)
