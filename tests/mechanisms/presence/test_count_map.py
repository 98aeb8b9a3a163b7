"""Numbers of units per cell: the cap on cells, exact laws, intervals."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.noise_law import Laplace
from hexveil.accounting.promise import PARTS
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import MemoryJournal, Meter, Outputs, execute
from hexveil.mechanisms.presence.any_unit import PresenceSums
from hexveil.mechanisms.presence.count_map import CountAllocation
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.private_pairs import PrivatePairs
from presence_laws import ExactPresenceLoss, PresenceWorld

NOTHING = Outputs()
BASE = ((0, 0, 1, 0), (1, 0, 2, 0), (2, 1, 1, 0))


@pytest.mark.parametrize("cell_cap", [1, 2, 3])
def test_exact_loss_is_epsilon_and_reached(cell_cap):
    """Any set of records of a unit costs at most ε; one in as many cells as the cap costs ε."""
    plan = CountAllocation(3, cell_cap, Fraction(2), None)
    world = PresenceWorld.of(BASE, 3, 0, max_n=2)
    found = ExactPresenceLoss(world, lambda _: plan)
    assert 2 * (1 - 1e-5) <= found.worst <= 2 * (1 + 1e-9)


def test_a_count_without_a_cap_is_found():
    """Full counts in every cell, whatever the cap, lose more than ε."""
    world = PresenceWorld.of(BASE, 3, 0, max_n=1)

    class Uncapped(CountAllocation):
        def next_stage(self, earlier):
            stage = super().next_stage(earlier)
            return stage and replace(stage, total=full)

    def full(sums):
        return PARTS * np.bincount(sums.pairs.cell, minlength=3).astype(np.int64)

    with pytest.raises(AssertionError, match="more than is stated"):
        ExactPresenceLoss(world, lambda _: Uncapped(3, 1, Fraction(2), None))


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


@pytest.mark.parametrize("scale", [0.4, 3.0, 50.0])
@pytest.mark.parametrize("tail", [0.3, 0.025, 1e-6])
def test_the_quantile_is_the_smallest(scale, tail):
    """The tail of a discrete Laplace number, by adding up its law."""
    t, k = np.exp(-1 / scale), np.arange(4000)
    law = (1 - t) / (1 + t) * t**k
    at = Laplace(scale).quantile(tail)
    assert law[at:].sum() <= tail * (1 + 1e-9)
    assert at == 1 or law[at - 1 :].sum() > tail


def test_no_cap_below_one():
    """A cap on cells is a whole number from 1."""
    with pytest.raises(InputError, match="from 1"):
        CountAllocation(3, 0, Fraction(1))
