"""Maps with private presence, and numbers of units: against known towns, and their intervals."""

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
from hexveil.mechanisms.contract import MemoryJournal, execute, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.pooled_law import BeyondRange, Excess
from hexveil.mechanisms.presence import PresenceSums
from hexveil.mechanisms.presence.contribution import CellWindow
from hexveil.mechanisms.presence.count_map import CountAllocation
from hexveil.mechanisms.presence.presence_allocation import (
    ONE_SHOT,
    THREE_STAGES,
    WIDE_PART,
    MapForm,
    PresenceAllocation,
)
from hexveil.mechanisms.presence.presence_decoding import decode_map, ratio_interval
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs
from hexveil.model.private_pairs import PrivatePairs

SPAN, N_CELLS, USED = 1000, 40, 30
FORMS = {"one shot": ONE_SHOT, "three stages": THREE_STAGES}


@pytest.fixture(scope="module")
def fleet():
    """Return the sums of 4,000 units in 30 of 40 cells, and the true averages."""
    rng = np.random.default_rng(8)
    unit = np.repeat(np.arange(4000), 4)
    cell = rng.integers(0, USED, unit.size)
    n = rng.integers(1, 6, unit.size)
    level = rng.uniform(300, 700, USED)
    mean = np.clip(level[cell] + rng.normal(0, 60, unit.size), 0, SPAN)
    total = np.rint(mean * n).astype(np.int64)
    true = np.bincount(cell, total) / np.bincount(cell, n) / SPAN
    return PresenceSums(PrivatePairs(cell, unit, n, total)), true


def released(form, sums, seed, *, false_openings=1.0, source=None):
    """Return the map of one release at ε = 2."""
    plan = PresenceAllocation(N_CELLS, SPAN, Fraction(2), form, false_openings)
    noise = source or SimulatedNoise(np.random.default_rng([6, seed]), 1)
    journal = MemoryJournal()
    outputs = execute(plan, sums, noise, journal, Meter(plan.losses()))
    repeated = plan.decode(replay(plan, journal.rows))
    decoded = plan.decode(outputs)
    np.testing.assert_array_equal(decoded["mean"], repeated["mean"])
    return decoded


@pytest.mark.parametrize("form", FORMS)
def test_a_map_is_near_the_truth_where_cells_are_open(form, fleet):
    """Used cells are open and near their averages; empty ones are closed, but for about one."""
    sums, true = fleet
    maps = [released(FORMS[form], sums, seed) for seed in range(3)]
    assert all(one.is_open[:USED].all() for one in maps)
    assert sum(one.is_open[USED:].sum() for one in maps) <= 6
    errors = [np.abs(one["mean"][:USED] - true).mean() for one in maps]
    assert max(errors) < 0.25 * np.abs(true - np.median(true)).mean()
    covered = [(one["mean_low"][:USED] <= true) & (true <= one["mean_high"][:USED]) for one in maps]
    assert np.mean(covered) >= 0.9


@pytest.mark.parametrize("form", FORMS)
def test_no_records_are_a_map_like_any_other(form):
    """A data set without a record is released without an error."""
    empty = PresenceSums(PrivatePairs([], [], [], []))
    assert released(FORMS[form], empty, 2).is_open.shape == (N_CELLS,)
    assert released(FORMS[form], empty, 3, false_openings=None).is_open.all()


def test_the_door_refuses_no_records():
    """At the smallest ε that a plan takes, counts at their limits leave room for the noise."""
    epsilon = Fraction(PARTS, 2**51) / (ONE_SHOT.range_share * WIDE_PART)
    rows = np.arange(300)
    crowd = PrivatePairs(rows % N_CELLS, rows, np.full(300, 2**62), np.full(300, 2**62))
    plan = PresenceAllocation(N_CELLS, SPAN, epsilon, ONE_SHOT)
    outputs = execute(
        plan, PresenceSums(crowd), VettedNoise(), MemoryJournal(), Meter(plan.losses())
    )
    assert plan.decode(outputs).is_open.shape == (N_CELLS,)
    with pytest.raises(InputError, match="epsilon is too small"):
        PresenceAllocation(N_CELLS, SPAN, epsilon / 2, ONE_SHOT)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MapForm(Fraction(1)),
        lambda: MapForm(Fraction(0)),
        lambda: replace(THREE_STAGES, coarse_share=Fraction("0.9")),
        lambda: replace(THREE_STAGES, residual_share=Fraction(-1, 10)),
    ],
)
def test_shares_that_exceed_epsilon_are_refused(make):
    """No stage can be paid for with less than nothing."""
    with pytest.raises(InputError, match="share of epsilon"):
        make()


# ---- intervals ----


