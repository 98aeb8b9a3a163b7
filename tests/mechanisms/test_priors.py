"""Tests of `hexveil.mechanisms.priors`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.mechanisms import priors
from hexveil.mechanisms.priors import Normal, PerUser, Uniform, UnknownRange, draw_user_means
from hexveil.simulation import value_distributions as of_experiments

COUNTS = np.array([3, 1, 2])
KINDS = [
    Normal(2, 4),
    Uniform(-1, 9),
    Uniform(),
    UnknownRange(-1, 9),
    PerUser(),
    PerUser(Normal(2, 4)),
    PerUser(UnknownRange()),
]


def naive_means(samples, counts, bounds):
    """Return means of projected samples by loops."""
    rows = []
    for row in samples:
        inside, means = [min(max(x, bounds[0]), bounds[1]) for x in row], []
        for count in counts:
            means.append(sum(inside[:count]) / count)
            inside = inside[count:]
        rows.append(means)
    return np.array(rows)


@pytest.mark.parametrize("values", KINDS, ids=str)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 99))
def test_user_means_are_means_of_projected_samples(values, counts, seed):
    """Drawing user means gives what drawing, projecting and averaging the samples gives."""
    sizes, bounds = np.array(counts), (0.0, 5.0)
    found = draw_user_means(values, sizes, bounds, np.random.default_rng(seed), 4)
    samples = priors.within_bounds(values, bounds).draw(np.random.default_rng(seed), sizes, 4)
    assert samples.shape == (4, sum(counts))
    assert found == pytest.approx(naive_means(samples, counts, bounds), abs=1e-12)


def test_samples_have_the_stated_moments():
    """Means and standard deviations are the stated ones, within 5 standard errors."""
    many = np.array([100_000])
    for values, mean, sd in (
        (Normal(2, 4), 2, 4),
        (Uniform(-1, 9), 4, 10 / 12**0.5),
        (Uniform().within((2, 4)), 3, 2 / 12**0.5),
    ):
        samples = values.draw(np.random.default_rng(1), many, 1)
        assert samples.mean() == pytest.approx(mean, abs=5 * sd / 100_000**0.5)
        assert samples.std() == pytest.approx(sd, rel=0.02)


def test_uniform_without_numbers_is_over_the_bounds():
    """It is the distribution between the bounds, and cannot draw before it is told them."""
    drawn = [
        draw_user_means(values, COUNTS, (-3, 5), np.random.default_rng(1), 100)
        for values in (Uniform(), Uniform(-3, 5))
    ]
    assert (drawn[0] == drawn[1]).all()
    assert Uniform(1, 2).within((-3, 5)) == Uniform(1, 2)
    with pytest.raises(hv.InputError, match=r"name them by \.within"):
        Uniform().draw(np.random.default_rng(1), COUNTS, 1)


@pytest.mark.slow
def test_the_ends_of_an_unknown_range_are_uniform():
    """Over trials a sample has the moments of a mixture; inside one it is uniform.

    With U and V the ends and W a share, U + (V - U) W has mean 1/2 and variance 1/18.
    """
    samples = UnknownRange(0, 1).draw(np.random.default_rng(1), np.array([4000]), 2000)
    centre = samples - samples.mean(axis=1, keepdims=True)
    assert samples.min() >= 0
    assert samples.max() <= 1
    assert samples.mean() == pytest.approx(1 / 2, abs=5 * (1 / 24 / 2000) ** 0.5)
    assert samples.var() == pytest.approx(1 / 18, rel=0.1)
    widths = np.ptp(samples, axis=1)
    assert widths.mean() == pytest.approx(1 / 3, rel=0.1)
    assert centre.std(axis=1) / widths == pytest.approx(1 / 12**0.5, rel=0.1)


def test_an_unknown_range_lies_within_the_bounds():
    """Without numbers it is told the bounds, even inside PerUser."""
    assert PerUser(UnknownRange()).within((-3, 5)) == PerUser(UnknownRange(-3, 5))
    with pytest.raises(hv.InputError, match=r"UnknownRange\(\) draws within the bounds"):
        UnknownRange().draw(np.random.default_rng(1), COUNTS, 1)


def test_per_user_gives_all_samples_of_a_user_one_value():
    """Samples of a user are equal, users differ, and few numbers are drawn."""
    samples = PerUser(Normal(2, 4)).draw(np.random.default_rng(1), COUNTS, 2)
    assert (np.diff(samples, axis=1)[:, [0, 1, 4]] == 0).all()
    assert (np.diff(samples, axis=1)[:, [2, 3]] != 0).all()
    assert priors.numbers_per_trial(PerUser(), COUNTS) == 3
    assert priors.numbers_per_trial(Uniform(), COUNTS) == 6


def test_per_user_spreads_where_independent_samples_do_not():
    """A user's mean over 400 uniform samples has 1/20 of the spread of a value of its own."""
    spread = [
        draw_user_means(v, np.array([400]), (0, 1), np.random.default_rng(1), 4000).std()
        for v in (PerUser(), Uniform())
    ]
    assert spread[0] / spread[1] == pytest.approx(20, rel=0.1)


def test_studies_use_the_same_distributions():
    """The distributions of studies are these, not copies."""
    for name in ("Normal", "Uniform", "ValueDistribution", "draw_user_means"):
        assert getattr(of_experiments, name) is getattr(priors, name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Normal(np.nan, 1), "finite mean and a finite sd"),
        (lambda: Normal(0, -1), "sd of at least 0"),
        (lambda: Uniform(2, 1), "the lower one first"),
        (lambda: Uniform(1), "two finite numbers"),
        (lambda: Uniform(0, np.inf), "two finite numbers"),
        (lambda: UnknownRange(2, 1), "UnknownRange needs two finite numbers"),
        (lambda: UnknownRange(high=1), "the lower one first, or none"),
        (lambda: PerUser(3), r"PerUser needs a distribution like Normal\(20, 10\), got 3"),
    ],
)
def test_numbers_without_meaning_are_refused(make, message):
    """Each wrong argument is one sentence that says what is needed."""
    with pytest.raises(hv.InputError, match=message):
        make()
