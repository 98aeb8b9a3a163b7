"""The cases of the audit: neighbours, claims that are the plans' own, pairs that are tight."""

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.selection import Choice, MidpointChoice, RankChoice
from hexveil_research.audit.cases import suite
from hexveil_research.audit.run import exact_loss
from hexveil_research.audit.twins import applicable

CASES = suite()
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each
def test_inputs_are_neighbours(case):
    """One user's mean differs; of the values that a choice ranks, one, or two under WRAPAROUND."""
    one, other = case.pair
    moved = int((one != other).sum())
    wrapped = "wrap_around" in case.name and isinstance(case.subject, Choice)
    assert moved == (2 if wrapped else 1)
    if not isinstance(case.subject, Choice):
        bounds = (case.subject.lower, case.subject.upper)
        assert min(one.min(), other.min()) >= bounds[0]
        assert max(one.max(), other.max()) <= bounds[1]


@each
def test_claims_are_those_of_the_plans(case):
    """A plan claims its ε, a choice its part of it, and no claim is above 2."""
    assert 0 < case.claim <= 2
    if not isinstance(case.subject, Choice):
        assert case.claim == float(case.subject.epsilon)
        return
    costs = [case.subject.costs(values) for values in case.pair]
    moved = 2 if "wrap_around" in case.name else 1
    assert np.abs(costs[0] - costs[1]).max() == moved
    assert case.claim == pytest.approx(2 * moved / case.subject.scale)


@each
def test_pairs_are_near_tight(case):
    """By exact laws the events show at least 70 percent of the claim, and never more than it."""
    assert 0.7 * case.claim < exact_loss(case) <= case.claim * (1 + 1e-9)


def test_most_pairs_are_tight():
    """In most cases the events show 95 percent of the claim and more."""
    shares = [exact_loss(case) / case.claim for case in CASES]
    assert np.median(shares) > 0.99
    assert np.mean(np.array(shares) > 0.95) > 0.7


def test_every_mechanism_is_audited():
    """Each mechanism of one cell, both groupings, and both kinds of choice have a case."""
    names = {case.name.split("(")[0] for case in CASES}
    assert names >= {
        type(mechanism).__name__
        for mechanism in (
            hv.Baseline(),
            hv.ArrayAveraging(),
            hv.Levy(),
            hv.FixedQuantile(),
            hv.OptimizedQuantile(),
            hv.OptArrayAveraging(),
            hv.OptimalClipping(),
            hv.AKMV(),
        )
    }
    for kind in (RankChoice, MidpointChoice):
        found = [case for case in CASES if isinstance(case.subject, kind)]
        assert {"wrap_around" in case.name for case in found} == {True, False}
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_twin_is_expected_somewhere():
    """For each mechanism, and for its choices alone, some case is to catch each twin there is."""
    to_catch, there_are = {}, {}
    for case in CASES:
        key = case.name.split("(")[0], isinstance(case.subject, Choice)
        to_catch.setdefault(key, set()).update(case.catches)
        there_are.setdefault(key, set()).update(applicable(case.subject))
    assert to_catch == there_are


def test_a_plan_without_a_choice_has_none_to_audit(monkeypatch):
    """If LEVY came to have one bin here, the suite would say so and not skip its choice."""
    monkeypatch.setattr("hexveil.mechanisms.levy.math.sqrt", lambda _: 1.0)
    with pytest.raises(ValueError, match="makes no choice, so there is none to audit"):
        suite()
