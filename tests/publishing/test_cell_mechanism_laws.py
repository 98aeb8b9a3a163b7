"""Mechanisms of one cell through the release path: the law of what is published.

The laws are compared by the largest distance of two distribution functions of 2,000 numbers each
(Smirnov). A true agreement is refused with a chance of 1e-5. Noise of twice or half the scale is
an eighth apart and passes with a chance below 1 percent.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import hexveil as hv
from publishing import noise_library
from publishing.setting import dataset_of

CELLS = 2000
USERS = np.array([9, 6, 5, 4, 3, 3, 2, 2, 1, 1, 1, 1])
MEANS = np.array([21, 33, 18, 25, 40, 12, 28, 22, 35, 9, 30, 26])
EPSILON = Fraction(3)
DISTANCE = math.sqrt(-math.log(1e-5 / 2) / 2) * math.sqrt(2 / CELLS)

MECHANISMS = (
    hv.mechanisms.Baseline(),
    hv.mechanisms.OptimalClipping(),
    hv.mechanisms.ArrayAveraging("best_fit", "sqrt"),
    hv.mechanisms.ArrayAveraging("wrap_around", "sqrt"),
    hv.mechanisms.OptArrayAveraging("minimax"),
    hv.mechanisms.OptArrayAveraging("surrogate"),
    hv.mechanisms.Levy(gamma=0.2),
    hv.mechanisms.Levy(gamma=0.2, interval="unclamped", arrays="full"),
    hv.mechanisms.FixedQuantile(0.1, 0.9),
    hv.mechanisms.OptimizedQuantile(),
    hv.mechanisms.AKMV(split="0.5"),
    hv.mechanisms.Auto(trials=64),
)


def city_of_equal_cells():
    """Return a data set of cells with the same counts and values, and users of their own."""
    counts = np.kron(np.eye(CELLS, dtype=np.int64), USERS[:, None])
    return dataset_of(counts, np.tile(1000 * MEANS * USERS, CELLS), scale=(0, 60, "0.001"))


@pytest.fixture(scope="module")
def equal_cells():
    """Return the data set of all tests."""
    return city_of_equal_cells()


def published(dataset, mechanism, folder):
    """Return the published means of one release, which are as many independent ones."""
    plan = hv.plan(
        dataset, epsilon=EPSILON, method="equal-split", mechanism=mechanism, advise=False
    )
    ledger = hv.Ledger(folder / "ledger.sqlite", dataset="cells", budget=10)
    table = hv.release(dataset, plan, ledger=ledger, accept_noise=True).table
    return table["mean_noisy"].to_numpy()


def distance(one, other):
    """Return the largest distance of two distribution functions, of numbers to the cent."""
    # The lattices of a study and of records round points apart, by less than a thousandth. Points
    # are multiples of a thousandth, so that none of them lies near the end of a cent.
    cents = (np.floor(100 * numbers + 0.35) for numbers in (one, other))
    return stats.ks_2samp(*cents).statistic


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_published_numbers_have_the_law_that_is_evaluated(mechanism, equal_cells, tmp_path):
    """Noise, choices and curve of a release are those of a study, in law and in mean error."""
    means = published(equal_cells, mechanism, tmp_path)
    plan = mechanism.plan(USERS, bounds=(0, 60), epsilon=EPSILON)
    # Values for all trials at once, and values for each of them.
    for values in (MEANS, np.tile(MEANS, (CELLS, 1))):
        simulated = plan.simulate(values, np.random.default_rng(7), CELLS)
        assert distance(np.clip(means, 0, 60), np.clip(simulated, 0, 60)) < DISTANCE
    (row,) = hv.evaluation.evaluate(
        [mechanism], counts=USERS, bounds=(0, 60), user_means=MEANS, epsilons=[EPSILON], trials=4000
    ).to_pylist()
    errors = np.abs(means - MEANS @ USERS / USERS.sum())
    spread = math.hypot(errors.std() / math.sqrt(CELLS), row["standard_error"])
    assert abs(errors.mean() - row["mae"]) < 5 * spread


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_noise_of_another_scale_is_told_apart(factor, equal_cells, tmp_path):
    """The comparison has power: noise half or twice as large is noticed."""
    mechanism = hv.mechanisms.Levy(gamma=0.2)
    draws = noise_library.answered(
        lambda kind, numbers, _, draw: (
            draw() if kind == "choice" else numbers + np.rint(factor * (draw() - numbers))
        )
    )
    with draws:
        means = published(equal_cells, mechanism, tmp_path)
    plan = mechanism.plan(USERS, bounds=(0, 60), epsilon=EPSILON)
    simulated = plan.simulate(MEANS, np.random.default_rng(7), CELLS)
    assert distance(means, simulated) > DISTANCE
