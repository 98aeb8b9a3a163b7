"""Tests of `hexveil.evaluation`: mean and spread of draws."""

import math
import re

import numpy as np
import pytest

import hexveil as hv
from hexveil import evaluation
from hexveil.mechanisms import REGISTRY

COUNTS = np.array([3, 1, 4])
TRIALS = 20_000


def samples(values, seed=1):
    """Return samples of all trials, user by user."""
    return values.draw(np.random.default_rng(seed), COUNTS, TRIALS)


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        (hv.evaluation.Normal(20, 10), 20, 10),
        (hv.evaluation.Uniform(10, 40), 25, 30 / math.sqrt(12)),
        (hv.evaluation.Heterogeneous(20, 8, 6), 20, 10),
        (hv.evaluation.StudentT(20, 6, 8), 20, 6 * math.sqrt(8 / 6)),
        (hv.evaluation.Drift(20, 20, 10), 20, 10),
    ],
    ids=repr,
)
def test_samples_have_the_stated_mean_and_spread(values, mean, sd):
    """Per sample, within 5 standard errors; 5% off would be rejected."""
    drawn = samples(values)
    assert drawn.shape == (TRIALS, 8)
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * sd / math.sqrt(TRIALS)
    assert drawn.std(axis=0) == pytest.approx(np.full(8, sd), rel=0.05)


def test_a_users_samples_share_its_level():
    """Two samples of one user correlate by between²/(between² + within²), of two users not."""
    seen = np.corrcoef(samples(hv.evaluation.Heterogeneous(20, 8, 6)), rowvar=False)
    user = np.repeat(np.arange(3), COUNTS)
    expected = np.where(user[:, None] == user, 0.64, 0.0) + 0.36 * np.eye(8)
    assert np.abs(seen - expected).max() < 5 / math.sqrt(TRIALS)


def test_a_drift_moves_along_the_samples():
    """The j-th samples of all users have one level, the last of the largest user the end's."""
    level = samples(hv.evaluation.Drift(10, 40, 1)).mean(axis=0)
    expected = [10, 20, 30, 10, 10, 20, 30, 40]
    assert np.abs(level - expected).max() < 5 / math.sqrt(TRIALS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: hv.evaluation.Heterogeneous(20, -1, 1),
        lambda: hv.evaluation.Heterogeneous(20, 1, -1),
        lambda: hv.evaluation.Heterogeneous(math.inf, 1, 1),
        lambda: hv.evaluation.StudentT(20, -1, 3),
        lambda: hv.evaluation.StudentT(20, 1, 2),
        lambda: hv.evaluation.StudentT(20, 1, math.nan),
        lambda: hv.evaluation.Drift(10, math.nan, 1),
        lambda: hv.evaluation.Drift(10, 20, -1),
    ],
)
def test_impossible_distributions_are_refused(make):
    """A negative spread, too few degrees or a number that is none is one clear sentence."""
    with pytest.raises(hv.InputError, match=r"^\w+ needs [^.]*( [\d.]+)?[^.]*\.$"):
        make()


# ---- Tests of `hexveil.evaluation`: mechanisms and values from text ----


@pytest.mark.parametrize("name", REGISTRY)
def test_every_mechanism_reads_its_own_name(name):
    """What a table calls a mechanism is read as that mechanism."""
    default = evaluation.mechanism(name)
    assert evaluation.mechanism(default.name) == default


@pytest.mark.parametrize(
    "made",
    [
        hv.mechanisms.Levy(gamma=0.05, cap=7),
        hv.mechanisms.FixedQuantile(0.25, 0.75, split="0.3"),
        hv.mechanisms.ArrayAveraging(grouping="wrap_around", cap="sqrt"),
        hv.mechanisms.AKMV(split="1/3"),
        hv.mechanisms.Auto(prior=hv.evaluation.Normal(20, 10), trials=64),
    ],
    ids=repr,
)
def test_options_are_read(made):
    """Numbers, words, by position and by name."""
    assert evaluation.mechanism(f"  {made.name} ") == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Levy(",
        "Levy(gamma=0.2",
        "levy",
        "Named",
        "NoiseSource()",
        "__import__('os')",
        "Levy.plan",
        "Levy(gamma=open('x'))",
        "Levy(gamma=[0.2])",
        "Levy(**{'gamma': 0.2})",
        "Levy(*(1, 2))",
        "Levy(gamma=1+1)",
        "Levy(gamma=0.2).plan",
        "Levy(gama=0.2)",
        "Levy(gamma=7)",
        "Levy(gamma=1e999)",
        "Levy(gamma=1j)",
        "Levy(gamma=None)",
        "Baseline(1)",
        "ArrayAveraging(cap='largest')",
        "Levy(gamma=0.2); x",
        "Levy(gamma=0.2)\x00",
        "1or 2",
        "(" * 150,
        "Levy(gamma=" + "9" * 5000 + ")",
    ],
)
def test_anything_else_is_refused(text):
    """Wrong names, options and whatever would have to be evaluated: one sentence each."""
    with pytest.raises(hv.InputError) as error:
        evaluation.mechanism(text)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("normal:20,10", hv.evaluation.Normal(20, 10)),
        ("Uniform: 0, 65", hv.evaluation.Uniform(0, 65)),
        ("heterogeneous:20,8,5", hv.evaluation.Heterogeneous(20, 8, 5)),
        ("student:20,5,3", hv.evaluation.StudentT(20, 5, 3)),
        ("drift:-10,4e1,5", hv.evaluation.Drift(-10, 40, 5)),
    ],
)
def test_values_are_read(text, made):
    """A kind and its numbers, in the order of the distribution's parameters."""
    assert evaluation.values(text) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gauss:20,10", "values must be one of normal:MEAN,SD, uniform:LOW,HIGH, "),
        ("", "values must be one of"),
        ("normal", "'normal' must have the form normal:MEAN,SD."),
        ("normal:20", "must have the form normal:MEAN,SD."),
        ("normal:20,10,5", "must have the form normal:MEAN,SD."),
        ("drift:1,x,3", "must have the form drift:START,END,SD."),
        ("normal:20,-1", "sd of at least 0"),
        ("normal:nan,1", "finite mean"),
    ],
)
def test_wrong_values_are_refused(text, message):
    """The sentence says how the kind is written."""
    with pytest.raises(hv.InputError, match=re.escape(message)):
        evaluation.values(text)
