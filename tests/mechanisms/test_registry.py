"""Mechanisms by name and from text; a new one is a class and a line of the registry."""

import inspect

import pytest

import hexveil as hv
from hexveil import mechanisms
from hexveil.base.errors import InputError
from hexveil.mechanisms import REGISTRY, CellMechanism, parse


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
