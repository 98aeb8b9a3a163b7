"""Tests of `hexveil.simulation.value_distributions`: mechanisms and values from text."""

import re

import pytest

import hexveil as hv
from hexveil.base.errors import InputError
from hexveil.mechanisms import REGISTRY
from hexveil.simulation import value_distributions
from hexveil.simulation.value_distributions import Drift, Heterogeneous, StudentT


@pytest.mark.parametrize("name", REGISTRY)
def test_every_mechanism_reads_its_own_name(name):
    """What a table calls a mechanism is read as that mechanism."""
    default = value_distributions.mechanism(name)
    assert value_distributions.mechanism(default.name) == default


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
    assert value_distributions.mechanism(f"  {made.name} ") == made


def test_the_papers_mechanisms_are_known():
    """Every mechanism of the papers can be named."""
    papers = {
        "Baseline", "ArrayAveraging", "Levy", "FixedQuantile", "OptimizedQuantile",
        "OptArrayAveraging", "OptimalClipping", "AKMV",
    }  # fmt: skip
    assert papers <= set(REGISTRY)


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
    with pytest.raises(InputError) as error:
        value_distributions.mechanism(text)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("normal:20,10", hv.evaluation.Normal(20, 10)),
        ("Uniform: 0, 65", hv.evaluation.Uniform(0, 65)),
        ("heterogeneous:20,8,5", Heterogeneous(20, 8, 5)),
        ("student:20,5,3", StudentT(20, 5, 3)),
        ("drift:-10,4e1,5", Drift(-10, 40, 5)),
    ],
)
def test_values_are_read(text, made):
    """A kind and its numbers, in the order of the distribution's parameters."""
    assert value_distributions.values(text) == made


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
    with pytest.raises(InputError, match=re.escape(message)):
        value_distributions.values(text)
