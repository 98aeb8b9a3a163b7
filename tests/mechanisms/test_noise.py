"""The door: the released noise has its scale, and what could break the proof is refused."""

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest

from hexveil import HexveilError
from hexveil.mechanisms import noise
from hexveil.mechanisms.noise import add_gaussian, add_laplace

DRAWS = 20_000
FALSE_ALARM = 1e-9


def share_up_to(k, scale):
    """Return P(X <= k) of the discrete Laplace law, P(X = k) proportional to exp(-|k|/scale)."""
    k = np.asarray(k, dtype=np.float64)
    q = math.exp(-1.0 / scale)
    tail = np.exp(-np.where(k >= 0, k + 1, -k) / scale) / (1.0 + q)
    return np.where(k >= 0, 1.0 - tail, tail)


def distance(draws, scale):
    """Return the largest distance between the law and the share of draws up to each number."""
    points, how_many = np.unique(draws, return_counts=True)
    up_to = np.cumsum(how_many) / draws.size
    at = np.abs(up_to - share_up_to(points, scale)).max()
    before = np.abs(up_to - how_many / draws.size - share_up_to(points - 1, scale)).max()
    return max(at, before)


def allowed(draws):
    """Return the distance that is passed with odds of at most FALSE_ALARM (Massart's DKW)."""
    return math.sqrt(math.log(2.0 / FALSE_ALARM) / (2.0 * draws.size))


def size_distance(draws, scale):
    """Return the same distance for |X|: it tells a wrong scale from a right one best."""
    sizes, how_many = np.unique(np.abs(draws), return_counts=True)
    up_to = np.cumsum(how_many) / draws.size
    law = share_up_to(sizes, scale) - share_up_to(-sizes - 1, scale)
    return np.abs(up_to - law).max()


def noise_of(scale, value=0, draws=DRAWS):
    """Return noise that went through the door."""
    values = np.full(draws, value, dtype=np.int64)
    return add_laplace(values, np.full(draws, scale)) - value


@pytest.mark.parametrize("scale", [0.7, 3.3, 250.0, 1e6, 1e12])
def test_noise_has_the_planned_scale_and_no_other(scale):
    """Noise through the door fits the discrete Laplace law, and rejects scales 20 % off.

    The law is exact and the threshold holds for every sample size, so a right scale fails once in
    a thousand million runs. A scale 20 % off lies at a distance of at least 0.065 in |X|, against
    a threshold of 0.023 and a spread of 0.0035.
    """
    draws = noise_of(scale, value=12_345)
    assert distance(draws, scale) <= allowed(draws)
    assert size_distance(draws, scale) <= allowed(draws)
    for wrong in (0.8 * scale, 1.2 * scale):
        assert size_distance(draws, wrong) > allowed(draws)


def test_the_test_rejects_what_is_not_laplace():
    """Rounded normal noise of the same mean size is rejected: the test has power for the shape."""
    rng = np.random.default_rng(1)
    normal = np.rint(rng.normal(0, 250 * math.sqrt(math.pi / 2), DRAWS)).astype(np.int64)
    assert size_distance(normal, 250.0) > allowed(normal)
    one_sided = np.abs(noise_of(250.0))
    assert distance(one_sided, 250.0) > allowed(one_sided)


def test_the_law_is_a_law():
    """The oracle's probabilities are those of exp(-|k|/scale), and add up to one."""
    k = np.arange(-60, 61)
    mass = share_up_to(k, 2.0) - share_up_to(k - 1, 2.0)
    weight = np.exp(-np.abs(k) / 2.0)
    assert mass == pytest.approx(weight / weight.sum(), abs=1e-9)


@pytest.mark.slow
def test_each_entry_has_its_own_scale():
    """Entries of different scales, mixed, each get noise of their own scale."""
    scales = np.tile([2.0, 5000.0, 40.0], DRAWS)
    noisy = add_laplace(np.zeros(scales.size, dtype=np.int64), scales)
    for scale in (2.0, 40.0, 5000.0):
        own = noisy[scales == scale]
        assert size_distance(own, scale) <= allowed(own)


def test_values_come_through():
    """Noise is added to each entry's own value, and the caller's values stay as they are."""
    values = np.array([-(10**15), 0, 10**15])
    kept = values.copy()
    noisy = add_laplace(values, np.array([3.0, 1.0, 3.0]))
    assert np.abs(noisy - values).max() < 512 * 3
    assert values.tolist() == kept.tolist()
    assert noisy.dtype == np.int64


