"""WC's collections and samples, and curves over ε."""

import numpy as np
import pytest

from hexveil.evaluation import Uniform
from hexveil.mechanisms import AKMV, Baseline
from hexveil_research.papers.study import Setting
from hexveil_research.papers.wc import count_collections as wc
from hexveil_research.papers.wc.count_collections import ProjectedNormal, ThresholdCurve


def test_rejected_samples_are_drawn_again():
    """Samples lie in (low, high], and are not heaped at its ends as projected ones would be."""
    draw = ProjectedNormal(10.0, 20.0, 0.0, 15.0).draw(np.random.default_rng(1), np.ones(500), 8)
    assert draw.shape == (8, 500)
    assert 0 < draw.min() < 0.1
    assert 14.9 < draw.max() <= 15
    assert np.unique(draw).size == draw.size


def test_a_simulated_curve_is_the_mechanisms_error():
    """Plain Laplace on figure 2's collection: U m*/(N ε) at every ε, within its own noise."""
    name, setting = Baseline().name, Setting(trials=400)
    counts = wc.geometric()
    found = wc.simulated([Baseline()], setting, setting.tell, counts=counts, values=Uniform())
    expected = 65 * 64 / 448 / wc.X
    assert np.abs(found[name].error - expected).max() < 5 * found[name].standard_error[0]
    assert (np.abs(found[name].error - expected) < 5 * found[name].standard_error).all()


def test_the_same_seed_gives_the_same_curve():
    """Another seed gives another one."""
    one, again, other = (
        wc.simulated(
            [AKMV()], Setting(trials=20, seed=seed), print, counts=[3, 1], values=Uniform()
        )[AKMV().name].error.tolist()
        for seed in (0, 0, 1)
    )
    assert one == again != other


def test_differences_count_beyond_noise_only():
    """Two errors apart by two standard errors are alike; by four they are not."""
    ten = np.full(3, 10.0)
    low, high = ThresholdCurve(ten, ten / 10), ThresholdCurve(np.array([12.0, 14.0, 16.0]), 0 * ten)
    assert low.below(high).positive.tolist() == [False, True, True]
    assert high.below(low).negative.tolist() == [False, True, True]
    assert not high.below(low).positive.any()
    # Twice ten, with twice its noise, less 12, 14 and 16.
    assert high.below(low, 2.0).estimate.tolist() == [8.0, 6.0, 4.0]
    assert high.below(low, 2.0).noise.tolist() == [2.0, 2.0, 2.0]


def test_steps_and_logarithms_have_the_noise_of_both_errors():
    """A rise is a negative fall; a logarithm's error is the relative one."""
    curve = ThresholdCurve(np.array([1.0, 1.2, 2.0]), np.full(3, 0.1))
    assert curve.falls().estimate == pytest.approx([-0.2, -0.8])
    assert curve.falls().noise == pytest.approx(0.1 * 2**0.5)
    assert curve.falls().negative.tolist() == [False, True]
    rival = ThresholdCurve(np.array([2.0, 2.4, 4.0]), np.zeros(3))
    assert curve.log_below(rival).estimate == pytest.approx(np.log(2))
    assert curve.log_below(rival).noise == pytest.approx([0.1, 0.1 / 1.2, 0.05])


def test_a_line_has_its_interval():
    """The ends are 1.96 standard errors away, and never below zero."""
    error = np.linspace(10, 0.1, wc.X.size)
    line = ThresholdCurve(error, np.ones(wc.X.size)).line("it", "ours")
    assert (line.name, line.whose) == ("it", "ours")
    assert line.high - line.y == pytest.approx(1.96)
    assert line.low[0] == pytest.approx(8.04)
    assert line.low[-1] == 0
