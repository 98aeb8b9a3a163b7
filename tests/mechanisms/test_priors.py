"""Tests of `hexveil.mechanisms.priors`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.mechanisms import priors
from hexveil.mechanisms.priors import Normal, PerUser, Uniform, UnknownRange, draw_user_means

COUNTS = np.array([3, 1, 2])
KINDS = [
    Normal(2, 4), Uniform(-1, 9), Uniform(), UnknownRange(-1, 9), PerUser(), PerUser(Normal(2, 4)),
    PerUser(UnknownRange()),
]  # fmt: skip


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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform().draw(np.random.default_rng(1), COUNTS, 1), r"name them by \.within"),
        (
            lambda: UnknownRange().draw(np.random.default_rng(1), COUNTS, 1),
            r"UnknownRange\(\) draws",
        ),
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
