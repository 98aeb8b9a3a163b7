"""Quick predictions against plans in full, and the loss that an error needs."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil.accounting.promise import Pure
from hexveil.mechanisms.looks.range_search import ErrorPrediction, RangeSearch
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.feasibility.prediction import (
    ErrorPredictor,
    epsilon_for_error,
    prediction_of,
)
from hexveil.planning.least_loss import LARGEST, two_figures_up


def facts(dense):
    """Return public facts of a table of counts, users down."""
    occupancy = hv.Occupancy.from_dense(dense)
    labels = {"cell": tuple(f"{i:03d}" for i in range(occupancy.n_cells))}
    cells = CellTable(hv.Labels("cell"), labels=labels)
    return PublicMetadata(occupancy, cells, ValueLattice.of((0, 60), "0.001"))


def crowd(seed, users=300, cells=12):
    """Return a fleet whose users differ."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(rng.gamma(0.4, 4.0, (users, 1)) * rng.gamma(1.0, 1.0, (1, cells)))
    dense[np.arange(cells), np.arange(cells)] += 1
    return dense[dense.sum(axis=1) > 0]


SETTINGS = ("bounds", "private", "per-cell", "auto")


@pytest.mark.slow
@pytest.mark.parametrize("clipping_range", SETTINGS)
@pytest.mark.parametrize("epsilon", ["0.3", "1", "5"])
def test_a_prediction_is_near_the_plan(clipping_range, epsilon):
    """Within a few percent of the error of the plan in full, and hardly below it."""
    for seed in (1, 2):
        known = facts(crowd(seed))
        made = hv.plan(known, epsilon=epsilon, clipping_range=clipping_range, advise=False)
        quick_error = ErrorPredictor(made, known).predict(Fraction(epsilon)).mean_error
        ratio = quick_error / made.expected_error
        assert ratio > 0.98
        assert ratio < 1.08


@pytest.mark.slow
@pytest.mark.parametrize("clipping_range", SETTINGS)
def test_the_loss_that_is_named_is_enough(clipping_range):
    """Planned in full there, the error is small enough; well below it, it is not.

    "auto" takes another clipping range from some epsilon on, so that its error may rise there.
    """
    below = 0.5 if clipping_range == "auto" else 0.8
    known = facts(crowd(3))
    made = hv.plan(known, epsilon=1, clipping_range=clipping_range, advise=False)
    for error in (1.0, 3.0):
        needed = ErrorPredictor(made, known).epsilon_needed(error)
        at = [
            hv.plan(
                known, epsilon=needed * part, clipping_range=clipping_range, advise=False
            ).expected_error
            for part in (1.0, below)
        ]
        assert at[0] <= error * 1.01
        assert at[1] > error


@examples(25)
@given(
    st.integers(0, 1000),
    st.sampled_from(SETTINGS),
    st.sampled_from([0.2, 1.0, 4.0]),
    st.sampled_from([("joint", None), ("per-cell", None), ("equal-split", None), ("joint", "max")]),
)
def test_no_plan_is_below_the_floor(seed, clipping_range, epsilon, way):
    """The error of every plan is at or above what is said to be certain, where that is little."""
    method, objective = way
    if way != ("joint", None):
        clipping_range = "bounds"
    known = facts(crowd(seed, users=40, cells=5))
    made = hv.plan(
        known, epsilon=epsilon, clipping_range=clipping_range, method=method, objective=objective,
        advise=False,
    )  # fmt: skip
    predictor = ErrorPredictor(made, known)
    error = made.expected_error
    assert predictor.error_lower_bound(epsilon) <= error * (1 + 1e-9)
    assert predictor.epsilon_lower_bound(error * (1 + 1e-9)) <= epsilon


@pytest.mark.parametrize("clipping_range", SETTINGS)
@pytest.mark.parametrize("error", [0.5, 2.0, 14.0])
def test_the_two_floors_are_one_curve(clipping_range, error):
    """The least loss at an error has that error as its least; without clipping it is U G/(L e)."""
    known = facts(np.full((40, 2), 3))
    plan = hv.plan(known, epsilon=1, clipping_range=clipping_range, advise=False)
    predictor = ErrorPredictor(plan, known)
    epsilon = predictor.epsilon_lower_bound(error)
    assert predictor.error_lower_bound(epsilon) == pytest.approx(error, rel=1e-12)
    if clipping_range == "bounds":
        assert epsilon == pytest.approx(60 * 2 / (40 * error), rel=1e-12)
        assert predictor.error_lower_bound(0) == 15


def test_other_requests_are_planned_in_full():
    """Of what has no quick way the plan itself is the prediction; nothing is certain of it."""
    known = facts(crowd(4, users=60, cells=4))
    for asked in ({"method": "per-cell"}, {"objective": "max"}, {"statistics": ("mean", "sd")}):
        made = hv.plan(known, epsilon=2, advise=False, **asked)
        predictor = ErrorPredictor(made, known)
        assert not predictor.is_fast
        assert predictor.predict(Fraction(2)).mean_error == pytest.approx(
            prediction_of(made).mean_error
        )
    assert predictor.error_lower_bound(2.0) == predictor.epsilon_lower_bound(1.0) == 0.0


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(4)])
@pytest.mark.parametrize("users", [30, 300, 3000])
def test_a_plan_chooses_what_is_predicted_to_be_best(users, epsilon):
    """Nearly: no pair of quantiles and stretch makes a plan that is better by a tenth."""
    seed = np.random.default_rng(users)
    occupancy = hv.Occupancy.from_dense(1 + seed.poisson(2, (users, 3)) * seed.integers(1, 9, 3))
    made = hv.plan(
        occupancy, epsilon=epsilon, bounds=(0, 1), clipping_range="private", advise=False
    )
    chosen = made.allocation.clipping
    search = RangeSearch(occupancy, Pure(epsilon), epsilon, None)
    ends = {(one.quantile, one.widening) for one in search.candidates}
    assert (chosen.quantiles[0], chosen.widening) in ends
    errors = []
    for one in search.candidates:
        interval, weights = search.interval(one)
        assert search.remaining(one) == float(epsilon - interval.epsilon)
        errors.append(interval.width * float((weights.noise + interval.expected_bias()).mean()))
    assert made.expected_error <= 1.1 * min(errors)


@given(
    st.lists(st.tuples(st.floats(1e-4, 100), st.floats(0, 3)), min_size=1, max_size=5),
    st.floats(0.2, 2),
    st.floats(1e-3, 10),
)
def test_the_least_loss_is_found(lines, error, begin):
    """Of plans whose error falls as noise / loss + rest, the cheapest loss that is enough."""

    def at(loss):
        noise, off = min((n / float(loss) + o, o) for n, o in lines)
        return ErrorPrediction(np.array([noise - off]), np.array([off]))

    found = epsilon_for_error(at, error, Fraction(begin))
    least = min((n / (error - o) for n, o in lines if o < error), default=np.inf)
    if found is None:
        assert least > LARGEST * (1 - 1e-5)
    else:
        assert at(Fraction(found)).mean_error <= error
        assert found == pytest.approx(two_figures_up(max(least, 1e-6)), rel=1e-6)


def test_rounding_does_not_end_the_search():
    """An error that jumps up at some losses is passed by."""

    def at(loss):
        off = 0.5 if 6.3 < float(loss) < 6.4001 else 0.0
        return ErrorPrediction(np.array([3.2 / float(loss)]), np.array([off]))

    assert epsilon_for_error(at, 0.5, Fraction(1)) == pytest.approx(6.4, rel=0.02)
