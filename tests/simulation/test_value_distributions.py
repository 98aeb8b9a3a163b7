"""Tests of `hexveil.simulation.value_distributions`: mean and spread of draws."""

import math

import numpy as np
import pytest

from hexveil.base.errors import InputError
from hexveil.simulation.value_distributions import (
    KINDS,
    Drift,
    Heterogeneous,
    Normal,
    StudentT,
    Uniform,
    draw_user_means,
)

COUNTS = np.array([3, 1, 4])
TRIALS = 20_000


def samples(values, seed=1):
    """Return samples of all trials, user by user."""
    return values.draw(np.random.default_rng(seed), COUNTS, TRIALS)


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        (Normal(20, 10), 20, 10),
        (Uniform(10, 40), 25, 30 / math.sqrt(12)),
        (Heterogeneous(20, 8, 6), 20, 10),
        (StudentT(20, 6, 8), 20, 6 * math.sqrt(8 / 6)),
        (Drift(20, 20, 10), 20, 10),
    ],
    ids=repr,
)
def test_samples_have_the_stated_mean_and_spread(values, mean, sd):
    """Per sample, within 5 standard errors; 5% off would be rejected."""
    drawn = samples(values)
    assert drawn.shape == (TRIALS, 8)
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * sd / math.sqrt(TRIALS)
    assert drawn.std(axis=0) == pytest.approx(np.full(8, sd), rel=0.05)


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_kind_is_checked_here(kind):
    """A new distribution is entered in the test of means and spreads."""
    assert kind in {Normal, Uniform, Heterogeneous, StudentT, Drift}


def test_a_users_samples_share_its_level():
    """Two samples of one user correlate by between²/(between² + within²), of two users not."""
    seen = np.corrcoef(samples(Heterogeneous(20, 8, 6)), rowvar=False)
    user = np.repeat(np.arange(3), COUNTS)
    expected = np.where(user[:, None] == user, 0.64, 0.0) + 0.36 * np.eye(8)
    assert np.abs(seen - expected).max() < 5 / math.sqrt(TRIALS)


def test_independent_samples_do_not_correlate():
    """Samples of a plain distribution are independent within a user, too."""
    seen = np.corrcoef(samples(Normal(20, 10)), rowvar=False)
    assert np.abs(seen - np.eye(8)).max() < 5 / math.sqrt(TRIALS)


def test_student_has_heavy_tails():
    """Beyond five standard deviations lie far more samples than a normal distribution has."""
    far = np.abs(samples(StudentT(0, 1, 3)) / math.sqrt(3)) > 5
    assert 0.001 < far.mean() < 0.01  # P(|t_3| > 8.66) = 0.0032; normal: 6e-7


def test_a_drift_moves_along_the_samples():
    """The j-th samples of all users have one level, the last of the largest user the end's."""
    level = samples(Drift(10, 40, 1)).mean(axis=0)
    expected = [10, 20, 30, 10, 10, 20, 30, 40]
    assert np.abs(level - expected).max() < 5 / math.sqrt(TRIALS)


def test_a_drift_of_one_sample_each_stays_at_its_start():
    """Without a second moment there is no way to go."""
    drawn = Drift(10, 40, 0).draw(np.random.default_rng(1), np.array([1, 1]), 2)
    assert drawn.tolist() == [[10.0, 10.0]] * 2


def test_user_means_average_projected_samples():
    """Samples above the upper bound count as the bound in every user's mean."""
    generator = np.random.default_rng(0)
    means = draw_user_means(Uniform(70, 80), np.array([9, 3, 1]), (0.0, 65.0), generator, 4)
    assert means.tolist() == [[65.0] * 3] * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: Heterogeneous(20, -1, 1),
        lambda: Heterogeneous(20, 1, -1),
        lambda: Heterogeneous(math.inf, 1, 1),
        lambda: StudentT(20, -1, 3),
        lambda: StudentT(20, 1, 2),
        lambda: StudentT(20, 1, math.nan),
        lambda: Drift(10, math.nan, 1),
        lambda: Drift(10, 20, -1),
    ],
)
def test_impossible_distributions_are_refused(make):
    """A negative spread, too few degrees or a number that is none is one clear sentence."""
    with pytest.raises(InputError, match=r"^\w+ needs [^.]*( [\d.]+)?[^.]*\.$"):
        make()
