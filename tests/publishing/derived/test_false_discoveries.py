"""False discovery control against its definition, and its rate under independent noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.publishing.derived.release_comparison import find_discoveries

P_VALUES = st.lists(st.floats(min_value=0.0, max_value=1.0), max_size=8)


@given(P_VALUES, st.booleans())
def test_it_is_the_step_up_procedure(p_values, are_independent):
    """The largest k with p_(k) <= k q / (m c) is searched, and the k smallest are rejected."""
    p_value, rate = np.array(p_values), 0.2
    count = len(p_values)
    divisor = 1.0 if are_independent else sum(1 / k for k in range(1, count + 1))
    kept = 0
    for k in range(1, count + 1):
        if np.sum(p_value <= rate * k / (count * divisor)) >= k:
            kept = k
    found = find_discoveries(p_value, rate, are_independent=are_independent)
    limit = rate * kept / (count * divisor) if kept else -1.0
    assert found.tolist() == (p_value <= limit).tolist()


def test_the_rate_holds():
    """With three of four cells unchanged, the mean share of false calls is 0.75 of the rate."""
    rng, rate, runs, shares = np.random.default_rng(11), 0.2, 3000, []
    for _ in range(runs):
        p_value = np.append(rng.uniform(size=30), rng.uniform(size=10) * 1e-3)
        found = find_discoveries(p_value, rate, are_independent=True)
        shares.append(found[:30].sum() / max(1, found.sum()))
    # Benjamini and Hochberg's equality for independent p-values; a fixed seed draws the same runs.
    assert np.mean(shares) == pytest.approx(0.75 * rate, abs=0.01)
