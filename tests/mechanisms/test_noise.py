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
from hexveil.mechanisms.simulated_noise import choose, law
from mechanisms.permute_oracle import exact_choice

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


@pytest.mark.slow
def test_each_entry_has_its_own_scale():
    """Entries of different scales, mixed, each get noise of their own scale."""
    scales = np.tile([2.0, 5000.0, 40.0], DRAWS)
    noisy = add_laplace(np.zeros(scales.size, dtype=np.int64), scales)
    for scale in (2.0, 40.0, 5000.0):
        own = noisy[scales == scale]
        assert size_distance(own, scale) <= allowed(own)


def test_noise_is_never_the_same_twice():
    """There is no seed: two calls differ."""
    assert noise_of(1e9, draws=50).tolist() != noise_of(1e9, draws=50).tolist()


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


CHOICES = 10_000
TWO = 1 / math.log(2)
SCORES = np.array([-3, 0, -1, -1, -6])
EXPECTED = np.array([float(p) for p in exact_choice(-SCORES, base=2)])


def shares(scale):
    """Return how often each position is chosen."""
    found = [noisy_max(SCORES, scale) for _ in range(CHOICES)]
    return np.bincount(found, minlength=SCORES.size) / CHOICES


def far(share):
    """Say whether some share is more than 6 standard errors from the exact law."""
    return (np.abs(share - EXPECTED) > 6 * np.sqrt(EXPECTED * (1 - EXPECTED) / CHOICES)).any()


@pytest.mark.slow
def test_vetted_choices_have_the_exact_law():
    """They follow permute-and-flip by its definition, and no other scale.

    The law fits within 6 standard errors; at scales 30 % off some share is 10 and more away.
    """
    assert not far(shares(TWO))
    assert far(shares(0.7 * TWO))
    assert far(shares(TWO / 0.7))


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


# ---- what the door refuses ----

DOORS = {
    add_laplace: ["values", "scales"],
    add_gaussian: ["values", "deviations"],
    noisy_max: ["scores", "scale"],
}
BAD_SCALES = [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf]
BAD_ARRAYS = [np.array([1.0]), np.array([1], dtype=np.int32), np.array([[1]]), np.array([])]
ENDS = [2**62, -(2**62), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("door", DOORS)
def test_what_would_break_a_proof_is_refused(door, monkeypatch):
    """Before a draw: scales without a loss, other types, numbers near 64 bits; no value is quoted.

    The door takes numbers and scales, and nothing else.
    """
    assert list(inspect.signature(door).parameters) == DOORS[door]
    for name in ("_measurement", "_gaussian", "_selection"):
        monkeypatch.setattr(noise, name, None)
    is_choice, two = door is noisy_max, np.array([1, 2])

    def refuse(message, values, scale, of=1):
        with pytest.raises(HexveilError, match=message) as refused:
            door(values, scale if is_choice else np.full(of, scale))
        return str(refused.value)

    for scale in BAD_SCALES:
        refuse("a noise scale must be positive and finite", two, scale, 2)
    kind = "at least one int64 score" if is_choice else "int64 values and one scale for each"
    for values in BAD_ARRAYS:
        refuse(kind, values, 1.0)
    for end in ENDS:
        message = refuse("could leave the range of 64-bit integers", np.array([0, end]), 1.0, 2)
        assert str(end) not in message
    if not is_choice:
        refuse(kind, two, 1.0)
        refuse("could leave the range", np.array([0]), 2.0**53)


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.0, 4.0, 250.0, 1e12])
@pytest.mark.parametrize("moved", [1, 7, 10**6])
def test_the_library_agrees_on_the_loss(scale, moved):
    """Its own figure for a move of d is d / scale, for scores that move by d twice that."""
    exact = Fraction(moved) / Fraction(scale)
    for loss in (noise._measurement(scale).map(moved), noise._selection(scale).map(moved) / 2):
        assert exact * (1 - Fraction(1, 10**15)) <= Fraction(loss)
        assert Fraction(loss) <= exact * (1 + Fraction(1, 10**12))
