"""Claims about clipping in general: a wrong formula turns their verdicts."""

import numpy as np
import pytest

from hexveil import theory
from hexveil_research.papers.wc import clipping_claims
from hexveil_research.papers.wc.linear_program import optimal_error


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
