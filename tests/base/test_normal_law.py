"""The normal law without SciPy, against SciPy and the C library."""

import math

import numpy as np
import pytest
from scipy import special

from hexveil.base import normal_law
from hexveil.base.normal_law import erfcx, ndtr

ENDS = np.array([0.0, -0.0, 12.0, 40.0, 1e200, np.inf, -np.inf, np.nan])


@pytest.fixture(autouse=True)
def recipient(monkeypatch):
    """Stand where SciPy is not installed."""
    monkeypatch.setattr(normal_law, "scipy_special", lambda: None)


def near(expected):
    return pytest.approx(expected, rel=2e-15, abs=0.0, nan_ok=True)


def test_the_law_is_that_of_the_c_library():
    """Above and below 0, also where it is hardly a number, and as SciPy has it."""
    z = np.linspace(-37.0, 37.0, 3_001)
    assert ndtr(z) == near([0.5 * math.erfc(-one * math.sqrt(0.5)) for one in z])
    assert ndtr(z) == pytest.approx(special.ndtr(z), rel=1e-13, abs=0.0)


def test_ends_and_shapes_are_those_of_scipy():
    """Infinities, what is no number, none at all, and arrays of any shape."""
    assert ndtr(ENDS) == pytest.approx(special.ndtr(ENDS), rel=1e-13, abs=0.0, nan_ok=True)
    square = np.linspace(-3.0, 5.0, 12).reshape(3, 4)
    assert ndtr(square[:, ::2]) == near(special.ndtr(square[:, ::2]))
    assert ndtr(np.float64(1.5)) == near(float(special.ndtr(1.5)))
    assert ndtr(np.empty((0, 2))).shape == (0, 2)


def test_scaled_tails_are_those_of_scipy():
    """Far above 0 nothing underflows."""
    assert erfcx(np.array([0.0, 1e9])) == near([1.0, 1e-9 / math.sqrt(math.pi)])
