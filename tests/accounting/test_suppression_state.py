"""The state of CLIP-USER: one error written three ways, lines below it, and the two largest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import theory
from hexveil.accounting.suppression_stages import CellError, RemainingCounts
from strategies import occupancies

MEASURES = st.builds(
    CellError.of,
    st.sampled_from([0.5, 3.0, 65.0]),
    st.sampled_from([0.01, 0.5, 1.0, 20.0]),
    st.sampled_from([None, (1.0, 1.0), (10.0, 300.0), (2.0, float("inf"))]),
)
COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@given(MEASURES, COUNTS, st.integers(0, 7))
def test_one_cell_and_many_cells_agree(measure, counts, dropped):
    """The scalar and the array form of the error are the same formula."""
    kept = counts[: max(1, len(counts) - dropped)]
    n, t, total = sum(kept), max(kept), sum(counts)
    several = measure.errors(*(np.array([x, x]) for x in (n, t, total)))
    assert several.tolist() == pytest.approx([measure.error(n, t, total)] * 2, rel=1e-13)


@given(COUNTS, st.integers(0, 7))
def test_the_error_is_the_theory_of_bias_and_sensitivity(counts, dropped):
    """Theorems IV.1 and IV.2 (ERRATA 1) plus 2/ε times Proposition III.1 on what is kept."""
    live = counts[: max(1, len(counts) - dropped)]
    kept = live + [0] * (len(counts) - len(live))
    measure = CellError.of(65.0, 0.5, None)
    n, t, total = sum(live), max(live), sum(counts)
    assert measure.biases(n, total) == pytest.approx(
        (
            theory.truncation_mean_bias(kept, counts, 65.0),
            theory.truncation_variance_bias(kept, counts, 65.0),
        )
    )
    sensitivity = theory.mean_sensitivity(live, 65.0), theory.variance_sensitivity(live, 65.0)
    assert measure.noises(n, t) == pytest.approx([4 * s for s in sensitivity])


@given(occupancies(users=8, cells=3), st.randoms())
def test_sums_and_the_two_largest_follow_any_suppressions(occupancy, random):
    """In whatever order users go, what is left is what a fresh count gives."""
    cells, left = RemainingCounts(occupancy), occupancy.n.copy()
    pairs = list(range(occupancy.n_pairs))
    random.shuffle(pairs)
    for pair in pairs:
        cell = int(occupancy.cell[pair])
        cells.suppress(cell, int(left[pair]), pair)
        left[pair] = 0
        rest = [*sorted(left[occupancy.cell == cell].tolist(), reverse=True), 0]
        assert cells.left[cell] == sum(rest)
        assert [cells.top[cell], cells.second[cell]] == rest[:2]
