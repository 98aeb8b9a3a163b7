"""Claims about one cell: a wrong formula turns their verdicts."""

import pytest

from hexveil import theory
from hexveil_research.papers.comp import cap_claims, cell_claims, composition_figures


def less(formula):
    """Return the formula, 1% too small."""
    return lambda *cell: 0.99 * formula(*cell)


@pytest.mark.parametrize(
    ("kind", "formula"),
    [("mean", theory.mean_sensitivity), ("variance", theory.variance_sensitivity)],
)
def test_a_wrong_sensitivity_is_found(kind, formula):
    """One percent less than the truth fails, for plain and for kept samples, and as noise."""
    assert cell_claims.sensitivity_claim("", kind, formula).holds
    assert not cell_claims.sensitivity_claim("", kind, less(formula)).holds
    assert not cell_claims.clipped_claim("", kind, less(formula)).holds
    taken = {"mean": theory.mean_sensitivity, "variance": theory.variance_sensitivity}
    taken[kind] = less(formula)
    assert not composition_figures.baseline_claim(**taken).holds


@pytest.mark.parametrize(
    ("kind", "formula"),
    [("mean", theory.truncation_mean_bias), ("variance", theory.truncation_variance_bias)],
)
def test_a_wrong_bias_is_found(kind, formula):
    """One percent less than the truth fails."""
    assert cell_claims.bias_claim("", kind, formula).holds
    assert not cell_claims.bias_claim("", kind, less(formula)).holds


def test_wrong_laws_of_caps_are_found():
    """A sensitivity that grows as samples are dropped, or bends the wrong way, fails."""

    def grows(counts, span):
        return span / sum(counts)

    def bends(counts, span):
        return span * sum(counts) ** 2

    assert not cap_claims.lemma_1(grows).holds
    assert not cap_claims.lemma_2(bends).holds
    assert not cap_claims.lemma_4(grows).holds
    assert not cell_claims.growth_claim(lambda counts, _: 1 / max(counts)).holds


def test_the_tail_of_several_noises_is_above_what_is_printed():
    """Two numbers exceed the printed bound four times as often as stated."""
    printed, corrected = composition_figures.tail_claims(seed=3)
    assert (printed.holds, corrected.holds) == (False, True)
    assert "d = 2: 0.20" in printed.measured
