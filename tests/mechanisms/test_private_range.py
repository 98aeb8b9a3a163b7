"""Plans with a private clipping range: what is charged, what is assumed, what is refused."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import hexveil as hv
from hexveil.accounting.error_model import LN20
from hexveil.accounting.promise import Pure
from hexveil.mechanisms.looks import user_weights
from hexveil.mechanisms.looks.bounds import WithinBounds
from hexveil.mechanisms.looks.range_search import RangeSearch, range_epsilon_share
from planning.sums import sums_of

CROWD = hv.Occupancy.from_dense([[1, 2]] * 150 + [[3, 0]] * 50 + [[0, 40]])


def planned(occupancy=CROWD, epsilon=1, **options):
    """Return a plan with a clipping range."""
    bounds = options.pop("bounds", (0, 60))
    return hv.plan(
        occupancy, epsilon=epsilon, bounds=bounds, clipping_range="private", advise=False, **options
    )


def test_a_share_can_be_named():
    """The clipping range then costs just that part of ε."""
    assert planned(range_share="0.25").allocation.clipping.epsilon == Fraction(1, 4)
    assert planned(epsilon=2, range_share=0.05).allocation.clipping.epsilon == Fraction(1, 10)


def test_the_errors_are_those_of_the_assumed_width():
    """Scale, bias, error and bound follow from width, weights, noise and prior."""
    plan = planned()
    part, interval = plan.error_models["mean"], plan.allocation.clipping
    width = 60 * interval.width
    assert np.allclose(part.scale, width * part.noise)
    assert np.allclose(part.bias, width * user_weights.max_bias(interval.weight))
    assert np.allclose(part.error, width * interval.expected_bias() + part.scale)
    assert np.allclose(part.bound95, part.bias + part.scale * LN20)
    end = user_weights.half_width_sd(interval.quantiles[0], interval.widening)
    assert (interval.expected_bias() >= user_weights.expected_clipping_error(end)).all()
    assert interval.width == pytest.approx(2 * end * user_weights.PRIOR_SD)


@pytest.mark.slow
def test_the_prior_s_clipping_is_what_simulation_says():
    """Cells normal around the centre, users normal within them, projected between two quantiles."""
    rng = np.random.default_rng(8)
    evenly = np.array([NormalDist().inv_cdf((k + 0.5) / 2000) for k in range(2000)])
    for quantile, z in ((Fraction(1, 10), 1.2815516), (Fraction(5, 100), 1.6448536)):
        middles = rng.normal(0, math.sqrt(1 - user_weights.WITHIN_CELL_SHARE**2), 4000)
        users = middles[:, None] + user_weights.WITHIN_CELL_SHARE * evenly
        seen = np.abs(np.clip(users, -z, z).mean(axis=1) - middles).mean() / (2 * z)
        assert user_weights.expected_clipping_error(z) == pytest.approx(seen, rel=0.1)
        assert user_weights.half_width_sd(quantile, Fraction(1)) == pytest.approx(z)
        assert user_weights.half_width_sd(quantile, Fraction(3, 2)) == pytest.approx(1.5 * z)


def test_few_users_pay_a_larger_share():
    """The share falls with users and with ε, within its limits."""
    shares = [range_epsilon_share(Fraction(1, 10), n, Fraction(1)) for n in (10, 2000, 8000, 10**6)]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (Fraction(1, 5), Fraction(1, 50))
    assert range_epsilon_share(Fraction(1, 10), 4000, Fraction(2)) < range_epsilon_share(
        Fraction(1, 10), 4000, Fraction(1)
    )
    assert 0 < user_weights.PRIOR_SD < 0.5


@pytest.mark.parametrize("users", [3700, 4001, 6666])
def test_a_share_is_rounded_up_to_a_thousandth(users):
    """It is never below what the ranks need, which falls with the number of users."""
    least = range_epsilon_share(Fraction(1, 10), 4000, Fraction(1)) * Fraction(4000, users)
    share = range_epsilon_share(Fraction(1, 10), users, Fraction(1))
    assert least <= share < least + Fraction(1, 1000)
    assert (share * 1000).denominator == 1


def test_auto_is_none_where_an_interval_cannot_be():
    """With other errors, methods or bounds there is no clipping range, and no complaint."""
    facts = sums_of(np.ones((900, 3), dtype=int)).public
    for options in (
        {"method": "per-cell"}, {"bounds": (0, 50)},
        {"objective": "max"},
    ):  # fmt: skip
        plan = hv.plan(facts, epsilon=3, clipping_range="auto", advise=False, **options)
        assert isinstance(plan.allocation.clipping, WithinBounds)
        assert plan.request.clipping_range == "bounds"


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
