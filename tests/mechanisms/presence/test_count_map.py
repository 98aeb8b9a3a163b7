"""Numbers of units per cell: the cap on cells, intervals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.promise import PARTS
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.count_map import CountAllocation
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.private_pairs import PrivatePairs

NOTHING = Outputs()


@examples(60)
@given(
    cells=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=15),
    cell_cap=st.integers(1, 6),
)
def test_counts_are_those_of_the_definition(cells, cell_cap):
    """A unit in K cells counts min(1, k / K) in each; records and repeats do not matter."""
    rows = np.array([(c, u, 1 + u, 0) for c, u in cells], dtype=np.int64).reshape(-1, 4)
    stage = CountAllocation(5, cell_cap, Fraction(1)).next_stage(NOTHING)
    (values,) = stage.measure(PresenceSums(PrivatePairs(*rows.T)), NOTHING)
    expected = np.zeros(5, dtype=np.int64)
    for unit in {u for _, u in cells}:
        visited = {c for c, u in cells if u == unit}
        expected[list(visited)] += PARTS * cell_cap // max(len(visited), cell_cap)
    assert values.integers[0].tolist() == expected.tolist()


def test_intervals_cover_at_their_rate():
    """Over many draws, 95 % intervals of counts cover at about that rate; scales off do not."""
    pairs = PrivatePairs(np.arange(50), np.arange(50), np.ones(50), np.zeros(50))
    plan = CountAllocation(50, 1, Fraction(1, 2), None)
    covered = []
    for seed in range(40):
        source = SimulatedNoise(np.random.default_rng([5, seed]), 1)
        outputs = execute(plan, PresenceSums(pairs), source, MemoryJournal(), Meter(plan.losses()))
        table = plan.decode(outputs)
        covered.append((table["users_low"] <= 1) & (table["users_high"] >= 1))
    # Four standard errors of 2,000 draws at 0.95 are 0.02.
    assert abs(np.mean(covered) - 0.95) < 0.02


def test_no_cap_below_one():
    """A cap on cells is a whole number from 1."""
    with pytest.raises(InputError, match="from 1"):
        CountAllocation(3, 0, Fraction(1))
