"""AKMV: user sums clipped at a private extreme."""

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.simulated_noise import law
from hexveil.mechanisms.single_cell.cell_allocation import CellProblem, study_cell
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from scripted_noise import ScriptedNoise
from stage_laws import candidate_scores, every_data_set


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


def test_figures_are_those_of_the_largest_threshold():
    """Sensitivity and noise scale are stated for T = U m*."""
    plan = hv.mechanisms.AKMV().plan([4, 1, 1], bounds=(-3, 5), epsilon=1)
    assert plan.sensitivity == pytest.approx(8 * 4 / 6)
    assert plan.noise_scale == pytest.approx(2 * plan.sensitivity)


def test_sums_move_scores_by_one():
    """One user's sum moves every score of T by at most 1, over all sums."""
    counts = (4, 2, 1)
    akmv, data = allocation(counts, 2, candidates=6), every_data_set(counts, 2)
    (measured,) = akmv.stages[0].measure(PrivateSums(data), Outputs())
    cube = candidate_scores(measured).reshape(9, 5, 3, -1)
    assert [int(np.ptp(cube, axis=user).max()) for user in range(3)] == [1, 1, 1]
    assert akmv.stages[0].user_votes.tolist() == [1, 1, 1]


def test_zero_threshold_is_widened_to_one_quantum():
    """With T = 0 the sum is clipped to [0, 1] quantum, at noise of that size."""
    plan = hv.mechanisms.AKMV(candidates=4).plan([3, 1], bounds=(-3, 5), epsilon=1)
    noise = ScriptedNoise([0])
    assert plan.estimate([5, 5], noise) == pytest.approx(-3, abs=1e-5)
    assert noise.sums == [2]
    assert noise.scales == pytest.approx([2.0])


def test_rank_is_that_of_one_sided_clipping():
    """T is to have ⌈1/ε''⌉ sums above it (ERRATA 14), and no more than there are users."""
    cell = study_cell(list(range(1, 31)), (0, 8))
    for split, epsilon, above in (("0.5", 1, 2), ("0.25", 1, 2), ("0.75", 1, 4), ("0.5", 4, 1)):
        assert (
            hv.mechanisms.AKMV(split=split).allocate_cell(cell, Fraction(epsilon)).target
            == 30 - above
        )
    assert hv.mechanisms.AKMV().allocate_cell(cell, Fraction(1, 100)).target == 0


def collections():
    """Return WC's geometric (M = 6) and extreme-valued (L = 101, m* = 10) counts."""
    geometric = np.concatenate([np.full(2**i, 2 ** (6 - i)) for i in range(7)])
    return {"geometric": geometric, "extreme": np.array([10] + [1] * 100)}


def worst_case_error(counts, epsilon):
    """Return WC's error of AKMV with all values at the upper bound, over the exact law of T."""
    cell = study_cell(counts, (0, 65))
    akmv = hv.mechanisms.AKMV().allocate_cell(cell, Fraction(epsilon))
    choice, sums = akmv.stages[0], 65.0 * counts
    (measured,) = choice.measure(PrivateSums(cell.span * counts), Outputs())
    scores, sizes = measured.scores[0], measured.sizes[0]
    chance = law(-scores, sizes, choice.scale)
    points = choice.candidates.points(np.arange(choice.candidates.size)) * float(cell.quantum)
    assert sizes.sum() == points.size
    top = np.repeat(chance / np.maximum(sizes, 1), sizes) @ np.column_stack(
        [
            np.maximum(sums - points[:, None], 0).sum(axis=1) / counts.sum(),
            points / (counts.sum() * float(akmv.mean_epsilon)),
        ]
    )
    return top.sum()


@pytest.mark.parametrize("name", ["geometric", "extreme"])
def test_optimal_clipping_has_the_smaller_worst_case_error(name):
    """WC figure 1: on the worst-case data OptimalClipping is below Baseline and AKMV."""
    counts = collections()[name]
    for epsilon in ("0.1", "0.25", "0.5", 1, "1.5", 2):
        best = (
            hv.mechanisms.OptimalClipping()
            .plan(counts, bounds=(0, 65), epsilon=epsilon)
            .worst_case_error
        )
        plain = (
            hv.mechanisms.Baseline().plan(counts, bounds=(0, 65), epsilon=epsilon).worst_case_error
        )
        assert best < plain or (epsilon == 2 and best == plain)  # from ε = 2 on they are the same
        assert best < worst_case_error(counts, epsilon)


@pytest.mark.parametrize(("name", "normal"), [("geometric", False), ("extreme", True)])
def test_optimal_clipping_is_better_on_average(name, normal):
    """WC figures 2 and 3: so it is for uniform and for projected normal samples, on average.

    Normal samples have mean U/2 and variance U/4: the bounds are 8 standard deviations away, so
    WC's rejection of samples beyond them never happens. At ε = 2 and above OptimalClipping is
    Baseline.
    """
    counts, rng, trials = collections()[name], np.random.default_rng(8), 4_000
    users = np.repeat(np.arange(counts.size), counts)
    start = np.cumsum(counts) - counts
    if normal:
        samples = rng.normal(32.5, np.sqrt(65 / 4), (trials, users.size))
    else:
        samples = rng.uniform(0, 65, (trials, users.size))
    means = np.add.reduceat(samples, start, axis=1) / counts
    true = samples.mean(axis=1)
    for epsilon in ("0.25", "0.5", 1, "1.5"):
        errors = []
        for mechanism in (
            hv.mechanisms.OptimalClipping(),
            hv.mechanisms.Baseline(),
            hv.mechanisms.AKMV(),
        ):
            plan = mechanism.plan(counts, bounds=(0, 65), epsilon=epsilon)
            errors.append(np.abs(plan.simulate(means, rng, trials) - true).mean())
        best, plain, other = errors
        assert best < plain
        assert best < other
