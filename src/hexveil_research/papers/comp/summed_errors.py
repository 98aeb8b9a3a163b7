"""The joint plan judged by COMP's sum of errors, of the mean and of the variance (eq. (12)).

A sum of value units and squared ones serves the comparison with COMP alone. With one target for it,
U e_mean + U² e_var <= E, each cell publishes a constant for one statistic where that leaves less
total rate, else both with noise in the proportion that makes the sum of rates least: scales as 1/√U
to 1/U. The search is that of the package (hexveil/planning/optimizers/user_factors.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hexveil.accounting.error_model import (
    MAX_CONSTANT_ERROR,
    has_single_record,
    mean_bias,
    variance_bias,
)
from hexveil.accounting.promise import Pure
from hexveil.base.arrays import Floats
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms import OptimalClipping
from hexveil.model.occupancy import Occupancy
from hexveil.planning.allocation import PlanAllocation, PlanningProblem
from hexveil.planning.optimizers.calibration import fit_noise
from hexveil.planning.optimizers.joint import SAFETY_MARGIN, bounded_rows, in_few_scales, in_quanta
from hexveil.planning.optimizers.user_factors import (
    ClippingProblem,
    Rates,
    RatesAt,
    minimize_loss,
    minimize_max_error,
)
from hexveil.planning.request import Request


@dataclass(frozen=True, eq=False)
class SumTarget:
    """One target for the sum of both errors.

    Attributes
    ----------
    error, span : ndarray of float, shape (n_cells,)
    square : ndarray of float, shape (n_cells,)
        U²; 0 where the variance is known, so that the mean has all of the target.
    """

    error: Floats
    span: Floats
    square: Floats

    def rates(self, remote: Floats) -> Rates | None:
        """Return the least rates that meet the targets; None if none do."""
        mean_only, variance_only, both = self._options(remote)
        # A constant for one statistic can leave the other so much room that both cost less.
        best = np.minimum(np.minimum(mean_only, variance_only), both)
        if not np.isfinite(best).all():
            return None
        first = both / (1.0 + np.sqrt(self.span))  # rates are as 1 to √U
        mean = np.where(best == mean_only, mean_only, np.where(best == variance_only, 0.0, first))
        variance = np.where(best == variance_only, variance_only, both - first)
        return np.stack((mean, np.where(best == mean_only, 0.0, variance)))

    def _options(self, remote: Floats) -> tuple[Floats, Floats, Floats]:
        """Return total rates: only the mean with noise, only the variance, and both."""
        span, square = self.span, self.square
        constants = span * MAX_CONSTANT_ERROR["mean"], square * MAX_CONSTANT_ERROR["variance"]
        mean, variance = span * mean_bias(remote), square * variance_bias(remote)
        options = (
            _least(span, self.error - constants[1] - mean),
            _least(square, self.error - constants[0] - variance),
            _least((np.sqrt(span) + span) ** 2, self.error - mean - variance),
        )
        is_met = self.error >= sum(constants)
        first, second, third = (np.where(is_met, 0.0, option) for option in options)
        return first, second, third


def _least(weight: Floats, room: Floats) -> Floats:
    return np.divide(weight, room, out=np.full_like(room, np.inf), where=room > 0)


def least_loss(occupancy: Occupancy, span: float, error: float) -> float:
    """Return the joint plan's loss where no cell's error is above `error`."""
    problem, target_at, largest = _setting(occupancy, span)
    # A target that constants meet stays as it is.
    aimed = error if error >= largest else error * SAFETY_MARGIN
    exposure, aim = ClippingProblem(occupancy), target_at(aimed)
    search = minimize_loss(exposure, aim, target_at(error))
    joint = in_quanta(exposure, aim, search.solution.factor)
    return float(bounded_rows(occupancy, joint, rounding=np.floor).most_booked(problem))


def least_error(occupancy: Occupancy, span: float, loss: float) -> float:
    """Return the joint plan's largest error over cells within a loss."""
    problem, target_at, largest = _setting(occupancy, span)
    promise, exposure = Pure(to_positive_fraction(loss, "loss")), ClippingProblem(occupancy)
    search = minimize_max_error(exposure, target_at, loss * SAFETY_MARGIN, largest)
    joint = in_few_scales(exposure, search.solution, loss * SAFETY_MARGIN)
    rows = fit_noise(problem, promise, bounded_rows(occupancy, joint))
    return float(summed_errors(problem, rows).max())


def summed_errors(problem: PlanningProblem, rows: PlanAllocation) -> Floats:
    """Return the sum of both errors of each cell."""
    models = rows.error_models(problem)
    return np.asarray(models["mean"].error + models["variance"].error)


def _setting(
    occupancy: Occupancy, span: float
) -> tuple[PlanningProblem, Callable[[float], RatesAt], float]:
    """Return the planning problem, rates by the target of every cell, and what constants miss."""
    request = Request("joint", OptimalClipping(), ("mean", "variance"))
    spans = np.full(occupancy.n_cells, span)
    square = np.where(has_single_record(occupancy), 0.0, spans**2)
    missed = MAX_CONSTANT_ERROR["mean"] * spans + MAX_CONSTANT_ERROR["variance"] * square

    def target_at(error: float) -> RatesAt:
        return SumTarget(np.full(spans.size, error), spans, square).rates

    return PlanningProblem(occupancy, spans, request), target_at, float(missed.max())
