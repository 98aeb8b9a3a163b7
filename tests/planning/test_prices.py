"""Prices go the way that people expect: less error costs no less, more epsilon errs no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from strategies import occupancies

CLOSE = 3e-3
"""The width at which a search ends (2e-3), and what its last steps leave undecided."""


def planned(counts, **options):
    """Return a plan on bounds of width 1, without advice."""
    return hv.plan(counts, bounds=(0, 1), advise=False, **options)


@pytest.mark.slow
@given(counts=occupancies(), errors=st.tuples(st.floats(0.03, 0.45), st.floats(1.0, 4.0)))
@examples(20)
def test_a_tighter_target_never_costs_less(counts, errors):
    """The least epsilon for an error is at least that for a larger one."""
    tight, wide = errors[0], min(errors[0] * errors[1], 0.49)
    costs = [float(planned(counts, target_error=error).epsilon) for error in (tight, wide)]
    assert costs[0] >= costs[1] * (1 - CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mean", "max"])
@given(counts=occupancies(), epsilons=st.tuples(st.floats(0.1, 4.0), st.floats(1.0, 4.0)))
@examples(20)
def test_more_epsilon_never_errs_more(objective, counts, epsilons):
    """The expected error of what is minimised falls with epsilon."""
    name = {"mean": "expected_error", "max": "worst_case_error"}[objective]
    plans = (
        planned(counts, epsilon=epsilon, objective=objective)
        for epsilon in (epsilons[0], epsilons[0] * epsilons[1])
    )
    little, much = (float(np.max(getattr(plan, name))) for plan in plans)
    assert much <= little * (1 + CLOSE)