def test_noise_is_never_the_same_twice():
    """There is no seed: two calls differ."""
    assert noise_of(1e9, draws=50).tolist() != noise_of(1e9, draws=50).tolist()


def test_nothing_can_be_switched():
    """The door takes values and scales, and nothing else."""
    assert list(inspect.signature(add_laplace).parameters) == ["values", "scales"]


def test_no_values_at_all():
    """No entries are no error."""
    assert add_laplace(np.array([], dtype=np.int64), np.array([])).tolist() == []


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.3, 250.0, 1e12])
@pytest.mark.parametrize("moved", [1, 7, 10**6])
def test_the_library_agrees_on_the_loss(scale, moved):
    """The vetted library's own figure for a move of d is d / scale, rounded up."""
    loss = noise._measurement(scale).map(moved)
    exact = Fraction(moved) / Fraction(scale)
    assert exact <= Fraction(loss) <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf])
def test_scales_that_do_not_protect_are_refused(scale, monkeypatch):
    """A scale that is not positive and finite is refused before anything is drawn."""
    monkeypatch.setattr(noise, "_measurement", None)
    with pytest.raises(HexveilError, match="a noise scale must be positive and finite"):
        add_laplace(np.array([1, 2]), np.array([1.0, scale]))


ENDS = [(2**62, 1.0), (-(2**62), 1.0), (2**63 - 1, 1.0), (-(2**63), 1.0), (0, 2.0**53)]


@pytest.mark.parametrize(("value", "scale"), ENDS)
def test_values_near_the_ends_are_refused(value, scale, monkeypatch):
    """A value, or noise, that could leave 64 bits is refused before anything is drawn."""
    monkeypatch.setattr(noise, "_measurement", None)
    with pytest.raises(HexveilError, match="could leave the range of 64-bit integers") as refused:
        add_laplace(np.array([0, value]), np.array([1.0, scale]))
    assert str(value) not in str(refused.value) or value == 0


@pytest.mark.parametrize(
    ("values", "scales"),
    [
        (np.array([1.0]), np.array([1.0])),
        (np.array([1], dtype=np.int32), np.array([1.0])),
        (np.array([1, 2]), np.array([1.0])),
        (np.array([[1]]), np.array([[1.0]])),
    ],
)
def test_other_shapes_and_types_are_refused(values, scales):
    """Anything but whole 64-bit numbers with one scale each is refused."""
    with pytest.raises(HexveilError, match="int64 values and one scale for each"):
        add_laplace(values, scales)


def gaussian_distance(draws, deviation):
    """Return the largest distance between the discrete Gaussian law and the draws' shares."""
    reach = math.ceil(12 * deviation)
    k = np.arange(-reach, reach + 1)
    law = np.exp(-(k**2) / (2.0 * deviation**2))
    up_to = np.searchsorted(np.sort(draws), k, side="right") / draws.size
    return np.abs(up_to - np.cumsum(law / law.sum())).max()


@pytest.mark.parametrize("deviation", [1.0, 30.0, 2000.0])
def test_gaussian_noise_has_the_planned_deviation_and_no_other(deviation):
    """It fits the discrete Gaussian law, and rejects deviations 30 % off; values come through.

    As for the Laplace law, a right deviation fails once in a thousand million runs. One 30 % off
    lies at a distance of 0.06 at least, against a threshold of 0.033 and a spread of 0.005.
    """
    values = np.full(10_000, 12_345, dtype=np.int64)
    draws = add_gaussian(values, np.full(values.size, deviation)) - values
    assert gaussian_distance(draws, deviation) <= allowed(draws)
    for wrong in (0.7 * deviation, 1.3 * deviation):
        assert gaussian_distance(draws, wrong) > allowed(draws)


def test_gaussian_noise_is_refused_like_any_other():
    """No parameter of zero, no value near the end of the integers, no switch."""
    assert list(inspect.signature(add_gaussian).parameters) == ["values", "deviations"]
    for values, deviation in (([1], 0.0), ([1], math.nan), ([2**62], 1.0)):
        with pytest.raises(HexveilError):
            add_gaussian(np.array(values), np.array([deviation]))
