"""Allocations with a clipping range per cell: rows, replay, resuming, decoding and refusals."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil import Occupancy
from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import MemoryJournal, execute, replay
from hexveil.mechanisms.looks.cell_looks import FIRST_LOOK, FirstLooks
from hexveil.mechanisms.looks.cell_ranges import PerCellRange
from hexveil.mechanisms.looks.cell_stages import PosteriorRangeSelection
from hexveil.mechanisms.looks.pooled_means import HISTOGRAM
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil.smoothing.range_selection import SelectedRanges
from hexveil.smoothing.user_mean_law import CellDesign
from mechanisms.cell_ranges import cell_range_laws
from mechanisms.stage_laws import moves_of

STEPS = 1000
WEIGHT = 2**20


def town(seed=1, users=120, cells=12, epsilon=4.0, **changed):
    """Return an allocation and sums of a map whose cells differ in their level."""
    rng = np.random.default_rng(seed)
    present = rng.random((users, cells)) < 0.3
    present[np.arange(users), np.arange(users) % cells] = True
    occupancy = Occupancy.from_dense(present * rng.integers(1, 5, (users, cells)))
    level = rng.choice([200, 300, 800], cells)[occupancy.cell]
    means = np.clip(rng.normal(level, 40.0), 0, STEPS)
    sums = PrivateSums((means * occupancy.n).astype(np.int64))
    weight = np.full(occupancy.n_pairs, WEIGHT)
    most = occupancy.cells_per_user.max()
    noise = most / (epsilon * occupancy.users_per_cell)
    allocation = cell_range_laws.allocation_of(occupancy, weight, noise, STEPS, **changed)
    design = CellDesign.of(allocation.mean.weight)
    select = PosteriorRangeSelection(design, noise, 0.3, (0.0, float(STEPS)))
    return replace(allocation, **{"select": select} | changed), sums


def simulated():
    """Return simulated noise of a fixed seed."""
    return SimulatedNoise(np.random.default_rng(8), 1)


def outputs_of(allocation, sums, source=None, journal=None):
    """Run a metered release, with simulated noise of a seed if no source is named."""
    meter, source = Meter(allocation.losses()), source or simulated()
    return execute(allocation, sums, source, journal or MemoryJournal(), meter)


def test_a_replay_follows_the_stored_decision():
    """Another choice of ranges would be made now: the stored one holds."""
    allocation, sums = town(select=cell_range_laws.AboveCentre())
    journal = MemoryJournal()
    outputs = outputs_of(allocation, sums, journal=journal)
    moved = allocation.released(outputs).moved
    assert 0 < moved.sum() < moved.size
    for select in (cell_range_laws.All(moved=True), cell_range_laws.All(moved=False)):
        changed = replace(allocation, select=select)
        again = replay(changed, journal.rows)
        assert (changed.released(again).moved == moved).all()
        (one,), (other,) = (each.decode(outputs) for each in (allocation, changed))
        assert (one.estimate == other.estimate).all()


class RecordingNoise(SimulatedNoise):
    """Simulated noise, and the numbers that came out of it."""

    def __init__(self):
        super().__init__(np.random.default_rng(8), 1)
        self.drawn = []

    def laplace(self, values, scales):
        """Draw, and note."""
        self.drawn.append(super().laplace(values, scales))
        return self.drawn[-1]


def test_the_finer_number_of_a_cell_that_moves_is_not_stored():
    """Of the numbers drawn for cells that move none is in a row, but its sum with more noise."""
    allocation, sums = town(select=cell_range_laws.AboveCentre())
    source, journal = RecordingNoise(), MemoryJournal()
    outputs = outputs_of(allocation, sums, source, journal)
    final = np.split(source.drawn[1][0], 3)[0]
    looks = allocation.first_looks(outputs)
    moved = looks.moved
    assert 0 < moved.sum() < moved.size
    assert (looks.final[moved] == 0).all()
    assert (looks.final[~moved] == final[~moved]).all()
    stored = set(np.concatenate([row.ravel() for row in journal.rows.values()]).tolist())
    # A noise of 0 was drawn where both numbers are one: then the first of them is published.
    hidden = final[moved & (looks.first != final)]
    assert hidden.size
    assert not stored & set(hidden.tolist())


def test_looks_are_those_of_the_release():
    """Kept cells have one look at all of their loss; others a first and a second one."""
    allocation, sums = town(select=cell_range_laws.AboveCentre())
    outputs = outputs_of(allocation, sums)
    released, (first, second) = allocation.released(outputs), allocation.looks(outputs)
    moved, noise = released.moved, allocation.mean.noise
    width = released.pooled.upper - released.pooled.lower
    share = np.where(moved, 0.3, 1.0)
    assert first.scale == pytest.approx(noise * width / share, rel=1e-12)
    assert np.isinf(second.scale[~moved]).all()
    own = (released.upper - released.lower) * noise / 0.7
    assert second.scale[moved] == pytest.approx(own[moved], rel=1e-12)
    assert ((released.lower >= 0) & (released.upper <= STEPS)).all()
    assert (released.lower < released.upper).all()
    (decoded,) = allocation.decode(outputs)
    assert (decoded.estimate[0] == np.where(moved, second.noisy, first.noisy)).all()


def first_outputs(steps, lower, upper):
    """Return outputs of the pooled stages with this first range, of 8 bins."""
    row = [0] * 8 + [lower, upper, steps // 2, steps // 4, steps // 4]
    return Outputs({HISTOGRAM: np.array([row])})


class Quantised(cell_range_laws.FirstRanges):
    """All cells move to these ends, in value units."""

    def __init__(self, lower, upper):
        self.ends = lower, upper

    def __call__(self, look, spread):  # noqa: ARG002  see PosteriorRangeSelection
        """Return the ends for every cell."""
        moved = np.ones(look.noisy.size, dtype=bool)
        return SelectedRanges(moved, *(np.full(moved.size, end) for end in self.ends))


@examples(50)
@given(st.floats(), st.floats())
def test_chosen_ranges_are_widened_to_whole_quanta(lower, upper):
    """Whatever is chosen, ranges are whole, within the bounds, and at least a quantum wide."""
    _, allocation = cell_range_laws.tiny_map(span=9, select=Quantised(lower, upper))
    outputs = first_outputs(9, 2, 6)
    stage = allocation.next_stage(outputs)
    row = stage.row(np.arange(6)[None], outputs)
    looks = FirstLooks.of(row[0])
    assert looks.moved.all()
    assert ((looks.lower >= 0) & (looks.upper <= 9)).all()
    if 0 <= lower < upper <= 9:
        assert (looks.lower <= lower).all()
        assert (looks.upper >= upper).all()
        assert (looks.upper - looks.lower <= np.ceil(upper) - np.floor(lower)).all()


@examples(30)
@given(st.integers(0, 2**20), st.integers(0, 8), st.integers(1, 9))
def test_no_neighbour_moves_a_sum_by_more_than_is_reported(seed, low, width):
    """Sums of the first look and of the second move by at most the stated sensitivity."""
    rng = np.random.default_rng(seed)
    occupancy = Occupancy.from_dense([[2, 1, 0], [1, 3, 1], [0, 2, 4]])
    weight = rng.integers(1, 50, occupancy.n_pairs)
    ends = float(low), float(low + width)
    allocation = cell_range_laws.allocation_of(
        occupancy, weight, (1, 1, 1), 20, select=Quantised(*ends)
    )
    one = rng.integers(0, 20 * occupancy.n + 1)
    user = rng.integers(3)
    other = np.where(occupancy.user == user, rng.integers(0, 2) * 20 * occupancy.n, one)
    both = PrivateSums(np.stack([one, other]))
    earlier = first_outputs(20, 3, 15)
    for _ in range(2):
        stage = allocation.next_stage(earlier)
        report = moves_of(stage.sensitivity(earlier)[0])
        values = stage.measure(both, earlier)[0].integers
        stated = np.zeros(3, dtype=np.int64)
        rows = report.user == user
        np.add.at(stated, report.entry[rows], report.by[rows])
        assert (np.abs(values[0] - values[1]) <= stated).all()
        drawn = np.zeros((1, 9), dtype=np.int64)
        if stage.name == FIRST_LOOK:
            earlier = earlier.extended(stage.name, 12, stage.row(drawn, earlier))


@pytest.mark.parametrize(("first_share", "histogram"), [(0, 1), (1, 1), (0.5, 0)])
def test_plans_without_a_proof_are_refused(first_share, histogram):
    """Shares for which the stated loss would not hold."""
    shares = map(Fraction, (histogram, first_share))
    with pytest.raises(InputError, match="shares of epsilon"):
        PerCellRange(*shares, cell_range_laws.tiny_map()[1].mean.weight).check()


def test_sums_that_could_leave_64_bits_are_refused():
    """From public facts: weights too large for the bounds, or noise too large, or too small."""
    _, allocation = cell_range_laws.tiny_map()
    allocation.check_room(1.0)
    _, heavy = cell_range_laws.tiny_map(weight=(2**60, 2**60, 2**60))
    _, noisy = cell_range_laws.tiny_map(noise=(2.0**50, 1.0))
    for large in (heavy, noisy):
        with pytest.raises(InputError, match="64 bits"):
            large.check_room(1.0)
    _, second = cell_range_laws.tiny_map(noise=(2.0**48, 1.0), first_share=Fraction(999, 1000))
    with pytest.raises(InputError, match="64 bits"):
        second.check_room(1.0)
    replace(second, first_share=Fraction(1, 2)).check_room(1.0)
    _, fine = cell_range_laws.tiny_map(noise=(0.03, 1.0))
    with pytest.raises(InputError, match="noise of a first look"):
        fine.check_room(1.0)
