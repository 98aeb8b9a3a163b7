"""Claims about clipping in general: their verdicts, and that a wrong formula turns them."""

import numpy as np
import pytest

from hexveil import theory
from hexveil_research.papers.wc import clipping_claims
from hexveil_research.papers.wc.linear_program import optimal_error

FAILING = {
    ("Lemma III.1, eq. (5)", "as printed"),
    ("Remark after Lemma III.1", "as printed"),
    ("Section III-A", "as printed"),
}


@pytest.mark.slow
def test_the_verdicts_are_those_of_the_errata():
    """The printed bias, its worst data set, and the extent of the class fail; the rest holds."""
    found = clipping_claims.claims()
    assert {(c.place, c.reading) for c in found if c.verdict == "fails"} == FAILING
    assert sum(claim.verdict == "fails" for claim in found) == len(FAILING)
    said = {claim.place: claim.measured for claim in found if claim.verdict == "fails"}
    assert "0.50, true 0.25" in said["Lemma III.1, eq. (5)"]
    assert "[1/2, 1]: error 0.00 there, 0.50" in said["Remark after Lemma III.1"]


def test_a_wrong_bias_is_found():
    """One percent less than the truth fails, and the printed sum is not taken for exact."""

    def less(lower, upper):
        return 0.99 * theory.clipping_bias(lower, upper, 1.0)

    assert not clipping_claims.lemma_1(less)[1].holds
    assert not clipping_claims.lemma_1(clipping_claims.printed_bias)[1].holds


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_another_optimum_is_found_wrong(factor):
    """One percent less than what any interval reaches fails, and one percent more."""
    assert clipping_claims.theorem(optimal_error)[0].holds
    wrong, symmetric = clipping_claims.theorem(lambda *cell: factor * optimal_error(*cell))
    assert (wrong.holds, symmetric.holds) == (False, True)


def test_every_interval_is_tried():
    """Six intervals with ends at halves; all their pairs for two samples."""
    lower, upper = clipping_claims.choices(2, 2)
    pairs = {(*a, *b) for a, b in zip(lower.tolist(), upper.tolist(), strict=True)}
    assert len(pairs) == len(lower) == 36
    assert (lower <= upper).all()
    assert set(np.unique(upper)) == {0.0, 0.5, 1.0}
