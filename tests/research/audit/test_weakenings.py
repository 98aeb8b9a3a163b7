"""Weakened releases: what they weaken, and that nothing else changes."""

import numpy as np
import pytest

import hexveil as hv
from hexveil_research.audit.output_distributions import (
    NOISE,
    SCALES,
    SCORES,
    AuditedRelease,
    WeakenedSource,
)

FACTS = {"counts": [40] * 30, "bounds": (0, 8), "epsilon": 2}
WITH_CHOICES = [
    hv.mechanisms.Levy(),
    hv.mechanisms.FixedQuantile(),
    hv.mechanisms.OptimizedQuantile(),
    hv.mechanisms.AKMV(),
]
MEANS = np.linspace(0, 8, 30)


class Noted:
    """A source that draws nothing and notes the scales of choices and sums."""

    def __init__(self):
        self.choices, self.sums = [], []

    def laplace(self, values, scales):
        """Return the values."""
        self.sums.append(float(scales[0, 0]))
        return values

    def noisy_max(self, scores, sizes, scale):  # noqa: ARG002  the protocol's arguments
        """Return the first candidate."""
        self.choices.append(scale)
        return np.zeros(1, dtype=np.int64)


def scales(plan, weakening=None):
    """Return the scales that a plan's release asks for, and its outcome."""
    noted = Noted()
    source = noted if weakening is None else WeakenedSource(noted, weakening)
    outcome = plan.estimate(MEANS, source)
    return noted, outcome


@pytest.mark.parametrize(
    "mechanism",
    [hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping(), hv.mechanisms.ArrayAveraging()],
)
def test_one_noise_has_one_weakening(mechanism):
    """A release of one noise has a weakening of smaller noise and of the same estimate."""
    plan = mechanism.plan(**FACTS)
    assert AuditedRelease(plan).weakenings == (SCALES,)
    (sound, before), (weak, after) = scales(plan), scales(plan, SCALES)
    assert weak.sums == pytest.approx([0.7 * scale for scale in sound.sums])
    assert before == after


@pytest.mark.parametrize("mechanism", WITH_CHOICES, ids=str)
@pytest.mark.parametrize("weakening", [SCALES, NOISE, SCORES], ids=lambda one: one.name)
def test_weakenings_of_composed_releases(mechanism, weakening):
    """Noise and choices are multiplied each by its own factor; the plan claims the same ε."""
    plan = mechanism.plan(**FACTS)
    assert weakening in AuditedRelease(plan).weakenings
    (sound, _), (weak, _) = scales(plan), scales(plan, weakening)
    assert sound.choices
    assert weak.choices == pytest.approx([float(weakening.choice) * s for s in sound.choices])
    assert weak.sums == pytest.approx([float(weakening.noise) * s for s in sound.sums])


def test_weakenings_of_choices():
    """A choice alone has weakenings of its scale, of either kind of choice."""
    for mechanism in (hv.mechanisms.FixedQuantile(), hv.mechanisms.Levy()):
        subject = AuditedRelease(mechanism.plan(**FACTS), choice_alone=True)
        assert subject.weakenings == (SCALES, SCORES)


def test_a_plan_without_a_choice():
    """LEVY with one bin has its noise weakened, and no choice to weaken."""
    plan = hv.mechanisms.Levy().plan([2, 1, 1], bounds=(0, 8), epsilon=2)
    subject = AuditedRelease(plan)
    assert subject.weakenings == (SCALES,)
    with pytest.raises(ValueError, match="makes no choice"):
        _ = subject.choice
