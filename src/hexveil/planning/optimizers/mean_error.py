"""Joint plan of least average error at a given loss.

Class and symbols: planning/optimizers/minimax.py, docs/understand/plan-class.md. With the factors
at their largest within the loss, the average error is a smooth function of the logarithms of the
rates; it is minimised by L-BFGS, cells that would do better as constants are made so, and it is
minimised again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WORST_CASE_BIAS, has_single_record
from hexveil.base.work_share import SEARCH, parts_of_work
from hexveil.planning.optimizers.bounded_descent import StopRule, descend
from hexveil.planning.optimizers.minimax import JointSolution
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.request import Request


CONSTANT_ROUNDS = 6
"""How often cells that are better constants are looked for."""
LOG_SCALE_RANGE = 30.0
"""How far the logarithms of the rates may go from where they began: numbers stay ordinary."""


@dataclass(frozen=True, eq=False)
class ObjectiveWeights:
    """Weight of an error of 1, for bounds of width 1, in the average.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
        Zero for a statistic that is not asked for, and for the variance of one record, which is 0.
    """

    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, request: Request, span: Floats, occupancy: Occupancy) -> ObjectiveWeights:
        """Return weights that make the sum of errors the average of `Plan.objective_errors`."""
        names, cells, varies = request.noised, float(span.size), ~has_single_record(occupancy)
        if len(names) == 2 and request.error != "sum":
            flat = np.ones(span.size) / (2.0 * cells)
            return cls(
                flat / MAX_CONSTANT_ERROR["mean"],
                np.where(varies, flat / MAX_CONSTANT_ERROR["variance"], 0.0),
            )
        zero = np.zeros(span.size)
        return cls(
            span / cells if "mean" in names else zero,
            np.where(varies, span**2 / cells, 0.0) if "variance" in names else zero,
        )

    def constant_error(self) -> float:
        """Return the average error of constants alone."""
        return float(
            (
                self.mean * MAX_CONSTANT_ERROR["mean"]
                + self.variance * MAX_CONSTANT_ERROR["variance"]
            ).sum()
        )


@dataclass(frozen=True)
class SearchLimits:
    """Limits of one descent.

    Near the minimum a line search compares errors that differ only by rounding, so the number of
    evaluations depends on the processor. Where an evaluation is dear, limit evaluations as well as
    iterations.

    Attributes
    ----------
    iterations : int
    evaluations : int
        Evaluations of the error and its slope after which no iteration begins.
    trials : int
        Evaluations of one line search.
    """

    iterations: int = 300
    evaluations: int = 15_000
    trials: int = 20

    def stop_rule(self) -> StopRule:
        """Return the end of a descent within these limits."""
        return StopRule(self.iterations, self.evaluations, self.trials)


FULL_SEARCH = SearchLimits()
"""Limits of a descent with all pairs at hand."""


def minimize_mean_error(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    effort: SearchLimits = FULL_SEARCH,
    begin: InverseScales | None = None,
) -> JointSolution:
    """Minimize the weighted sum of errors within a loss.

    Less effort is good enough for a prediction, and from rates to begin with that are those of a
    like occupancy; the constants of these are kept.
    """
    # Cells that are constants at the beginning stay so: deciding anew would cost all descents.
    if begin is not None:
        live = [begin.mean > 0, begin.variance > 0]
        # Between constants alone there is nothing to descend.
        if any(m.any() for m in live):
            begin = _descend(exposure, weights, loss, live, begin, effort)[1]
        return JointSolution(begin, exposure.largest_factors(begin, loss))
    target = [weights.mean > 0, weights.variance > 0]
    nothing = [np.zeros(m.size) for m in target]
    best: tuple[float, InverseScales] = (weights.constant_error(), InverseScales(*nothing))
    nobody = np.ones(exposure.occupancy.n_users)
    if not best[0]:  # constants miss nothing
        return JointSolution(best[1], nobody)
    begins = [target]
    if all(m.any() for m in target):  # with constants for one of them, both ways round
        begins += [[target[0], nothing[1] > 0], [nothing[0] > 0, target[1]]]
    for live in parts_of_work(SEARCH, begins):
        # In logarithms no rate reaches 0, so that constants for one statistic are own starts.
        result = _descents(exposure, weights, loss, live, effort)
        best = min(best, result, key=lambda one: one[0])
    _, rates = best
    return JointSolution(
        rates, exposure.largest_factors(rates, loss) if rates.total.any() else nobody
    )


def _descents(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    live: list[NDArray[np.bool_]],
    effort: SearchLimits,
) -> tuple[float, InverseScales]:
    """Return the least error found, making cells constants that would do better so."""
    start = _start(exposure, weights, loss)
    best: tuple[float, InverseScales] | None = None
    for _ in parts_of_work(SEARCH, range(CONSTANT_ROUNDS)):
        results = _descend(exposure, weights, loss, live, start, effort)
        best = results if best is None else min(best, results, key=lambda one: one[0])
        worse = _worse(exposure, results[1], loss, live)
        live = [m & ~w for m, w in zip(live, worse, strict=True)]
        if not any(w.any() for w in worse) or not any(m.any() for m in live):
            break
        start = results[1]
    assert best is not None  # noqa: S101  there is a round
    return best


def _start(exposure: ClippingProblem, weights: ObjectiveWeights, loss: float) -> InverseScales:
    """Return rates at which a typical user's loss is the one allowed."""
    size = exposure.occupancy.n_cells
    ones = InverseScales(*((w > 0).astype(np.float64) for w in (weights.mean, weights.variance)))
    # Most users are then not clipped, and a descent moves freely from there.
    linear = exposure.losses(ones, np.ones(exposure.occupancy.n_users))
    rate = np.full(size, loss / float(np.quantile(linear, 0.9)))
    return InverseScales(rate * ones.mean, rate * ones.variance)


