import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hexveil.accounting.error_model import mean_bias, variance_bias
from hexveil.accounting.sensitivity import variance_sensitivity_bound
from hexveil.planning.calibration import SeparateTargets, SumTarget

AWAY = st.floats(0, 1)
ONE = np.ones(1)


def total(span, part):
    """Return one cell's target for the sum, as a part of what constants miss."""
    span = np.array([float(span)])
    return SumTarget(part * (span / 2 + span**2 / 8), span, span**2)


@given(st.floats(0.01, 0.7), st.floats(0.001, 0.2), AWAY, AWAY)
def test_separate_rates_meet_their_targets_and_grow(mean, variance, away, more):
    """Noise of these rates meets each target exactly; the rates grow with what is away."""
    goal = SeparateTargets(mean * ONE, variance * ONE)
    low, high = sorted((away, more))
    rates, after = goal.rates(low * ONE), goal.rates(high * ONE)
    if rates is None:
        assert after is None
        return
    for target, rate, bias, worst in (
        (mean, rates.mean, mean_bias, 0.5),
        (variance, rates.variance, variance_bias, 0.125),
    ):
        if target >= worst:
            assert rate[0] == 0
        else:
            assert bias(low * ONE)[0] + 1 / rate[0] == pytest.approx(target)
    if after is not None:
        assert (after.mean >= rates.mean).all()
        assert (after.variance >= rates.variance).all()


@given(st.sampled_from([1, 8, 65]), st.floats(0.05, 1.2), AWAY)
def test_total_rates_meet_the_sum(span, part, away):
    """The sum of both errors, constants included, is exactly the target where there is noise."""
    goal = total(span, part)
    rates = goal.rates(away * ONE)
    assume(rates is not None)
    a, c = float(rates.mean[0]), float(rates.variance[0])
    errors = span * (mean_bias(away * ONE)[0] + 1 / a if a else 0.5) + span**2 * (
        variance_bias(away * ONE)[0] + 1 / c if c else 0.125
    )
    if a or c:
        assert errors == pytest.approx(goal.error[0])
    else:
        assert errors <= goal.error[0] * (1 + 1e-12)


@given(
    st.sampled_from([1, 8, 65]), st.floats(0.05, 0.999), AWAY, st.floats(1e-3, 1), st.floats(0, 1)
)
def test_least_rates_never_charge_more_than_a_choice(span, part, away, largest, kept):
    """Whatever a cell chooses, every user is charged at least what the least rates charge."""
    goal = total(span, part)
    least = goal.least_rates(away * ONE, largest * ONE)
    assume(least is not None)
    x = kept * largest
    # The least that any accounting may charge a variance, up to its largest share.
    v = min(
        float(variance_sensitivity_bound(np.array(x))),
        largest * (1 - largest) if largest > 0.5 else 0.25,
    )
    v = max(v, x * (1 - largest))
    charged = float(least.mean[0] * x + least.variance[0] * v)
    room = goal.error[0] - span * away / 2 - span**2 * float(variance_bias(away * ONE)[0])
    alone = [rate for rate in _alone(goal, span, away) if np.isfinite(rate[0] + rate[1])]
    both = [(span / (room * (1 - s)), span**2 / (room * s)) for s in np.linspace(0.01, 0.99, 60)]
    for a, c in alone + (both if room > 1e-9 else []):
        assert charged <= (a * x + c * v) * (1 + 1e-9)


def _alone(goal, span, away):
    """Return the rates of the mean alone and of the variance alone."""
    mean = goal.error[0] - span**2 / 8 - span * away / 2
    variance = goal.error[0] - span / 2 - span**2 * float(variance_bias(away * ONE)[0])
    return [
        (span / mean if mean > 1e-12 else np.inf, 0.0),
        (0.0, span**2 / variance if variance > 1e-12 else np.inf),
    ]


def test_targets_without_room_have_no_rates():
    """A bias above the target leaves no noise that would meet it."""
    assert SeparateTargets(0.2 * ONE, np.inf * ONE).rates(0.5 * ONE) is None
    assert SeparateTargets(np.inf * ONE, 0.05 * ONE).rates(0.5 * ONE) is None
    assert total(65, 0.1).rates(0.9 * ONE) is None
    assert total(65, 0.1).least_rates(0.9 * ONE, ONE) is None
