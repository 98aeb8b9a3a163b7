"""LEVY, the quantiles and AKMV: clipped means, their sensitivity and what is spent on them."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.single_cell import CellProblem, study_cell
from hexveil.mechanisms.single_cell.array_averaging import GRAIN, PseudoUserMeans, group_users
from hexveil.mechanisms.single_cell.clipped_range_mean import FixedRange, RangeSum
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from mechanisms.scripted_noise import ScriptedNoise
from mechanisms.stage_laws import every_data_set

SPAN = 6
CELLS = [((2, 2, 2), 3), ((3, 1), 3), ((2, 1, 1), 2), ((4, 2), 2), ((2, 1), 3), ((1,), 1)]


def readings(grouping):
    """Yield the array means of each small cell."""
    for counts, cap in CELLS:
        if grouping == "best_fit" or sum(min(m, cap) for m in counts) >= cap:
            n = np.array(counts)
            groups = group_users(n, Fraction(1), grouping, cap)
            yield groups, PseudoUserMeans.from_grouping(groups, n, SPAN)


@pytest.mark.parametrize("grouping", ["best_fit", "wrap_around"])
def test_sensitivity_is_exact_for_every_range(grouping):
    """Over all sums, one user moves the clipped sum by the claimed integer and no more.

    The claim is for all ranges of a width, and some range comes within the rounding of arrays
    of it: less than one part of a quantum for each array of a user. It agrees with the model.
    """
    for groups, arrays in readings(grouping):
        counts = arrays.counts
        sums = PrivateSums(every_data_set(counts, SPAN))
        shape = [SPAN * int(m) + 1 for m in counts]
        for width in (1, 3, 6):
            claimed = arrays.user_sensitivity(GRAIN * width)
            moved = np.zeros(counts.size, dtype=np.int64)
            for lower in range(SPAN - width + 1):
                stage = RangeSum("mean", arrays, FixedRange(lower, lower + width), Fraction(1))
                (values,) = stage.measure(sums, Outputs())
                cube = values.integers.reshape(shape)
                each = [int(np.ptp(cube, axis=user).max()) for user in range(counts.size)]
                moved = np.maximum(moved, each)
            assert (moved <= claimed).all()
            assert (claimed - moved < arrays.pieces + 1).all()
            model = groups.user_sensitivity(SPAN, width) * groups.n_arrays * GRAIN
            assert claimed == pytest.approx(model, abs=2)
            assert arrays.max_sensitivity(np.array([GRAIN * width]))[0] == claimed.max()


def test_quantile_release_step_by_step():
    """Two choices with a quarter of ε each, then noise fitted to the width with half of it."""
    plan = hv.mechanisms.FixedQuantile(0.25, 0.75, candidates=8, cap=1).plan(
        [1] * 4, bounds=(-4, 4), epsilon=2
    )
    noise = ScriptedNoise([3, 7], noise=1.5)
    # Candidates -1 and 3; the means -2, 0, 1, 4 become -1, 0, 1, 3; scale (4 / 4) / 1.
    assert plan.estimate([-2, 0, 1, 4], noise) == pytest.approx(0.75 + 1.5)
    quantum = 8 / 2**20
    assert noise.scales == pytest.approx([4 / quantum * GRAIN])
    assert noise.selection_scales == [4, 4]
    low, high = noise.scores
    assert low.tolist() == [-1, -1, 0, 0, -1, -2, -2, -2, -3]
    assert high.tolist() == [-3, -3, -2, -2, -1, 0, 0, 0, -1]


@pytest.mark.parametrize("chosen", [0, 5, 8])
def test_a_range_of_one_point_is_widened_to_one_quantum(chosen):
    """With both ends at one candidate the estimate is there, at noise of one quantum's size."""
    plan = hv.mechanisms.FixedQuantile(candidates=8).plan([1] * 4, bounds=(-4, 4), epsilon=2)
    noise = ScriptedNoise([chosen, chosen])
    assert plan.estimate([-2, 0, 1, 4], noise) == pytest.approx(chosen - 4, abs=1e-5)
    assert noise.scales == pytest.approx([GRAIN])


def test_levy_release_step_by_step():
    """One choice among the middles of the bins with half of ε, then the range around it."""
    plan = hv.mechanisms.Levy(gamma=0.2, cap=100).plan([100] * 4, bounds=(0, 8), epsilon=1)
    radius = 8 * math.sqrt(math.log(2 * 4 / 0.2) / 200)
    assert 8 * plan.allocation.relative_radius == pytest.approx(radius)
    assert plan.allocation.stages[0].candidates.size == math.ceil(8 / radius) == 8
    noise = ScriptedNoise([4], noise=-1.0)
    low, high = 4.5 - 1.5 * radius, 4.5 + 1.5 * radius
    means = [1.0, 4.2, 4.9, 8.0]
    scale = 3 * radius / 4 / 0.5
    expected = np.clip(means, low, high).mean() - scale
    assert plan.estimate(means, noise) == pytest.approx(expected, abs=1e-4)
    assert noise.scales == pytest.approx([scale * 4 * GRAIN * 2**20 / 8], rel=1e-5)
    assert noise.selection_scales == [4]
    assert noise.scores[0].tolist() == [-4, -3, -3, -3, -1, -3, -3, -3]
    assert plan.sensitivity == pytest.approx(3 * radius / 4)