def decoded(low, high, noisy, law, *, beyond=0.0):
    """Return the map of two cells of one range, of which this much is cut off on either side."""
    window = CellWindow(np.ones(2, dtype=np.int64), np.full(2, low), np.full(2, high))
    excess = Excess(*(np.full(2, one) for one in (beyond, beyond**2, 0.0)))
    centres = np.full(2, (low + high) // 2)
    return decode_map(window, noisy, law, BeyondRange(excess, excess, 0.1), centres)


@pytest.mark.parametrize("weight", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("ratio", [0.0, -0.6, 1.0])
def test_ratio_intervals_cover_at_any_weight(weight, ratio):
    """Intervals of the ratio cover in at least 95 % of draws, also where noise is all there is."""
    rng = np.random.default_rng(5)
    x, y = rng.laplace(size=(2, 4000))
    low, high = ratio_interval(weight + x + y, weight * ratio + x - y, 1.0)
    # Three standard errors of 4,000 draws at 0.05.
    assert ((low <= ratio) & (ratio <= high)).mean() >= 0.94
    if weight > 10:
        assert np.median(high - low) < 0.5


def test_intervals_at_the_end_of_the_range_reach_the_bound():
    """Where all values are clipped, the interval extends to the bound, on that side alone."""
    noisy = PARTS * np.array([1000, 500, 0, 500])
    made = decoded(3 * PARTS // 8, 5 * PARTS // 8, noisy, Laplace(PARTS / 100))
    assert made["mean_high"][0] == 1.0
    assert 0.5 < made["mean_low"][0] < 0.625
    assert made["mean"][1] == pytest.approx(0.5)
    assert made["mean_high"][1] < 0.6
    assert made["weight"][0] == pytest.approx(1000)
    # What may lie beyond is part of the expected error.
    assert made.error["mean"][0] > made.error["mean"][1] + 0.05 * (1.0 - made["mean"][0]) - 0.005


def test_what_a_range_cuts_off_is_added_by_how_near_a_cell_is():
    """The pooled excess goes to cells near the end, on average as much; intervals have room."""
    noisy, law = PARTS * np.array([800, 500, 200, 500]), Laplace(PARTS / 100)
    ends = 3 * PARTS // 8, 5 * PARTS // 8
    without, made = (decoded(*ends, noisy, law, beyond=b) for b in (0.0, 0.02))
    # Near the upper end 1.23 of the excess above, and 0.57 of that below, at these ratios.
    expected = 0.02 * np.array([16 / 13 - 4 / 7, 10 / 13 - 10 / 7])
    assert made["mean"] - without["mean"] == pytest.approx(expected, rel=0.01)
    widths = [one["mean_high"] - one["mean_low"] for one in (without, made)]
    assert (widths[1] > widths[0] + 0.02).all()


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


# ---- closed cells ----


def brute_force_tail(threshold, scale):
    """Return P(X + Y >= threshold) by adding up the laws of X and Y."""
    t = np.exp(-1.0 / scale)
    k = np.arange(-int(60 * scale) - 5, int(60 * scale) + 6)
    law = (1 - t) / (1 + t) * t ** np.abs(k)
    tail = np.concatenate([np.cumsum(law[::-1])[::-1], [0.0]])  # P(Y >= k)
    begin = np.clip(threshold - k - k[0], 0, k.size)
    return float((law * tail[begin]).sum())


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
@pytest.mark.parametrize("threshold", [0, 1, 2, 9, 40])
def test_the_tail_is_that_of_brute_force(scale, threshold):
    """The closed form equals the sum over both laws."""
    assert Laplace(scale).sum_tail(threshold) == pytest.approx(
        brute_force_tail(threshold, scale), rel=1e-9, abs=1e-15
    )


@examples(60)
@given(n_cells=st.integers(1, 10**6), scale=st.floats(0.5, 1e7), openings=st.floats(1e-3, 10))
def test_the_threshold_is_the_smallest(n_cells, scale, openings):
    """At the threshold no more empty cells than declared are opened; one below it, more are."""
    threshold = Laplace(scale).opening_threshold(n_cells, openings)
    assert n_cells * Laplace(scale).sum_tail(threshold) <= openings
    assert threshold == 0 or n_cells * Laplace(scale).sum_tail(threshold - 1) > openings


@pytest.mark.parametrize("scale", [0.4, 3.0, 50.0])
@pytest.mark.parametrize("tail", [0.3, 0.025, 1e-6])
def test_the_quantile_is_the_smallest(scale, tail):
    """The tail of a discrete Laplace number, by adding up its law."""
    t, k = np.exp(-1 / scale), np.arange(4000)
    law = (1 - t) / (1 + t) * t**k
    at = Laplace(scale).quantile(tail)
    assert law[at:].sum() <= tail * (1 + 1e-9)
    assert at == 1 or law[at - 1 :].sum() > tail
