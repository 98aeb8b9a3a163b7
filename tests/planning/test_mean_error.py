"""The joint plan of least average error: near the best of random plans, by the slope it follows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from examples import examples
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.planning.optimizers.mean_error import ObjectiveWeights, error_and_slope
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales
from strategies import occupancies

TINY = ([[3, 1], [2, 2]], [[5, 0], [1, 1], [1, 4]], [[9, 2], [1, 2], [2, 0]], [[1, 6], [4, 2]])


@pytest.mark.slow
@pytest.mark.parametrize("dense", TINY)
@pytest.mark.parametrize("epsilon", [0.5, 3, 12, 60])
def test_no_random_plan_is_much_better(dense, epsilon):
    """Shares kept pair by pair, which is more than the class allows, gain less than a tenth."""
    draw = np.random.default_rng(11)
    p = np.asarray(dense) / np.sum(dense, axis=0)
    part = draw.choice([0.0, 0.25, 0.5, 0.75, 1.0], (20_000, *p.shape))
    x = p * np.where(draw.random((20_000, 1, 1)) < 0.3, 1.0, part)
    rate = np.exp(draw.normal(0, 1.5, (20_000, p.shape[1]))) * (
        draw.random((20_000, p.shape[1])) < 0.8
    )
    lost = (rate[:, None] * x).sum(axis=2).max(axis=1)
    rate *= np.divide(epsilon, lost, out=np.zeros_like(lost), where=lost > 0)[:, None]
    noise = np.divide(1.0, rate, out=np.full_like(rate, np.inf), where=rate > 0)
    errors = np.minimum(np.maximum(1.0 - x.sum(axis=1), 0.0) / 2 + noise, 0.5).mean(axis=1)
    occupancy = hv.Occupancy.from_dense(dense)
    plan = hv.plan(occupancy, bounds=(0, 1), epsilon=epsilon, advise=False)
    assert plan.expected_error <= errors.min() * 1.1


@examples(60)
@given(
    occupancies(),
    st.floats(0.1, 20),
    st.integers(0, 2**32 - 1),
    st.sampled_from([LAPLACE, GAUSSIAN]),
)
def test_slope_is_that_of_the_error(occupancy, loss, seed, law):
    """The slope that the search follows agrees with differences of the error."""
    problem, draw = ClippingProblem(occupancy, law=law), np.random.default_rng(seed)
    cells = occupancy.n_cells
    weights = ObjectiveWeights(np.full(cells, 1.0), np.full(cells, 4.0))
    rates = np.exp(draw.normal(1, 1, 2 * cells))
    _, slopes = error_and_slope(problem, weights, loss, InverseScales(*rates.reshape(2, -1)))
    slope = slopes.ravel()

    def error(at):
        return error_and_slope(problem, weights, loss, InverseScales(at[:cells], at[cells:]))[0]

    for i in range(2 * cells):
        step = np.zeros(2 * cells)
        step[i] = rates[i] * 1e-5
        ahead = (error(rates + step) - error(rates)) / step[i]
        behind = (error(rates) - error(rates - step)) / step[i]
        if abs(ahead - behind) < 1e-3 * (abs(ahead) + abs(behind)):  # else a kink lies between
            assert slope[i] == pytest.approx((ahead + behind) / 2, rel=5e-3, abs=1e-6)
