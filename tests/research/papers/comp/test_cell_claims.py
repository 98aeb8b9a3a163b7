"""Claims about one cell: their verdicts, and that a wrong formula turns them."""

import pytest

from hexveil import theory
from hexveil_research.papers.comp import cap_claims, cell_claims, noise_claims

FAILING = {
    ("Theorem IV.2", "as printed"),
    ("Lemma D.3", "as printed"),
    ("Lemma D.2, its proof", "as printed"),
    ("Lemma D.3, its proof", "as printed"),
    ("Section III-B, of appendix D", "as printed"),
    ("Eq. (12)", "as printed"),
    ("Proposition II.1", "as printed"),
}


@pytest.fixture(scope="module")
def found():
    return (*cell_claims.claims(), *noise_claims.claims(), *cap_claims.claims())


@pytest.mark.slow
def test_the_verdicts_are_those_of_the_errata(found):
    """What is printed wrong fails, everything else holds, and each failing one is put right."""
    fails = {(claim.place, claim.reading) for claim in found if claim.verdict == "fails"}
    assert fails == FAILING
    assert all(claim.holds is not None for claim in found)
    put_right = {claim.place for claim in found if claim.reading == "corrected"}
    lemmas = {"Section III-B, of appendix D", "Lemma D.2, its proof", "Lemma D.3, its proof"}
    assert put_right == {place for place, _ in FAILING} - lemmas


@pytest.mark.slow
def test_claims_say_what_was_measured(found):
    """One line of text each, with a number, and no two the same."""
    assert len({(claim.place, claim.says) for claim in found}) == len(found)
    for claim in found:
        assert "\n" not in claim.measured
        assert any(letter.isdigit() for letter in claim.measured)


@pytest.mark.slow
def test_a_failing_claim_shows_its_counterexample(found):
    """Theorem IV.2 with one of six kept, Lemma D.3 with counts (3, 1)."""
    said = {claim.place: claim.measured for claim in found if claim.verdict == "fails"}
    assert "0.1389, and 0.25 is reached" in said["Theorem IV.2"]
    assert "counts (3, 1): cap 2 has 0.2222" in said["Lemma D.3"]
    assert "counts (3, 1) lose 1.33 times" in said["Eq. (12)"]
    assert "counts (2, 1) at cap 1: 0.25 above 0.2222" in said["Section III-B, of appendix D"]


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
    assert not noise_claims.baseline_claim(**taken).holds


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
    printed, corrected = noise_claims.tail_claims(seed=3)
    assert (printed.holds, corrected.holds) == (False, True)
    assert "d = 2: 0.20" in printed.measured
