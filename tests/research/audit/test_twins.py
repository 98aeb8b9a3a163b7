"""Broken twins: what they break, and that nothing else changes."""

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil_research.audit.twins import NOISE, SCALES, SCORES, applicable, broken

FACTS = {"counts": [40] * 30, "bounds": (0, 8), "epsilon": 2}
INTERVALS = [hv.Levy(), hv.FixedQuantile(), hv.OptimizedQuantile(), hv.AKMV()]


def choices(plan):
    """Return the private choices of a plan."""
    found = [getattr(plan, name, None) for name in ("low", "high", "choice")]
    return [choice for choice in found if choice is not None]


@pytest.mark.parametrize("mechanism", [hv.Baseline(), hv.OptimalClipping(), hv.ArrayAveraging()])
def test_one_noise_has_one_twin(mechanism):
    """A plan of one noise has a twin of smaller noise and of the same estimate."""
    plan = mechanism.plan(**FACTS)
    assert applicable(plan) == (SCALES,)
    twin = broken(plan, SCALES)
    assert twin.noise_scale == pytest.approx(0.7 * plan.noise_scale)
    means = np.linspace(0, 8, 30)
    assert twin.noiseless(means) == plan.noiseless(means)


@pytest.mark.parametrize("mechanism", INTERVALS, ids=str)
@pytest.mark.parametrize("twin", [SCALES, NOISE, SCORES], ids=lambda twin: twin.name)
def test_twins_of_composed_plans(mechanism, twin):
    """Noise and choices are multiplied each by its own factor; the plan claims the same ε."""
    plan = mechanism.plan(**FACTS)
    assert twin in applicable(plan)
    made = broken(plan, twin)
    assert made.epsilon == plan.epsilon == 2
    assert made.noise_scale == pytest.approx(float(twin.noise) * plan.noise_scale)
    scales = [choice.scale for choice in choices(plan)]
    assert scales
    assert [choice.scale for choice in choices(made)] == pytest.approx(
        [float(twin.choice) * scale for scale in scales]
    )


def test_twins_of_choices():
    """A choice alone has twins of its scale, of either kind of choice."""
    for choice in (hv.FixedQuantile().plan(**FACTS).low, hv.Levy().plan(**FACTS).choice):
        assert applicable(choice) == (SCALES, SCORES)
        assert broken(choice, SCORES).scale == choice.scale / 2
        assert broken(choice, SCALES).scale == pytest.approx(0.7 * choice.scale)


def test_a_plan_without_a_choice():
    """LEVY with one bin has its noise broken, and no choice to break."""
    plan = hv.Levy().plan([2, 1, 1], bounds=(0, 8), epsilon=2)
    assert plan.choice is None
    twin = broken(plan, SCALES)
    assert twin.choice is None
    assert twin.mean_epsilon == Fraction(2) / Fraction(7, 10)


def test_other_things_have_no_twin():
    """What the audit does not know how to break is an error, not a twin that is right."""
    with pytest.raises(TypeError, match="no broken twin of a float"):
        broken(1.0, SCALES)
