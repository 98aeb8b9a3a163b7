"""Mechanisms by name and from text; a new one is a class and a line of the registry."""

import inspect
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import mechanisms
from hexveil.base.errors import InputError
from hexveil.mechanisms import REGISTRY, CellMechanism, parse
from hexveil.mechanisms.single_cell import CellProblem
from stage_laws import ExactLoss, Problem
from user_average import UserAverage


@pytest.mark.parametrize("name", REGISTRY)
def test_every_mechanism_reads_its_own_name(name):
    """The repr of a mechanism, at its defaults, is read as that mechanism."""
    default = parse(name)
    assert type(default) is REGISTRY[name]
    assert parse(repr(default)) == default
    assert getattr(hv.mechanisms, name) is REGISTRY[name]


def test_the_registry_has_every_mechanism():
    """Every public class that allocates a cell has a line in the registry, under its own name."""
    public = {
        name
        for name in mechanisms.__all__
        if isinstance(kind := getattr(mechanisms, name), type)
        and issubclass(kind, CellMechanism)
        and not inspect.isabstract(kind)
    }
    assert public == set(REGISTRY)
    assert all(kind.__name__ == name for name, kind in REGISTRY.items())


@pytest.mark.parametrize(
    "mechanism",
    [
        hv.mechanisms.Levy(gamma=0.05, cap=7),
        hv.mechanisms.Levy(gamma="1/3", split="0.25"),
        hv.mechanisms.Levy(interval="unclamped", arrays="full"),
        hv.mechanisms.OptArrayAveraging("minimax_std"),
        hv.mechanisms.FixedQuantile(0.25, 0.75, split="0.3"),
        hv.mechanisms.ArrayAveraging(grouping="wrap_around", cap="sqrt"),
        hv.mechanisms.AKMV(split="1/3", candidates=9),
        hv.mechanisms.OptimizedQuantile(cap=1, candidates=7),
        hv.mechanisms.Auto(prior=hv.evaluation.Normal(20, 10), trials=64),
        hv.mechanisms.Auto(
            prior=hv.evaluation.PerUser(hv.evaluation.Uniform(-3, 5)),
            candidates=[hv.mechanisms.Baseline(), hv.mechanisms.AKMV()],
        ),
    ],
    ids=repr,
)
def test_repr_is_the_inverse(mechanism):
    """Options by position and by name, tuples, distributions and candidates are read back."""
    assert parse(f"  {mechanism!r} ") == mechanism
    assert repr(mechanism) == mechanism.name
    assert len({mechanism, parse(mechanism.name)}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("levy", "there is no 'levy'; available: Baseline, "),
        ("Levy(gama=0.2)", r"an option that Levy does not take; its options are gamma, grouping, "),
        ("Levy(0.2, gamma=0.3)", "an option that Levy does not take"),
        ("Levy(gamma=7)", "gamma must be above 0 and at most 1, got 7"),
        ("Levy(gamma=[0.2])", "a mechanism reads like"),
        ("Levy(gamma=open('x'))", "there is no 'open'"),
        ("Levy.plan", "a mechanism reads like"),
        ("Levy(**{'gamma': 0.2})", "a mechanism reads like"),
        ("__import__('os')", "there is no '__import__'"),
        ("Levy(" + "(" * 2000, "a mechanism reads like"),
        ("ArrayAveraging('worst_fit')", 'grouping must be "best_fit" or "wrap_around"'),
        ("ArrayAveraging(cap='mean')", "one of median, sqrt, minimax, minimax_std, surr"),
        ("ArrayAveraging(cap=0)", "cap must be a whole number of at least 1, got 0"),
        ("ArrayAveraging('wrap_around', 'exact')", 'is the best for grouping "best_fit"'),
        ("OptArrayAveraging('mean')", "objective must be one of minimax, minimax_std"),
        ("Levy(split=1)", "split must lie between 0 and 1, got 1"),
        ("Levy(interval='free')", 'interval must be "clamped" or "unclamped"'),
        ("Levy(arrays='all')", 'arrays must be "used" or "full"'),
        ("FixedQuantile(0.9, 0.1)", "quantiles must run from the lower to the higher"),
        ("FixedQuantile(candidates=0)", "candidates must be a whole number of at least 1"),
        ("AKMV(split='a half')", "split must be a finite number"),
        (
            "Auto(prior='uniform')",
            r"Auto needs a distribution like Normal\(20, 10\), got 'uniform'",
        ),
        ("Auto(candidates=())", "at least one candidate"),
        ("Auto(candidates=(3,))", "got 3"),
        ("Auto(candidates=(Levy(), Levy(gamma=0.2)))", "named twice"),
        ("Auto(trials=1)", "trials must be a whole number of at least 2, got 1"),
    ],
)
def test_anything_else_is_refused(text, message):
    """Wrong names and options, and whatever would have to be evaluated: one short sentence."""
    with pytest.raises(InputError, match=message) as error:
        parse(text)
    assert len(str(error.value)) < 600


# ---- a new mechanism: one file, tests/user_average.py, and one line of the registry ----


@pytest.fixture
def mechanism(monkeypatch):
    """Add the line to the registry, and return the mechanism by its text."""
    monkeypatch.setitem(REGISTRY, "UserAverage", UserAverage)
    return parse("UserAverage()")


def test_a_new_mechanism_is_studied(mechanism):
    """It is parsed, planned, evaluated, and compared by Auto."""
    assert repr(mechanism) == "UserAverage()"
    counts, means = [9, 4, 2, 1], [10.0, 20.0, 30.0, 60.0]
    plan = mechanism.plan(counts, bounds=(0, 65), epsilon=1)
    table = hv.evaluation.evaluate(
        [mechanism, hv.mechanisms.Baseline()], counts=counts, user_means=means, bounds=(0, 65),
        epsilons=[1], trials=4000,
    )  # fmt: skip
    gap = abs(np.mean(means) - np.average(means, weights=counts))
    scale = 65 / 4
    expected = gap + scale * np.exp(-gap / scale)
    error, deviation = table["mae"][0].as_py(), table["standard_error"][0].as_py()
    assert abs(error - expected) < 5 * deviation
    assert gap <= plan.worst_case_bias
    auto = hv.mechanisms.Auto(hv.evaluation.Normal(32, 1), [mechanism, hv.mechanisms.Baseline()])
    assert auto.plan(counts, bounds=(0, 65), epsilon="0.1").chosen == mechanism


def test_a_new_mechanism_loses_what_it_states(mechanism):
    """Over all neighbours and all outcomes of a small cell: epsilon for each user, exactly."""
    cell = CellProblem(np.array([2, 1, 1]), Fraction(0), Fraction(1), 3)
    allocation = mechanism.allocate_cell(cell, Fraction(2))
    exact = ExactLoss(Problem((2, 1, 1), 3), allocation)
    assert exact.worst == pytest.approx(allocation.losses())
    assert exact.worst == pytest.approx([2, 2, 2])
