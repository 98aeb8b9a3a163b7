import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from hexveil.accounting.sensitivity import variance_sensitivity_bound
from hexveil.planning.optimizers.user_factors import ClippingProblem
from planning.plan_grid import losses, shares
from strategies import occupancies


def dense_of(occupancy):
    dense = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=int)
    dense[occupancy.user, occupancy.cell] = occupancy.n
    return dense


def drawn(occupancy, seed):
    """Return random rates, some of them 0, and random factors."""
    draw, cells = np.random.default_rng(seed), occupancy.n_cells
    rates = [draw.exponential(2, cells) * (draw.random(cells) < 0.7) for _ in range(2)]
    return np.stack(rates), draw.random(occupancy.n_users)


SEEDS = st.integers(0, 2**32 - 1)


@examples(60)
@given(occupancies(), SEEDS)
def test_sums_agree_with_plain_tables(occupancy, seed):
    """What is away, lost and pushed agrees with the same written over a dense table."""
    rates, factor = drawn(occupancy, seed)
    problem, x = ClippingProblem(occupancy), shares(dense_of(occupancy), factor[None])[0]
    assert problem.clipped_share(factor) == pytest.approx(1 - x.sum(axis=0), abs=1e-12)
    lost = (rates[0] * x + rates[1] * variance_sensitivity_bound(x)).sum(axis=1)
    assert problem.losses(rates, factor) == pytest.approx(lost, abs=1e-12)
    everywhere = np.ones((2, occupancy.n_cells))
    mean, variance = problem.marginal_sums(everywhere, factor + 1, factor)
    assert mean == pytest.approx(((factor + 1)[:, None] * x).sum(axis=0), abs=1e-12)
    assert variance == pytest.approx(
        ((factor + 1)[:, None] * variance_sensitivity_bound(x)).sum(axis=0), abs=1e-12
    )


@examples(60)
@given(occupancies(), SEEDS, st.floats(0.01, 10))
def test_factors_are_the_largest_within_a_loss(occupancy, seed, loss):
    """Each factor keeps its user within the loss, and a little more would not."""
    rates, _ = drawn(occupancy, seed)
    problem = ClippingProblem(occupancy)
    factor = problem.largest_factors(rates, loss)
    assert ((factor >= 0) & (factor <= 1)).all()
    assert (problem.losses(rates, factor) <= loss * (1 + 1e-9)).all()
    more = problem.losses(rates, np.minimum(factor * (1 + 1e-6), 1.0))
    steep = problem.loss_slope(rates, factor) * factor > 1e-3 * loss
    assert (more[(factor < 1) & steep] > loss * (1 - 1e-9)).all()


@examples(60)
@given(occupancies(), SEEDS, st.floats(0.01, 10))
def test_least_charge_is_never_above_any_plans(occupancy, seed, loss):
    """Factors for lower bounds are no smaller than any factors that a plan may have."""
    rates, factor = drawn(occupancy, seed)
    dense = dense_of(occupancy)
    problem = ClippingProblem(occupancy)
    largest = problem.largest_factors(rates, loss, least=True)
    assert (largest >= problem.largest_factors(rates, loss) * (1 - 1e-12)).all()
    for tried in (factor, np.ones(factor.size), np.round(factor)):
        table = dense, tried[None], *rates[:, None]
        if losses(*table)[0] <= loss:
            assert (tried <= largest * (1 + 1e-9)).all()


@examples(60)
@given(occupancies(), SEEDS)
def test_slope_is_that_of_the_loss(occupancy, seed):
    """The slope in the factor agrees with differences of the loss."""
    rates, factor = drawn(occupancy, seed)
    problem, step = ClippingProblem(occupancy), 1e-6
    ahead = problem.losses(rates, factor + step) - problem.losses(rates, factor - step)
    assert problem.loss_slope(rates, factor) == pytest.approx(ahead / (2 * step), abs=1e-4)


def test_kept_quanta_put_more_away():
    """With coarse quanta at least as much goes to the middle as without."""
    from hexveil_research.papers.comp_setting import comp_setting  # noqa: PLC0415  one use

    occupancy = comp_setting(3, 0, cells=5)
    factor = np.random.default_rng(0).random(occupancy.n_users)
    fine, coarse = ClippingProblem(occupancy), ClippingProblem(occupancy, np.full(5, 2.0))
    assert np.array_equal(fine.clipped_share_in_quanta(factor), fine.clipped_share(factor))
    assert (coarse.clipped_share_in_quanta(factor) > fine.clipped_share(factor)).all()
    whole = np.ones(occupancy.n_users)
    assert not coarse.clipped_share_in_quanta(whole).any()
