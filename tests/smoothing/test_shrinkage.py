import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples, some
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.shrinkage import smooth
from smoothing.maps import crossed, judged, two_way

SEEDS = st.integers(0, 10_000)


def a_map(seed, n=24):
    """Return a small noisy map: numbers, scales and groupings."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.3, 1.5, n)
    numbers = two_way(rng, 4, n // 4) + rng.laplace(0.0, scale)
    return numbers, scale, crossed(4, n // 4)


@examples(15)
@given(SEEDS)
def test_small_noise_leaves_the_numbers(seed):
    """Where noise is tiny beside the map's spread, the estimate is the number."""
    numbers, scale, groupings = a_map(seed)
    done = smooth(numbers, scale * 1e-6, groupings)
    assert done.estimate == pytest.approx(numbers, abs=1e-5)
    assert np.all(done.high - done.low < 1e-4)


@examples(10)
@given(SEEDS, st.sampled_from([-1e4, 3.0, 250.0]), st.sampled_from([0.01, 3.0, 1e3]))
def test_shift_and_scale(seed, shift, times):
    """Another zero and another unit of the values change nothing but zero and unit."""
    numbers, scale, groupings = a_map(seed)
    one = smooth(numbers, scale, groupings, worst_bias=0.3, lower=-4, upper=4)
    moved = {"worst_bias": 0.3 * times, "lower": shift - 4 * times, "upper": shift + 4 * times}
    other = smooth(shift + times * numbers, times * scale, groupings, **moved)
    assert (other.estimate - shift) / times == pytest.approx(one.estimate, abs=1e-4)
    assert (other.low - shift) / times == pytest.approx(one.low, abs=1e-4)
    assert (other.high - shift) / times == pytest.approx(one.high, abs=1e-4)


@examples(10)
@given(SEEDS, st.floats(-1e6, 1e6))
def test_a_constant_says_nothing(seed, constant):
    """The number of a cell without noise moves no estimate, its own included."""
    numbers, scale, groupings = a_map(seed)
    scale[5] = 0.0
    moved = numbers.copy()
    moved[5] = constant
    one, other = smooth(numbers, scale, groupings), smooth(moved, scale, groupings)
    assert one.estimate.tobytes() == other.estimate.tobytes()
    assert one.high[5] - one.low[5] > 0


def test_a_constant_is_told_by_its_groups():
    """A cell without a number of its own is estimated from its row and column."""
    rng = np.random.default_rng(5)
    groupings = crossed(10, 12)
    truth = 10.0 * rng.normal(size=10)[groupings[0].label] + rng.normal(size=120)
    scale = np.full(120, 0.5)
    scale[37] = 0.0
    numbers = truth + rng.laplace(0.0, 0.5, 120)
    numbers[37] = 1e3
    done = smooth(numbers, scale, groupings)
    assert abs(done.estimate[37] - truth[37]) < 4.0
    assert done.low[37] < truth[37] < done.high[37]


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_one_wild_number_moves_no_other(size):
    """A number a million million times too large keeps itself, and leaves the others alone."""
    numbers = size * np.array([1.0, 2.0, 3.0, 4.0, 5.0, 1e12])
    done = smooth(numbers, size)
    assert done.estimate[-1] == pytest.approx(numbers[-1], rel=1e-6)
    assert np.all(np.abs(done.estimate[:-1] - numbers[:-1]) < 2 * size)


@pytest.mark.parametrize("scale", [0.2, 0.5, 1.0, 2.0])
def test_maps_of_the_model(scale):
    """On maps drawn from the model errors fall, and intervals cover as they say."""
    before, after, covered = judged(two_way, scale, crossed(10, 12), 8)
    assert after < (0.9 if scale < 0.5 else 0.65) * before
    assert 0.93 <= covered <= 0.99


MISFITS = {
    "skewed": lambda rng: rng.gamma(1.0, 1.0, 80),
    "two towns": lambda rng: np.where(np.arange(80) < 60, 0.0, 4.0) + 0.3 * rng.normal(size=80),
    "normal": lambda rng: rng.normal(size=80),
    "uniform": lambda rng: rng.uniform(0.0, 4.0, 80),
    "two far": lambda rng: np.r_[rng.uniform(-1.0, 1.0, 78), -4.0, 4.0],
}


@pytest.mark.parametrize("name", some(sorted(MISFITS), 2))
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_misfits(name, scale):
    """Skewed, split and flat maps: no larger error, and the coverage of the statement."""
    before, after, covered = judged(MISFITS[name], scale, (), 12)
    assert after <= 1.01 * before
    assert 0.93 <= covered <= 0.995


def test_bias_leaves_estimates_alone():
    """Only intervals know of bias: numbers do not tell it from signal."""
    numbers, scale, groupings = a_map(8)
    one = smooth(numbers, scale, groupings)
    other = smooth(numbers, scale, groupings, typical_bias=0.5)
    assert np.array_equal(one.estimate, other.estimate)
    # Either end moves outward, in every cell.
    assert (other.low < one.low).all()
    assert (other.high > one.high).all()


def test_fitted_effects_are_named():
    """One that explains nothing is no effect of the model."""
    numbers, scale, groupings = a_map(7)
    done = smooth(numbers, scale, [*groupings, RandomEffect("all one", np.zeros(24, int))])
    assert done.effects == ("same row", "same column")
    assert done.left_out == ()
    assert not done.widened
    assert smooth(numbers, scale, groupings, typical_bias=1.0).widened


# Few cells


@pytest.mark.parametrize("numbers", [[], [3.0], 3.0])
def test_a_single_cell_is_refused(numbers):
    """One cell has nobody to borrow from: one sentence says so."""
    with pytest.raises(hv.InputError, match="smoothed needs more than one cell"):
        smooth(numbers, 1.0)


@pytest.mark.parametrize("scale", [0.0, [1.0, 0.0, 0.0]])
def test_fewer_than_two_informative_cells(scale):
    """Where less than two cells say anything, numbers stay, and nothing is fitted."""
    done = smooth([1.0, 2.0, 9.0], scale, lower=0.0, upper=5.0)
    assert done.estimate.tolist() == [1.0, 2.0, 5.0]
    assert (done.low[2], done.high[2]) == (0.0, 5.0)
    assert done.effects is None
