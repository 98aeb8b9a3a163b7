"""Mechanisms by name and from text; a new one is a class and a line of the registry."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import mechanisms
from hexveil.base.errors import InputError
from hexveil.mechanisms import REGISTRY, CellMechanism, parse
from hexveil.mechanisms.contract import EstimateGrid, ProvenError
from hexveil.mechanisms.single_cell.cell_allocation import LN20, CellAllocation, CellProblem
from hexveil.mechanisms.single_cell.linear.linear_sum import LinearSum
from stage_laws import ExactLoss, Problem


@pytest.mark.parametrize("name", REGISTRY)
def test_every_mechanism_reads_its_own_name(name):
    """The repr of a mechanism, at its defaults, is read as that mechanism."""
    default = parse(name)
    assert type(default) is REGISTRY[name]
    assert parse(repr(default)) == default
    assert getattr(hv, name) is REGISTRY[name]


def test_the_registry_has_every_mechanism():
    """Every public class that allocates a cell has a line in the registry, under its own name."""
    public = {
        name
        for name in mechanisms.__all__
        if isinstance(kind := getattr(mechanisms, name), type)
        and issubclass(kind, CellMechanism)
        and kind is not CellMechanism
    }
    assert public == set(REGISTRY)
    assert all(kind.__name__ == name for name, kind in REGISTRY.items())


@pytest.mark.parametrize(
    "mechanism",
    [
        hv.Levy(gamma=0.05, cap=7),
        hv.Levy(gamma="1/3", split="0.25"),
        hv.FixedQuantile(0.25, 0.75, split="0.3"),
        hv.ArrayAveraging(grouping="wrap_around", cap="sqrt"),
        hv.AKMV(split="1/3", candidates=9),
        hv.Foresight(spreads=(0.01, 0.1), within=0.2),
        hv.Auto(prior=hv.Normal(20, 10), trials=64),
        hv.Auto(prior=hv.PerUser(hv.Uniform(-3, 5)), candidates=[hv.Baseline(), hv.AKMV()]),
    ],
    ids=repr,
)
def test_repr_is_the_inverse(mechanism):
    """Options by position and by name, tuples, distributions and candidates are read back."""
    assert parse(f"  {mechanism!r} ") == mechanism


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("levy", "there is no 'levy'; known are Baseline, "),
        ("Levy(gama=0.2)", r"an option that Levy does not take; its options are gamma, grouping, "),
        ("Baseline(1)", "its options are none"),
        ("Levy(0.2, gamma=0.3)", "an option that Levy does not take"),
        ("Levy(gamma=7)", "gamma must be above 0 and at most 1, got 7"),
        ("Levy(gamma=[0.2])", "a mechanism reads like"),
        ("Levy(gamma=open('x'))", "there is no 'open'"),
        ("Levy(gamma=1+1)", "a mechanism reads like"),
        ("Levy.plan", "a mechanism reads like"),
        ("Levy(**{'gamma': 0.2})", "a mechanism reads like"),
        ("__import__('os')", "there is no '__import__'"),
        ("Levy(" + "(" * 2000, "a mechanism reads like"),
    ],
)
def test_anything_else_is_refused(text, message):
    """Wrong names and options, and whatever would have to be evaluated: one short sentence."""
    with pytest.raises(InputError, match=message) as error:
        parse(text)
    assert len(str(error.value)) < 600


# ---- a new mechanism: one file, which this stands for, and one line of the registry ----


@dataclass(frozen=True, eq=False)
class MeanOfUserMeans(CellAllocation):
    """Every user counts the same: Σ floor(s/m) over the number of users."""

    kind = "mean-of-user-means"

    def estimate(self, outputs):
        """Return the estimates: see `CellAllocation.estimate`."""
        return outputs["mean"][:, 0] / (1024 * self.cell.counts.size)

    def sensitivity(self, width):
        """Return U/L."""
        return width / self.cell.counts.size

    def error(self, width):
        """Return the proven error: see `CellAllocation.error`."""
        share = self.cell.counts / self.cell.total
        bias = width * float(np.maximum(share - 1 / share.size, 0).sum())
        scale = self.sensitivity(width) / float(self.epsilon)
        return ProvenError(np.array([scale]), np.array([bias]), np.array([bias + scale * LN20]))

    def grid(self):
        """Return multiples of a part of a quantum over L."""
        return EstimateGrid(np.zeros(1), np.array([1 / (1024 * self.cell.counts.size)]))


@dataclass(frozen=True, repr=False)
class UserAverage(CellMechanism):
    """The mean of user means, each to 1/1024 of a quantum."""

    def allocate_cell(self, cell, epsilon):
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        weight = np.full_like(cell.counts, 1024)
        ends = np.zeros_like(weight), weight * cell.span
        stage = LinearSum("mean", cell.counts, weight, *ends, cell.span, epsilon)
        return MeanOfUserMeans(cell, epsilon, (stage,))


def test_a_new_mechanism_is_a_class_and_a_line(monkeypatch):
    """It is parsed, planned, evaluated, compared by Auto, run on a map, and its law is exact."""
    monkeypatch.setitem(REGISTRY, "UserAverage", UserAverage)
    mechanism = parse("UserAverage()")
    assert repr(mechanism) == "UserAverage()"
    counts, means = [9, 4, 2, 1], [10.0, 20.0, 30.0, 60.0]
    plan = mechanism.plan(counts, bounds=(0, 65), epsilon=1)
    table = hv.evaluate(
        [mechanism, hv.Baseline()], counts=counts, user_means=means, bounds=(0, 65), epsilons=[1],
        trials=4000,
    )  # fmt: skip
    gap = abs(np.mean(means) - np.average(means, weights=counts))
    scale = 65 / 4
    expected = gap + scale * np.exp(-gap / scale)
    error, deviation = table["mae"][0].as_py(), table["standard_error"][0].as_py()
    assert abs(error - expected) < 5 * deviation
    assert gap <= plan.worst_case_bias
    auto = hv.Auto(hv.Normal(32, 1), [mechanism, hv.Baseline()])
    assert auto.plan(counts, bounds=(0, 65), epsilon="0.1").chosen == mechanism
    cell = CellProblem(np.array([2, 1, 1]), Fraction(0), Fraction(1), 3)
    allocation = mechanism.allocate_cell(cell, Fraction(2))
    exact = ExactLoss(Problem((2, 1, 1), 3), allocation)
    assert exact.worst == pytest.approx(allocation.losses())
    assert exact.worst == pytest.approx([2, 2, 2])
