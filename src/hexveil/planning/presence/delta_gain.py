"""What a δ would gain: the predictions of a pure plan and of the same plan with Gaussian noise.

Public, from declarations alone. A plan never takes a δ by itself: it is another promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.planning.presence.presence_prediction import PresencePrediction

if TYPE_CHECKING:
    from hexveil.planning.presence.presence_plan import PresencePlan

USUAL_DELTA = Fraction("1e-6")
UNITS_REVEALED = Fraction(1, 10)
"""Largest δ times units of a δ that is suggested."""
WORTHWHILE = 0.95
"""Ratio of predicted errors below which a δ is suggested."""


@dataclass(frozen=True)
class DeltaGain:
    """Predicted errors of a pure plan, and of the same plan with a δ.

    Attributes
    ----------
    delta : Fraction
    pure_error, error : float
        Of averages, in value units; or of numbers of units.
    """

    delta: Fraction
    pure_error: float
    error: float

    @property
    def is_worthwhile(self) -> bool:
        """Whether the error falls by more than a twentieth."""
        return self.error < WORTHWHILE * self.pure_error

    @property
    def sentence(self) -> str:
        """What a δ would gain, in one sentence."""
        delta, pure = decimal_text(self.delta), f"{self.pure_error:.2g}"
        if not self.is_worthwhile:
            return f"a delta would gain nothing: {self.error:.2g} expected at {delta}, {pure} now."
        return (
            f"with delta {delta} the expected error would be {self.error:.2g} instead of {pure}, "
            "for a weaker promise; it is taken only if you set delta."
        )


def usual_delta(units: int) -> Fraction:
    """Return the δ that is suggested: 1e-6, or the power of ten at most 0.1 / units.

    Examples
    --------
    >>> float(usual_delta(5000)), float(usual_delta(3_000_000))
    (1e-06, 1e-08)
    """
    delta = USUAL_DELTA
    while delta * units > UNITS_REVEALED:
        delta /= 10
    return delta


def gain_of_delta(plan: PresencePlan) -> DeltaGain | None:
    """Return what a δ would gain; None where the plan has one, or none is possible."""
    request = plan.request
    if request.delta:
        return None
    delta = usual_delta(request.fleet.units)
    try:
        return DeltaGain(
            delta,
            _error(plan.prediction),
            _error(replace(plan, request=replace(request, delta=delta)).prediction),
        )
    except InputError:
        return None  # so small an epsilon leaves nothing to measure with


def _error(prediction: object) -> float:
    """Return the predicted error that a plan is judged by."""
    name = "mean_error" if isinstance(prediction, PresencePrediction) else "count_error"
    return float(getattr(prediction, name))
