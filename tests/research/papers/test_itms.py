"""Counts and speeds of a cell like the published one: every fact holds, whatever the seed."""

import json
from dataclasses import astuple, replace

import numpy as np
import pytest

import hexveil as hv
from hexveil import theory
from hexveil_research.papers import itms


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3, 8, 9, 123456])
def test_every_published_fact_holds_for_any_seed(seed):
    """217 users of 1 to 417 samples, 17166 in all, median 46, and 160 and 164 arrays."""
    m = itms.counts(seed)
    assert (m.size, m.max(), m.min(), m.sum()) == (217, 417, 1, 17166)
    assert (m >= 46).sum() == 109  # IOT's own definition of the median: half of the users
    cap = theory.sqrt_cap(m)
    assert np.minimum(m, cap).sum() // cap == 160
    assert theory.best_fit(m, cap).n_arrays == 164
    assert astuple(itms.facts(m)) == (217, 417, 1, 17166, 46, 160, 164)


def test_counts_that_were_made_elsewhere_have_the_same_facts(shared):
    """A list from another search agrees with what is published, too, and is another list."""
    other = np.array(json.loads((shared / "data" / "itms_like_counts.json").read_text()))
    assert itms.facts(other) == itms.PUBLISHED
    assert sorted(other.tolist()) != sorted(itms.counts().tolist())


def test_a_fact_can_fail():
    """One sample more, or a user moved over the median, and the facts are others."""
    m = itms.counts().copy()
    m[1] += 1
    assert itms.facts(m) == replace(itms.PUBLISHED, samples=17167)
    m = itms.counts().copy()
    m[108] -= 1
    assert itms.facts(m) != itms.PUBLISHED


def test_a_search_without_end_says_so(monkeypatch):
    """Without moves nothing is found, and the message names the seed."""
    monkeypatch.setattr(itms, "_STEPS", 1)
    monkeypatch.setattr(itms, "_STARTS", 1)
    with pytest.raises(hv.InputError, match="seed 0"):
        itms.counts.__wrapped__(0)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5])
def test_mixed_speeds_have_the_published_mean_and_variance(share):
    """Whatever part of the variance lies between users; every speed is within the bounds."""
    m = itms.counts()
    speeds = itms.mixed_speeds(m, 1, share)
    assert speeds.mean() == pytest.approx(20.66769, abs=1e-4)
    assert speeds.var() == pytest.approx(115.135, abs=1e-3)
    assert (speeds.min() >= 0, speeds.max() <= 65) == (True, True)
    means = itms.mixed_means(m, 1, share)
    assert means @ m == pytest.approx(speeds.sum())
    assert means[0] == pytest.approx(speeds[: m[0]].mean())


def test_users_differ_by_the_stated_share():
    """The variance of the means of users with many samples is about that share of all."""
    m = np.full(400, 1000)
    for share in (0.1, 0.5):
        means = itms.mixed_means(m, 0, share)
        assert means.var() / 115.135 == pytest.approx(share, rel=0.2)


def test_iid_means_are_those_of_projected_normal_samples():
    """Users hardly differ; the mean is a little above that of the unprojected ones."""
    m = np.full(200, 2000)
    means = itms.iid_means(m, 3)
    sd = 115.135**0.5
    draws = np.clip(np.random.default_rng(0).normal(20.66769, sd, 10**6), 0, 65)
    assert means.mean() == pytest.approx(draws.mean(), abs=0.1)
    assert means.std() == pytest.approx(draws.std() / 2000**0.5, rel=0.2)
    assert means.tolist() == itms.iid_means(m, 3).tolist()
