"""What a cap costs by clipping: the claim holds for the median, and can fail."""

import pytest

from hexveil_research.papers.iot import gains, surrogate

CELLS = surrogate.instances(5, 40)


def test_the_median_clips_less_than_the_smallest_count():
    """In random cells and on a cell like ITMS, with both biases told."""
    claim = gains.clipped_claim(CELLS)
    assert claim.holds
    assert claim.measured.endswith("random cells")
    assert "not so in 0 of" in claim.measured


@pytest.mark.parametrize("rule", [min, lambda _: 1])
def test_a_cap_that_keeps_no_more_is_found(rule):
    """The smallest count itself, or one sample of each user: nothing is gained, and it fails."""
    claim = gains.clipped_claim(CELLS, rule)
    assert not claim.holds
    assert "not so in 0 of" not in claim.measured
