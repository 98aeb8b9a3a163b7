"""The exponential mechanism of the figures: its law, and that choices follow it."""

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.simulation.evaluation import evaluate
from hexveil_research.papers.exponential_mechanism import (
    PrintedChoice,
    choose_exponential,
    exponential_law,
)

COSTS, SIZES = np.array([[0, 1, 3, 0]]), np.array([[2, 1, 4, 0]])


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


CELL = {"counts": [40, 20, 10, 5, 3], "bounds": (0, 8), "epsilons": ["4"], "seed": 3}


def test_a_mechanism_with_the_printed_choice_follows_its_law():
    """Estimates of AKMV without its last noise have the chances of the law."""
    plan = PrintedChoice(hv.AKMV()).plan(CELL["counts"], bounds=(0, 8), epsilon="0.4")
    sums = plan.cell.sums([8.0, 3.0, 5.0, 1.0, 6.0])
    stage = plan.allocation.stages[0]
    (costs,), (request,) = stage.measure(sums, {}), stage.noise({})
    law = exponential_law(-costs.scores, costs.sizes, request.scale)[0]
    chosen = plan.outputs(sums, SimulatedNoise(np.random.default_rng(5), 30_000))[stage.name]
    end = np.cumsum(costs.sizes[0])
    runs = np.searchsorted(end, chosen[:, 0], side="right")
    assert np.bincount(runs, minlength=law.size) / runs.size == pytest.approx(law, abs=0.015)


def test_only_a_choice_changes_the_error():
    """A mechanism without one has the very same error; values drawn anew are no obstacle.

    LEVY's candidates are few. Of AKMV's thousands the two choices have nearly one law.
    """
    for values in ({"user_means": [1.0, 2.0, 7.0, 7.0, 7.0]}, {"values": hv.Normal(4, 1)}):
        pairs = [
            evaluate([mechanism], **CELL, **values, trials=2000)["mae"][0].as_py()
            for plain in (hv.Baseline(), hv.Levy())
            for mechanism in (plain, PrintedChoice(plain))
        ]
        assert pairs[0] == pairs[1]
        assert pairs[2] != pairs[3]
