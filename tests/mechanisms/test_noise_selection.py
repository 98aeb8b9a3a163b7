"""The noisy max, vetted and simulated: its exact law, and what is refused."""

import inspect
import math

import numpy as np
import pytest

from hexveil import HexveilError
from hexveil.mechanisms import noise
from hexveil.mechanisms.noise import noisy_max
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from permute_oracle import exact_choice

DRAWS = 10_000
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
    found = [draw(SCORES, scale) for _ in range(DRAWS)]
    return np.bincount(found, minlength=SCORES.size) / DRAWS


def far(share):
    """Say whether some share is more than 6 standard errors from the exact law."""
    return (np.abs(share - EXPECTED) > 6 * np.sqrt(EXPECTED * (1 - EXPECTED) / DRAWS)).any()


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
def test_the_library_agrees_on_the_loss(scale):
    """The vetted library's own figure for scores that move by d is 2 d / scale, never less."""
    for moved in (1, 2):
        loss = noise._selection(scale).map(moved)
        assert 2 * moved / scale <= loss * (1 + 1e-15)
        assert loss == pytest.approx(2 * moved / scale)


def test_nothing_can_be_switched():
    """The door takes scores and a scale, and nothing else."""
    assert list(inspect.signature(noisy_max).parameters) == ["scores", "scale"]


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, math.nan, math.inf])
def test_scales_that_do_not_protect_are_refused(scale, monkeypatch):
    """A scale that is not positive and finite is refused before anything is drawn."""
    monkeypatch.setattr(noise, "_selection", None)
    with pytest.raises(HexveilError, match="a noise scale must be positive and finite"):
        noisy_max(SCORES, scale)


@pytest.mark.parametrize(
    "scores", [np.array([]), np.array([1.0]), np.array([1], dtype=np.int32), np.array([[1]])]
)
def test_other_shapes_and_types_are_refused(scores):
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


def test_a_clear_winner_wins():
    """Far apart in units of the scale, the largest score is chosen."""
    assert {noisy_max(np.array([0, 10**6, 5]), 1.0) for _ in range(50)} == {1}
    assert noisy_max(np.array([7]), 3.0) == 0
