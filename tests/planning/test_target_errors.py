import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.accounting.error_model import mean_bias, variance_bias
from hexveil.planning.optimizers.calibration import ErrorTargets

AWAY = st.floats(0, 1)
ONE = np.ones(1)


@given(st.floats(0.01, 0.7), st.floats(0.001, 0.2), AWAY, AWAY)
def test_separate_rates_meet_their_targets_and_grow(mean, variance, away, more):
    """Noise of these rates meets each target exactly; the rates grow with what is away."""
    goal = ErrorTargets(mean * ONE, variance * ONE)
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


def test_targets_without_room_have_no_rates():
    """A bias above the target leaves no noise that would meet it."""
    assert ErrorTargets(0.2 * ONE, np.inf * ONE).rates(0.5 * ONE) is None
    assert ErrorTargets(np.inf * ONE, 0.05 * ONE).rates(0.5 * ONE) is None
