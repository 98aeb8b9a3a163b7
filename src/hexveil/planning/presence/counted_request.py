"""Request for numbers of units beside averages or distributions: one loss, divided by prediction.

Shares are those of the least weighted sum of errors (accounting/promise.py), by the predicted error
of each part at the whole ε and its weight. Errors are parts of what they are compared with: of
averages and medians the error of one constant for all cells, of numbers of units the typical number
in a cell.

Predictions at the divided ε are not compared: they have floors of bias, where maps of the tuning
sets still gain by about the root of ε, so that half of ε would seem to cost a map nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from hexveil.accounting.promise import promised
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.mechanisms.distribution.shape_statistics import MEAN
from hexveil.mechanisms.presence.count_map import CountedAllocation
from hexveil.planning.presence.presence_prediction import (
    PresencePrediction,
    UnitCountPrediction,
    predict_counts,
    predict_map,
)
from hexveil.planning.presence.presence_request import (
    FleetDeclaration,
    PresenceRequest,
    UnitCountRequest,
)
from hexveil.planning.presence.shape_prediction import (
    ShapePrediction,
    predict_request,
    predict_shapes,
)
from hexveil.planning.presence.shape_request import ShapeRequest

if TYPE_CHECKING:
    from hexveil.base.rational import Number
    from hexveil.mechanisms.presence.presence_design import UserCap
    from hexveil.model.declared_grid import DeclaredGrid
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.presence.presence_prediction import Prediction

USERS = "users"
"""Numbers of units."""
KINDS = ("moments", "distribution", USERS)
"""Kinds of statistics that have a weight in the division of ε."""


@dataclass(frozen=True)
class CountedPrediction:
    """Expected accuracy of a map, and of the numbers of units beside it.

    Attributes
    ----------
    statistics : PresencePrediction or ShapePrediction
    counts : UnitCountPrediction
    """

    statistics: PresencePrediction | ShapePrediction
    counts: UnitCountPrediction

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None for a useful one."""
        return self.statistics.refusal or self.counts.refusal


