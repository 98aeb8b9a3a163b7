"""The door, and simulated noise: each has the planned law; what would break proofs is refused."""

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import HexveilError
from hexveil.mechanisms import noise
from hexveil.mechanisms.noise import add_gaussian, add_laplace, noisy_max
from hexveil.mechanisms.simulated_noise import SimulatedNoise, choose, law
from permute_oracle import exact_choice

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


CHOICES = 10_000
TWO = 1 / math.log(2)
SCORES = np.array([-3, 0, -1, -1, -6])
EXPECTED = np.array([float(p) for p in exact_choice(-SCORES, base=2)])


GENERATOR = np.random.default_rng(2)


def simulated_max(scores, scale):
    """Return a simulated choice."""
    ones = np.ones((1, scores.size), dtype=np.int64)
    return int(SimulatedNoise(GENERATOR, 1).noisy_max(scores[None], ones, scale)[0])


def shares(draw, scale):
    """Return how often each position is chosen."""
    found = [draw(SCORES, scale) for _ in range(CHOICES)]
    return np.bincount(found, minlength=SCORES.size) / CHOICES


def far(share):
    """Say whether some share is more than 6 standard errors from the exact law."""
    return (np.abs(share - EXPECTED) > 6 * np.sqrt(EXPECTED * (1 - EXPECTED) / CHOICES)).any()


@pytest.mark.slow
@pytest.mark.parametrize("draw", [noisy_max, simulated_max], ids=["vetted", "plain"])
def test_both_have_the_exact_law(draw):
    """Vetted and simulated choices follow permute-and-flip by its definition, and no other scale.

    The law fits within 6 standard errors; at scales 30 % off some share is 10 and more away.
    """
    assert not far(shares(draw, TWO))
    assert far(shares(draw, 0.7 * TWO))
    assert far(shares(draw, TWO / 0.7))


def test_it_is_not_the_exponential_mechanism():
    """The test tells permute-and-flip from the exponential mechanism of the same scale."""
    weight = 2.0**SCORES
    assert far(weight / weight.sum())


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 800.0])
def test_the_library_agrees_on_the_loss_of_a_choice(scale):
    """The vetted library's own figure for scores that move by d is 2 d / scale, never less."""
    for moved in (1, 2):
        loss = noise._selection(scale).map(moved)
        assert 2 * moved / scale <= loss * (1 + 1e-15)
        assert loss == pytest.approx(2 * moved / scale)


def test_nothing_can_be_switched_of_a_choice():
    """The door takes scores and a scale, and nothing else."""
    assert list(inspect.signature(noisy_max).parameters) == ["scores", "scale"]


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, math.nan, math.inf])
def test_scales_that_do_not_protect_are_refused_of_a_choice(scale, monkeypatch):
    """A scale that is not positive and finite is refused before anything is drawn."""
    monkeypatch.setattr(noise, "_selection", None)
    with pytest.raises(HexveilError, match="a noise scale must be positive and finite"):
        noisy_max(SCORES, scale)


@pytest.mark.parametrize(
    "scores", [np.array([]), np.array([1.0]), np.array([1], dtype=np.int32), np.array([[1]])]
)
def test_other_shapes_and_types_are_refused_of_a_choice(scores):
    """Anything but whole 64-bit scores, at least one, is refused."""
    with pytest.raises(HexveilError, match="at least one int64 score"):
        noisy_max(scores, 1.0)


@pytest.mark.parametrize("score", [2**62, -(2**63), 2**63 - 1])
def test_scores_near_the_ends_are_refused(score, monkeypatch):
    """A score near the ends of 64 bits is refused, and not quoted."""
    monkeypatch.setattr(noise, "_selection", None)
    with pytest.raises(HexveilError, match="could leave the range") as refused:
        noisy_max(np.array([0, score]), 1.0)
    assert str(score) not in str(refused.value)


RUNS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), min_size=1, max_size=5).filter(
    lambda runs: any(size for _, size in runs)
)


@given(RUNS)
def test_law_of_runs_is_that_of_their_candidates(runs):
    """A run's chance is the sum over its candidates, each by the definition."""
    costs, sizes = (np.array(part) for part in zip(*runs, strict=True))
    each = exact_choice(np.repeat(costs, sizes), base=2)
    owner = np.repeat(np.arange(len(runs)), sizes)
    expected = [float(sum(p for p, i in zip(each, owner, strict=True) if i == r)) for r in range(5)]
    assert law(costs, sizes, TWO) == pytest.approx(expected[: len(runs)], abs=1e-12)


@pytest.mark.parametrize("rows", [1, 20_000])
@pytest.mark.parametrize("scale", [TWO, 0.001])
def test_choices_follow_the_law(rows, scale):
    """Choices of one row and of a row per trial have the exact law, 5 standard errors aside.

    At the tiny scale coins of dearer runs never fall, though their odds leave the range of doubles.
    """
    costs, sizes = np.array([5, 1, 0, 3, 1]), np.array([2, 1, 0, 4, 2])
    trials = 20_000
    many = np.broadcast_to(sizes, (rows, 5))
    found = choose(costs[None], many, scale, np.random.default_rng(3), trials)
    share = np.bincount(found, minlength=5) / trials
    expected = law(costs, sizes, scale)
    assert (np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / trials)).all()
