"""Descents of planning: L-BFGS-B within a reach of where they begin."""

import numpy as np
import pytest

from hexveil.planning.optimizers.bounded_descent import StopRule, descend


def valley(x):
    """Return Rosenbrock's objective and its slope: a curved valley whose bottom is at ones."""
    low, high = x[:-1], x[1:]
    slope = np.zeros_like(x)
    slope[:-1] = -400.0 * low * (high - low**2) - 2.0 * (1.0 - low)
    slope[1:] += 200.0 * (high - low**2)
    return float((100.0 * (high - low**2) ** 2 + (1.0 - low) ** 2).sum()), slope


@pytest.mark.parametrize("reach", [30.0, 0.4])
def test_a_descent_ends_at_the_least_point_within_its_reach(reach):
    """No point of many in the box is lower, and the bottom is found where the box holds it."""
    found, value = descend(valley, np.zeros(4), reach, StopRule(gain=1e-12))
    assert np.all(np.abs(found) <= reach)
    assert value == valley(found)[0]
    tried = np.random.default_rng(1).uniform(-reach, reach, (1000, 4))
    assert value <= min(valley(x)[0] for x in tried)
    assert reach < 1 or np.allclose(found, 1.0, atol=1e-3)


def test_a_rule_ends_a_descent():
    """After so many iterations, above the bottom."""
    short, long = (descend(valley, np.zeros(4), 30.0, StopRule(n))[1] for n in (3, 100))
    assert short > long + 0.1