@dataclass(frozen=True, eq=False)
class CountedRequest:
    """Request for a map and the number of units in each of its cells.

    Attributes
    ----------
    statistics : PresenceRequest or ShapeRequest
        At its own part of ε.
    counts : UnitCountRequest
        At the other part.
    epsilon : Fraction
        Loss of any unit, present or not, by both parts: their sum; under a δ one at which their
        squares of μ together keep the promise.
    weights : mapping of str to Fraction
        Importance of each of `KINDS`.
    """

    statistics: PresenceRequest | ShapeRequest
    counts: UnitCountRequest
    epsilon: Fraction
    weights: Mapping[str, Fraction]

    @classmethod
    def divided(
        cls,
        whole: PresenceRequest | ShapeRequest,
        weights: Mapping[str, Fraction],
        baseline_error: Number | None = None,
    ) -> CountedRequest:
        """Return the division of a request's loss between its map and numbers of units.

        Parameters
        ----------
        whole : PresenceRequest or ShapeRequest
            With the ε of both.
        weights : mapping of str to Fraction
            Of each of `KINDS`; those of a map add up.
        baseline_error : number, optional
            Error of one constant for all cells, in value units.
        """
        counts = UnitCountRequest(whole.grid, whole.fleet, whole.epsilon, whole.delta)
        errors = relative_errors(
            CountedPrediction(predict_statistics(whole, baseline_error), predict_counts(counts))
        )
        of_map = sum((weights[kind] for kind in _kinds(whole)), Fraction(0))
        promise = promised(whole.epsilon, whole.delta)
        parts = promise.epsilons(promise.divide((of_map, weights[USERS]), errors))
        return cls(
            replace(whole, epsilon=parts[0]),
            replace(counts, epsilon=parts[1]),
            whole.epsilon,
            weights,
        )

    def with_delta(self, delta: Fraction, baseline_error: Number | None = None) -> CountedRequest:
        """Return the same request under a δ, divided anew."""
        whole = replace(self.statistics, epsilon=self.epsilon, delta=delta)
        return self.divided(whole, self.weights, baseline_error)

    @property
    def grid(self) -> DeclaredGrid:
        """The declared cells."""
        return self.statistics.grid

    @property
    def lattice(self) -> ValueLattice:
        """Bounds and quantum of the values."""
        return self.statistics.lattice

    @property
    def fleet(self) -> FleetDeclaration:
        """The declared fleet."""
        return self.statistics.fleet

    @property
    def delta(self) -> Fraction:
        """δ of the promise, 0 of a pure one."""
        return self.statistics.delta

    @property
    def count_share(self) -> float:
        """Share of the loss that numbers of units take: of ε, or of the square of μ."""
        plan = self.allocation()
        return float(plan.counts.promise.amount / plan.promise.amount)

    @property
    def cap(self) -> UserCap | None:
        """The cap asked for, on units of the map."""
        return self.statistics.cap

    @property
    def user_cap(self) -> UserCap:
        """The cap in use, on units of the map."""
        return self.statistics.user_cap

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the statistics, numbers of units last."""
        request = self.statistics
        return (*(request.names if isinstance(request, ShapeRequest) else (MEAN,)), USERS)

    def allocation(self) -> CountedAllocation:
        """Return the plan: the count map, then the stages of the map."""
        # Which cells are open is decided once, by the map.
        counts = replace(self.counts.allocation(), false_openings=None)
        return CountedAllocation(counts, self.statistics.allocation())


def predict_statistics(
    request: PresenceRequest | ShapeRequest, baseline_error: Number | None = None
) -> PresencePrediction | ShapePrediction:
    """Return the expected accuracy of a requested map."""
    if isinstance(request, ShapeRequest):
        return predict_shapes(request, baseline_error)
    return predict_map(request, baseline_error)


def predict_accuracy(
    request: AnyRequest, baseline_error: Number | None = None
) -> Prediction | ShapePrediction | CountedPrediction:
    """Return the expected accuracy of any request, on paper: of both parts where there are two."""
    if not isinstance(request, CountedRequest):
        return predict_request(request, baseline_error)
    of_map = predict_statistics(request.statistics, baseline_error)
    return CountedPrediction(of_map, predict_counts(request.counts))


AnyRequest: TypeAlias = PresenceRequest | UnitCountRequest | ShapeRequest | CountedRequest


def weights_of(weights: Mapping[str, Number] | None, names: tuple[str, ...]) -> dict[str, Fraction]:
    """Return the weight of each kind of statistics, 1 by default.

    Raises
    ------
    InputError
        If weights name another kind, or numbers of units are not among several statistics.

    Examples
    --------
    >>> {k: str(w) for k, w in weights_of({"users": 2}, ("p50", "users")).items()}
    {'moments': '1', 'distribution': '1', 'users': '2'}
    """
    if weights is not None and (not isinstance(weights, Mapping) or set(weights) - set(KINDS)):
        raise InputError(
            f'weights must be a mapping like {{"distribution": 1, "users": 2}}, got {weights!r}.'
        )
    if weights and not (USERS in names and len(names) > 1):
        raise InputError(
            'weights go with "users" beside other statistics under private presence: the others '
            "come from one map at one loss; leave weights out."
        )
    return {kind: to_positive_fraction((weights or {}).get(kind, 1), "weights") for kind in KINDS}


def _kinds(request: PresenceRequest | ShapeRequest) -> tuple[str, ...]:
    if not isinstance(request, ShapeRequest):
        return ("moments",)
    return ("moments", "distribution") if request.has_mean else ("distribution",)


def relative_errors(prediction: CountedPrediction) -> tuple[float, float]:
    """Return the predicted errors of map and counts, in parts of their baseline errors."""
    return relative_map_error(prediction.statistics), relative_count_error(prediction.counts)


def relative_map_error(of_map: PresencePrediction | ShapePrediction) -> float:
    """Return the predicted error of averages or medians, as a part of that of one constant.

    Closed cells of a map are off by the error of one constant.
    """
    map_error = of_map.quantile_error if isinstance(of_map, ShapePrediction) else of_map.mean_error
    closed = 1.0 - of_map.open_traffic
    return of_map.open_traffic * map_error / of_map.baseline_error + closed


def relative_count_error(counts: UnitCountPrediction) -> float:
    """Return the predicted error of numbers of units, as a part of the typical one."""
    return counts.count_error / counts.typical_count
