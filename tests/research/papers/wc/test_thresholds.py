"""Claims about AKMV and the sensitivities: wrong formulas turn their verdicts."""

import numpy as np
import pytest

from hexveil_research.papers.wc import thresholds


@pytest.mark.slow
def test_a_wrong_sensitivity_is_found():
    """One percent less than the truth fails, and a noise scale with it."""
    assert [claim.holds for claim in thresholds.sensitivities()] == [True] * 3
    wrong = thresholds.sensitivities(lambda plan: 0.99 * plan.sensitivity)
    assert [claim.holds for claim in wrong] == [True, False, True]
    assert thresholds.laplace_claim(lambda plan: plan.noise_scale).holds
    assert not thresholds.laplace_claim(lambda plan: 0.99 * plan.noise_scale).holds


def test_the_loss_of_a_choice_is_measured():
    """With the half a quantile loses at most ε, without it more, at most 2ε; equal odds nothing."""
    for users in (2, 3):
        whole = thresholds.quantile_loss(thresholds.exponential(half=False), users)
        half = thresholds.quantile_loss(thresholds.exponential(half=True), users)
        assert half < 1 < whole < 2
        assert thresholds.quantile_loss(lambda *_: np.full(9, 1 / 9), users) == 0


def test_known_thresholds_are_found_no_better_where_they_are_not():
    """Equal errors are no evidence that one part costs anything."""
    rows = np.array([[5.0, 0.1], [3.0, 0.1]])
    assert thresholds._surely_less(rows, rows).holds is None
    assert thresholds._surely_less(rows, rows + np.array([1, 0])).holds is True
    assert thresholds._surely_less(rows + np.array([1, 0]), rows).holds is False
