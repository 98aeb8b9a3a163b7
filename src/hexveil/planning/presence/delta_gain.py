"""Gain by a δ: the predictions of a pure plan and of the same plan with Gaussian noise.

Public, from declarations alone. A plan never takes a δ by itself: it is another promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.planning.presence.counted_request import (
    CountedPrediction,
    CountedRequest,
    predict_accuracy,
)
from hexveil.planning.presence.presence_prediction import Prediction, UnitCountPrediction
from hexveil.planning.presence.shape_prediction import ShapePrediction
from hexveil.planning.request import WORTHWHILE, usual_delta

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.base.rational import Number
    from hexveil.planning.presence.counted_request import AnyRequest


@dataclass(frozen=True)
class DeltaGain:
    """Predicted errors of a pure plan, and of the same plan with a δ.

    Attributes
    ----------
    delta : Fraction
    pure_error, error : float
        Of averages or medians over all traffic, in value units; or of numbers of units.
    cells_per_unit : int
        Declared; what a δ gains follows from it.
    counts : pair of float or None
        Pure error, and error with a δ, of numbers of units beside averages or medians.
    """

    delta: Fraction
    pure_error: float
    error: float
    cells_per_unit: int
    counts: tuple[float, float] | None = None

    @property
    def is_worthwhile(self) -> bool:
        """Whether the error falls by more than a twentieth."""
        return self.error < WORTHWHILE * self.pure_error

    @property
    def sentence(self) -> str:
        """The gain by a δ in one sentence, after a label that names δ."""
        delta, pure = decimal_text(self.delta), f"{self.pure_error:.2g}"
        beside = ""
        if self.counts is not None:
            beside = " (numbers of units: {1:.2g} instead of {0:.2g})".format(*self.counts)
        if not self.is_worthwhile:
            return (
                f"none would gain much: {self.error:.2g} expected at {delta}, {pure} "
                f"without{beside}."
            )
        return (
            f"at {delta} an error of {self.error:.2g} instead of {pure}{beside} is expected if a "
            f"unit is in {self.cells_per_unit} cells alike, for a weaker promise; it is taken only "
            "if you set delta."
        )


def gain_of_delta(
    request: AnyRequest,
    prediction: Prediction | ShapePrediction | CountedPrediction,
    baseline_error: Number | None = None,
) -> DeltaGain | None:
    """Return the gain of a request by a δ; None where it has one, or none is possible.

    Parameters
    ----------
    request : PresenceRequest, UnitCountRequest, ShapeRequest or CountedRequest
    prediction : PresencePrediction, UnitCountPrediction, ShapePrediction or CountedPrediction
        Of the request.
    baseline_error : number, optional
        Declared with it.
    """
    if request.delta:
        return None
    delta = usual_delta(request.fleet.units)
    try:
        if isinstance(request, CountedRequest):
            changed: AnyRequest = request.with_delta(delta, baseline_error)
        else:
            changed = replace(request, delta=delta)
        by_delta = predict_accuracy(changed, baseline_error)
    except InputError:
        return None  # so small an epsilon leaves nothing to measure with
    cells, counts = request.fleet.cells_per_unit, None
    if isinstance(prediction, CountedPrediction) and isinstance(by_delta, CountedPrediction):
        counts = prediction.counts.count_error, by_delta.counts.count_error
        prediction, by_delta = prediction.statistics, by_delta.statistics
    assert not isinstance(prediction, CountedPrediction)  # noqa: S101  both are of one request
    assert not isinstance(by_delta, CountedPrediction)  # noqa: S101
    return DeltaGain(delta, _error(prediction), _error(by_delta), cells, counts)


def _error(prediction: Prediction | ShapePrediction) -> float:
    """Return the predicted error over all traffic; closed cells are off by the baseline error.

    The error in open cells alone would blame a δ for opening cells of little weight.
    """
    if isinstance(prediction, UnitCountPrediction):
        return prediction.count_error
    is_open = prediction.open_traffic
    if isinstance(prediction, ShapePrediction):
        error = prediction.quantile_error
    else:
        error = prediction.mean_error
    return is_open * error + (1.0 - is_open) * prediction.baseline_error
