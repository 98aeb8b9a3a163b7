"""The cap after CLIP-USER against every whole cap, and against the formulas of `theory`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import Occupancy, theory
from hexveil_research.papers.comp.residual_cap import cap_after_suppression


def error(kept, counts, span, epsilon):
    """COMP section V-B.3: biases against the original counts plus noise of the kept ones."""
    live = kept[kept > 0]
    biases = (
        theory.truncation_mean_bias(kept, counts, span),
        theory.truncation_variance_bias(kept, counts, span),
    )
    moved = theory.mean_sensitivity(live, span), theory.variance_sensitivity(live, span)
    return sum(biases) + 2 / epsilon * sum(moved)


def by_trial(kept, counts, span, epsilon):
    """Return the least error and the smallest cap that has it, trying every whole cap."""
    caps = range(int(kept[kept > 0].min()), int(kept.max()) + 1)
    errors = [error(np.minimum(kept, cap), counts, span, epsilon) for cap in caps]
    least = min(errors)
    return least, next(cap for cap, e in zip(caps, errors, strict=True) if e <= least * (1 + 1e-11))


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=7),
    st.randoms(),
    st.sampled_from([0.01, 0.1, 0.5, 1.0, 3.0, 20.0]),
    st.sampled_from([0.5, 3.0, 65.0]),
)
def test_no_whole_cap_is_better(counts, random, epsilon, span):
    """The caps tried include the best of all from the least to the largest kept count."""
    counts = np.array(counts)
    kept = np.array([m if random.random() < 0.8 else 0 for m in counts])
    kept[0] = counts[0]
    occupancy = Occupancy.from_dense(counts[:, None])
    done = cap_after_suppression(occupancy, kept, span, epsilon)
    least, cap = by_trial(kept, counts, span, epsilon)
    assert done.max_error == pytest.approx(least, rel=1e-12)
    assert done.caps.tolist() == [cap]
    assert done.contributions.tolist() == np.minimum(kept, cap).tolist()
