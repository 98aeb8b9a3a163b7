import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.accounting.error_model import mean_bias, variance_bias
from hexveil.accounting.noise_law import LAPLACE
from hexveil.planning.optimizers.calibration import least_rates

AWAY = st.floats(0, 1)
ONE = np.ones(1)


def rates_of(mean, variance, away):
    """Return the rates of one cell."""
    targets = np.array([[mean], [variance]])
    return least_rates(away * ONE, targets=targets, law=LAPLACE)


@given(st.floats(0.01, 0.7), st.floats(0.001, 0.2), AWAY, AWAY)
def test_separate_rates_meet_their_targets_and_grow(mean, variance, away, more):
    """Noise of these rates meets each target exactly; the rates grow with what is away."""
    low, high = sorted((away, more))
    rates, after = (rates_of(mean, variance, share) for share in (low, high))
    if rates is None:
        assert after is None
        return
    for target, rate, bias, worst in (
        (mean, rates[0], mean_bias, 0.5),
        (variance, rates[1], variance_bias, 0.125),
    ):
        if target >= worst:
            assert rate[0] == 0
        else:
            assert bias(low * ONE)[0] + 1 / rate[0] == pytest.approx(target)
    if after is not None:
        assert (after >= rates).all()


def test_targets_without_room_have_no_rates():
    """A bias above the target leaves no noise that would meet it."""
    assert rates_of(0.2, np.inf, 0.5) is None
    assert rates_of(np.inf, 0.05, 0.5) is None