def test_levy_with_one_bin_makes_no_choice():
    """Where τ >= U the range is the bounds, and all of ε pays for the noise (ERRATA 11)."""
    plan = hv.mechanisms.Levy().plan([2, 1, 1], bounds=(0, 8), epsilon=1)
    assert len(plan.allocation.stages) == 1
    assert plan.allocation.mean_epsilon == 1
    noise = ScriptedNoise()
    plain = hv.mechanisms.ArrayAveraging(cap="sqrt").plan([2, 1, 1], bounds=(0, 8), epsilon=1)
    expected = plain.noiseless_estimates(plain.cell.sums([8.0, 0, 4]))[0]
    assert plan.estimate([8, 0, 4], noise) == pytest.approx(expected, abs=1e-5)
    unit = 8 / 2**20 / GRAIN / plan.allocation.groups.n_arrays
    assert noise.scales == pytest.approx([plan.noise_scale / unit])


@pytest.mark.parametrize("split", ["0.5", "0.2", Fraction(2, 3)])
@pytest.mark.parametrize(
    "make",
    [
        hv.mechanisms.Levy,
        hv.mechanisms.FixedQuantile,
        hv.mechanisms.OptimizedQuantile,
        hv.mechanisms.AKMV,
    ],
)
def test_parts_of_epsilon_add_up(make, split):
    """What the choices lose, by their scales, and what the noise loses, is ε."""
    cell = study_cell([200] * 20, (0, 8))
    allocation = make(split=split).allocate_cell(cell, Fraction(17, 10))
    choice = allocation.stages[0]
    spent = choice.entries * 2 / choice.scale
    assert spent + float(allocation.mean_epsilon) == pytest.approx(1.7)
    assert spent <= 1.7 - float(allocation.mean_epsilon) + 1e-15
    assert allocation.losses() == pytest.approx(np.full(20, 1.7))


def targets_of(allocation):
    """Return how many values are wanted at or below each point that is chosen."""
    return tuple(cost.target for cost in allocation.stages[0].costs)


def test_targets_of_the_quantiles():
    """Fixed targets are rounded halves up; extremes are ⌈2/ε⌉ and never cross the median."""
    cell = study_cell([1] * 25, (0, 8))
    fixed = hv.mechanisms.FixedQuantile(0.1, 0.9, cap=1).allocate_cell(cell, Fraction(1))
    assert targets_of(fixed) == (3, 23)
    for epsilon, targets in (("0.3", (7, 18)), (1, (2, 23)), (100, (1, 24)), ("0.01", (12, 13))):
        quantile = hv.mechanisms.OptimizedQuantile(cap=1).allocate_cell(cell, Fraction(epsilon))
        assert targets_of(quantile) == targets


@pytest.mark.parametrize("grouping", ["best_fit", "wrap_around"])
@pytest.mark.parametrize("span", [50, 777])
def test_levy_states_the_noise_of_the_widest_range(span, grouping):
    """Ranges are rounded outwards to whole quanta: on a coarse lattice that is noise, too."""
    cell = CellProblem(np.array([5] * 40), Fraction(0), Fraction(1), span)
    plan = hv.mechanisms.Levy(grouping=grouping).allocate_cell(cell, Fraction(2))
    stage = plan.stages[0]
    chosen = Outputs({stage.name: np.arange(stage.candidates.size)[:, None]})
    lower, upper = plan.range_sum.clipping.ends(chosen)
    scales = plan.range_sum.scales(GRAIN * (upper - lower)) / plan.divisor
    assert max(scales) == pytest.approx(plan.error(float(span)).scale, rel=1e-6)


def allocation(counts, span, **options):
    """Return the allocation of a cell on integers at ε = 1."""
    cell = CellProblem(np.array(counts), Fraction(0), Fraction(1), span)
    return hv.mechanisms.AKMV(**options).allocate_cell(cell, Fraction(1))


@pytest.mark.parametrize("counts", [(3, 1), (2, 2, 1), (4, 1, 1)], ids=str)
def test_one_user_moves_the_clipped_sum_by_t(counts):
    """For every T a user moves the sum by min(T, S m): reached by some values, passed by none."""
    akmv, data = allocation(counts, 4, candidates=4), every_data_set(counts, 4)
    shape = [4 * m + 1 for m in counts]
    for chosen in range(5):
        earlier = Outputs({"extreme": np.array([[chosen]])})
        (values,) = akmv.range_sum.measure(PrivateSums(data), earlier)
        cube = values.integers.reshape(shape)
        (report,) = akmv.range_sum.sensitivity(earlier)
        moved = [int(np.ptp(cube, axis=user).max()) for user in range(len(counts))]
        assert report.by.tolist() == moved
        top = max(max(counts) * chosen, 1)
        assert max(moved) == top
        assert akmv.range_sum.noise(earlier)[0].scales == pytest.approx(2 * top)


def test_rank_is_that_of_one_sided_clipping():
    """T is to have ⌈1/ε''⌉ sums above it (ERRATA 14), and no more than there are users."""
    cell = study_cell(list(range(1, 31)), (0, 8))
    for split, epsilon, above in (("0.5", 1, 2), ("0.25", 1, 2), ("0.75", 1, 4), ("0.5", 4, 1)):
        akmv = hv.mechanisms.AKMV(split=split).allocate_cell(cell, Fraction(epsilon))
        assert targets_of(akmv) == (30 - above,)
    assert targets_of(hv.mechanisms.AKMV().allocate_cell(cell, Fraction(1, 100))) == (0,)
