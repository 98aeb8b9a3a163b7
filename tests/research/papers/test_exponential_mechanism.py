"""The exponential mechanism of the figures: its law, and that choices follow it."""

import numpy as np
import pytest

from hexveil_research.papers.exponential_mechanism import (
    ExponentialNoise,
    choose_exponential,
    exponential_law,
)

COSTS, SIZES = np.array([[0, 1, 3, 0]]), np.array([[2, 1, 4, 0]])


def test_the_law_is_the_weights():
    """A chance is the run's candidates times exp(-c/scale); an empty run has none."""
    weights = np.array([2.0, np.exp(-0.5), 4 * np.exp(-1.5), 0])
    assert exponential_law(COSTS, SIZES, 2.0)[0] == pytest.approx(weights / weights.sum())


@pytest.mark.parametrize("rows", [1, 40_000])
def test_choices_follow_the_law(rows):
    """One row for all trials, or a row each: the same chances."""
    costs, sizes = np.repeat(COSTS, rows, axis=0), np.repeat(SIZES, rows, axis=0)
    chosen = choose_exponential(costs, sizes, 2.0, np.random.default_rng(1), 40_000)
    found = np.bincount(chosen, minlength=4) / chosen.size
    assert found == pytest.approx(exponential_law(COSTS, SIZES, 2.0)[0], abs=0.012)


def test_its_loss_is_that_of_the_scale():
    """Costs that move by one at the scale 2/ε change no chance by more than exp(ε)."""
    epsilon = 0.7
    laws = [
        exponential_law(np.array([costs]), np.ones((1, 3), dtype=int), 2 / epsilon)
        for costs in ([0, 1, 2], [1, 0, 1], [1, 2, 1], [0, 0, 3])
    ]
    for law in laws[1:]:
        assert np.abs(np.log(law / laws[0])).max() <= epsilon + 1e-12


def test_candidates_of_a_run_are_chosen_alike():
    """The noise names a candidate: numbers 0 and 1 are the run of the least cost."""
    noise = ExponentialNoise(np.random.default_rng(0), 20_000)
    found = np.bincount(noise.noisy_max(-COSTS, SIZES, 2.0), minlength=7)
    assert found.size == 7
    assert found[0] == pytest.approx(found[1], rel=0.06)
