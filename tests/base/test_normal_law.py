"""Tails of the normal law against those of the C library and of SciPy, and exact exponentials."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import special

from hexveil.base import normal_law
from hexveil.base.normal_law import erfc, erfcx, ndtr

PLACES = np.concatenate([np.linspace(0.0, 26.0, 5_003), np.logspace(-300, 0, 301)])
ENDS = np.array([0.0, -0.0, 12.0, np.nextafter(12.0, 13.0), 40.0, 1e200, np.inf, -np.inf, np.nan])


@pytest.fixture(autouse=True)
def recipient(monkeypatch):
    """Stand where SciPy is not installed."""
    monkeypatch.setattr(normal_law, "scipy_special", lambda: None)


def scaled(place):
    """Return exp(x²) erfc(x), its exponential exact."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(math.erfc(place)) * (Decimal(place) ** 2).exp())


def near(expected):
    return pytest.approx(expected, rel=2e-15, abs=0.0, nan_ok=True)


def test_scaled_tails_have_all_digits():
    """On all of the line: by exact exponentials, far above by SciPy, below 0 by the sum 2."""
    assert erfcx(PLACES) == near([scaled(place) for place in PLACES])
    far = np.logspace(1, 300, 1_000)
    assert erfcx(far) == near(special.erfcx(far))
    assert erfcx(-PLACES[:5_003]) == near(special.erfcx(-PLACES[:5_003]))


def test_tails_are_those_of_the_c_library():
    """Above and below 0, also where they are hardly a number."""
    for places in (PLACES, -PLACES):
        assert erfc(places) == near([math.erfc(place) for place in places])
    z = np.linspace(-37.0, 37.0, 3_001)
    assert ndtr(z) == near([0.5 * math.erfc(-one * math.sqrt(0.5)) for one in z])
    assert ndtr(z) == pytest.approx(special.ndtr(z), rel=1e-13, abs=0.0)


@pytest.mark.parametrize("name", ["erfc", "erfcx", "ndtr"])
def test_ends_and_shapes_are_those_of_scipy(name):
    """Infinities, what is no number, the seams, and arrays of any shape."""
    ours, its = {"erfc": erfc, "erfcx": erfcx, "ndtr": ndtr}[name], getattr(special, name)
    assert ours(ENDS) == pytest.approx(its(ENDS), rel=1e-13, abs=0.0, nan_ok=True)
    square = np.linspace(-3.0, 5.0, 12).reshape(3, 4)
    assert ours(square[:, ::2]) == near(its(square[:, ::2]))
    assert ours(np.float64(1.5)) == near(float(its(1.5)))