def _descend(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    loss: float,
    live: list[NDArray[np.bool_]],
    start: InverseScales,
    effort: SearchLimits,
) -> tuple[float, InverseScales]:
    active, n_cells = np.concatenate(live), live[0].size
    first = np.concatenate((start.mean, start.variance))[active]

    def unpack(logs: Floats) -> InverseScales:
        full = np.zeros(active.size)
        full[active] = np.exp(logs)
        return InverseScales(full[:n_cells], full[n_cells:])

    def value(logs: Floats) -> tuple[float, Floats]:
        error, slope = _value(exposure, weights, loss, unpack(logs))
        return error, slope[active] * np.exp(logs)

    # Logarithms keep rates positive, and their slopes of one size over many orders.
    begin = np.log(np.maximum(first, 1e-12))
    found, error = descend(value, begin, LOG_SCALE_RANGE, effort.stop_rule())
    return error, unpack(found)


def _value(
    exposure: ClippingProblem, weights: ObjectiveWeights, loss: float, rates: InverseScales
) -> tuple[float, Floats]:
    """Return the weighed error of these rates and its slope in them."""
    factor = exposure.largest_factors(rates, loss)
    clipped_share = exposure.clipped_share(factor)
    error = weighted_errors(weights, rates, clipped_share).sum()
    multiplier = loss_multipliers(exposure, weights, rates, factor, factor < 1.0)
    # Users who are not clipped have a multiplier of 0: more noise for them changes no bias.
    slope = [
        pushed - np.divide(w, r**2, out=np.zeros_like(r), where=r > 0)
        for w, r, pushed in zip(
            (weights.mean, weights.variance),
            (rates.mean, rates.variance),
            # Without noise for variances nothing goes down their slope.
            exposure.marginal_sums(multiplier, factor, spread=bool(rates.variance.any())),
            strict=True,
        )
    ]
    return float(error), np.concatenate(slope)


def weighted_errors(weights: ObjectiveWeights, rates: InverseScales, away: Floats) -> Floats:
    """Return the weighed error of each cell."""
    total = np.zeros(away.size)
    for name, w, r in (
        ("mean", weights.mean, rates.mean),
        ("variance", weights.variance, rates.variance),
    ):
        if not w.any():
            continue
        noise = np.divide(1.0, r, out=np.zeros_like(r), where=r > 0)
        total += w * np.where(r > 0, WORST_CASE_BIAS[name](away) + noise, MAX_CONSTANT_ERROR[name])
    return total


def loss_multipliers(
    exposure: ClippingProblem,
    weights: ObjectiveWeights,
    rates: InverseScales,
    factor: Floats,
    held: NDArray[np.bool_],
) -> Floats:
    """Return how much the weighed error falls per loss that a user who is held is allowed more."""
    steep = np.where(rates.mean > 0, weights.mean / 2.0, 0.0)
    if rates.variance.any():
        remaining = np.maximum(1.0 - 2.0 * exposure.clipped_share(factor), 0.0)
        # The bias of a variance bends: its slope falls with what is clipped already.
        steep += np.where(rates.variance > 0, weights.variance * remaining / 2.0, 0.0)
    gain = exposure.sum_per_user(steep)
    cost = exposure.loss_slope(rates, factor)
    return np.divide(gain, cost, out=np.zeros_like(gain), where=held & (cost > 0))


def _worse(
    exposure: ClippingProblem, rates: InverseScales, loss: float, live: list[NDArray[np.bool_]]
) -> list[NDArray[np.bool_]]:
    """Return the statistics of cells with a larger error than a constant."""
    clipped_share = exposure.clipped_share(exposure.largest_factors(rates, loss))
    is_worse = []
    for name, r, on in (("mean", rates.mean, live[0]), ("variance", rates.variance, live[1])):
        noise = np.divide(1.0, r, out=np.full_like(r, np.inf), where=r > 0)
        is_worse.append(
            on & (WORST_CASE_BIAS[name](clipped_share) + noise >= MAX_CONSTANT_ERROR[name])
        )
    return is_worse
