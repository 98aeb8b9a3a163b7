"""False discovery control against its definition, and its rate under independent noise."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publishing.derived.chosen_cells import chosen, compared, with_columns

P_VALUES = st.lists(st.floats(min_value=1e-9, max_value=1.0), min_size=1, max_size=8)


HALF = np.log(20.0) / np.sqrt(2.0)
"""Half of an interval of two of which the root of squares is the bound of a Laplace number."""


@cache
def sides(kind, n_cells):
    """Return two releases without a change."""
    areas, noise = np.zeros(n_cells, dtype=int), {"mean_noisy": 20.0, "mean_bias": 0.0}
    if kind == "range":
        noise = {"mean_estimate": 20.0, "mean_low": 20.0 - HALF, "mean_high": 20.0 + HALF}
    scales = {"mean_scale": 1.0}, {"mean_scale": 0.0}
    return [chosen(kind, areas, request, **noise | scales[int(request)]) for request in "01"]


def changed(p_value, rate, kind="laplace"):
    """Return the p-values of changes with about these, and which are called changed."""
    number = 20.0 - np.log(p_value)
    before, after = sides(kind, number.size)
    columns = {"mean_noisy": number}
    if kind == "range":
        columns = {"mean_estimate": number, "mean_low": number - HALF, "mean_high": number + HALF}
    after = with_columns(after, **columns)
    changes, columns = compared(before, after, false_discovery_rate=rate)
    return changes, columns["p_value"], columns["verdict"] != "cannot be told"


@pytest.mark.parametrize("kind", ["laplace", "range"])
@given(P_VALUES)
def test_it_is_the_step_up_procedure(kind, p_values):
    """The largest k with p_(k) <= k q / (m c) is searched, and the k smallest are rejected."""
    rate, count = 0.2, len(p_values)
    changes, p_value, found = changed(np.array(p_values), rate, kind)
    if kind == "laplace":
        assert p_value == pytest.approx(p_values)
    divisor = 1.0 if kind == "laplace" else sum(1 / k for k in range(1, count + 1))
    kept = 0
    for k in range(1, count + 1):
        if np.sum(p_value <= rate * k / (count * divisor)) >= k:
            kept = k
    limit = rate * kept / (count * divisor) if kept else -1.0
    assert found.tolist() == (p_value <= limit).tolist()
    names = {"laplace": "Benjamini-Hochberg", "range": "Benjamini-Yekutieli"}
    assert changes.statement["procedure"] == names[kind]


@pytest.mark.slow
def test_the_rate_holds():
    """With three of four cells unchanged, the mean share of false calls is 0.75 of the rate."""
    rng, rate, runs, shares = np.random.default_rng(11), 0.2, 300, []
    for _ in range(runs):
        p_value = np.append(rng.uniform(size=30), rng.uniform(size=10) * 1e-3)
        _, _, found = changed(p_value, rate)
        shares.append(found[:30].sum() / max(1, found.sum()))
    # Benjamini and Hochberg's equality for independent p-values; a fixed seed draws the same runs.
    assert np.mean(shares) == pytest.approx(0.75 * rate, abs=0.025)
