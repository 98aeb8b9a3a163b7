"""Wherever pairs lie, and wherever blocks begin, every question has the answer of one block."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil import InputError
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE
from hexveil.mechanisms.looks import user_weights
from hexveil.model.pair_columns import WEIGHT_RESOLUTION, FactoredWeights
from hexveil.planning.optimizers.user_factors import ClippingProblem
from model.stores import STORES, distributed, stored
from strategies import occupancies

FIGURES = (
    "users_per_cell", "records_per_cell", "largest_count", "cells_per_user", "records_per_user",
)  # fmt: skip


@pytest.mark.parametrize("store", STORES)
@given(occupancies(users=6, cells=6), st.integers(1, 12))
def test_every_figure_is_that_of_the_pairs(store, occupancy, room):
    """Counts per cell and per user, and every rank, are those of a dense table."""
    table = np.zeros((occupancy.n_users, occupancy.n_cells), dtype=int)
    table[occupancy.user, occupancy.cell] = occupancy.n
    figures = (
        (table > 0).sum(axis=0), table.sum(axis=0), table.max(axis=0),
        (table > 0).sum(axis=1), table.sum(axis=1),
    )  # fmt: skip
    fresh = hv.Occupancy(*(getattr(occupancy, one.name) for one in fields(occupancy)))
    with stored(fresh, store, room) as there:
        for name, expected in zip(FIGURES, figures, strict=True):
            np.testing.assert_array_equal(getattr(there, name), expected, name)
        for k in range(1, occupancy.n_users + 1):
            np.testing.assert_array_equal(there.kth_largest(k), np.sort(table, axis=0)[-k])
        assert (there.n_pairs, there.n_records) == ((table > 0).sum(), table.sum())


@pytest.mark.parametrize("store", STORES[1:])
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN])
@given(occupancies(users=6, cells=5), st.integers(0, 2**32 - 1))
def test_every_sum_over_pairs_is_the_same(law, store, occupancy, seed):
    """All that a search asks of pairs, for random rates and factors."""
    draw = np.random.default_rng(seed)
    rates = draw.exponential(1, (2, occupancy.n_cells)) * draw.integers(0, 2, (2, 1))
    factor, weight = draw.uniform(0, 1, (2, occupancy.n_users))
    loss = float(draw.exponential(1))
    asked = [
        lambda e: e.clipped_share(factor),
        lambda e: e.losses(rates, factor),
        lambda e: e.loss_slope(rates, factor),
        lambda e: np.concatenate(e.marginal_sums(rates, weight, factor)),
        lambda e: e.largest_factors(rates, loss),
        lambda e: e.largest_factors(rates, loss, least=True),
    ]
    here = [ask(ClippingProblem(occupancy, law=law)) for ask in asked]
    with stored(occupancy, store) as apart:
        for ask, expected in zip(asked, here, strict=True):
            found = ask(ClippingProblem(apart, law=law))
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


PRIOR = user_weights.UserMeanPrior(0.3, 0.1)


def objective(occupancy, logs, law):
    """Return the objective of weights, from a dense table of shares alone."""
    power, rates = 1 if law == LAPLACE else 2, np.exp(logs)
    share = np.zeros((occupancy.n_users, occupancy.n_cells))
    share[occupancy.user, occupancy.cell] = occupancy.n
    share /= share.sum(axis=0)
    factor = np.minimum(1, ((rates * share) ** power).sum(axis=1) ** (-1 / power))
    total = (factor[:, None] * share).sum(axis=0)
    away = factor[:, None] / total - 1
    smooth = user_weights.ABS_SMOOTHING**2
    length = np.sqrt(((share * away) ** 2 + smooth * share**2).sum(axis=0))
    distance = (share * np.sqrt(away**2 + smooth)).sum(axis=0)
    bias = user_weights.MEAN_ABS_NORMAL * PRIOR.within_cell_sd * length
    bias += PRIOR.weight_confounding / 2 * distance
    noise = law.mean_absolute / (2.0 ** (1 / power) * rates * total)
    return float((noise + bias).mean()), factor, total


def agrees(occupancy, store, logs, law):
    """Return whether value, slope and weights of a store are those of the table."""
    with stored(occupancy, store) as there:
        problem = user_weights.WeightProblem(there, 2.0, PRIOR, law)
        value, slope = problem.value(logs)
        weight = problem.weighing(np.exp(logs)).weight
    steps = 1e-6 * np.eye(logs.size)
    ahead, behind = (
        np.array([objective(occupancy, logs + sign * one, law)[0] for one in steps])
        for sign in (1, -1)
    )
    expected, factor, total = objective(occupancy, logs, law)
    return (
        np.isclose(value, expected, rtol=1e-9)
        and np.allclose(slope, (ahead - behind) / 2e-6, rtol=1e-3, atol=1e-6)
        and np.allclose(weight.factor, factor)
        and np.allclose(weight.total, total)
    )


TOWN = hv.Occupancy.from_dense([[5, 0, 1, 2], [1, 3, 0, 9], [8, 1, 1, 0], [0, 4, 2, 1]])
LOGS = np.array([0.3, -0.4, 0.9, 0.1])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("law", [LAPLACE, GAUSSIAN], ids=["pure", "delta"])
def test_the_objective_of_weights_is_that_of_a_dense_table(law, store):
    """Value, slope, factors and totals: users of whom some are held, in cells unlike in size."""
    assert agrees(TOWN, store, LOGS, law)


@given(occupancies(users=6, cells=6), st.integers(1, 12), st.integers(1, 12))
def test_its_fingerprint_says_who_reported_where_and_not_where_blocks_begin(occupancy, one, other):
    """Two cuts have one fingerprint; one record more has another."""
    assert distributed(occupancy, one).fingerprint == distributed(occupancy, other).fingerprint
    n = occupancy.n.copy()
    n[-1] += 1
    more = hv.Occupancy(occupancy.cell, occupancy.user, n, occupancy.n_cells, occupancy.n_users)
    assert distributed(more, one).fingerprint != distributed(occupancy, one).fingerprint


def test_pairs_themselves_are_not_there():
    """What needs them is refused in a sentence that says what to do instead; nothing else is."""
    apart = distributed(hv.Occupancy.from_dense([[3, 1], [2, 2]]), 1)
    with pytest.raises(InputError, match=r"all 4 pairs .* read with more memory"):
        apart.local()
    assert not {"cell", "user", "n", "start"} & set(dir(apart))
    assert repr(apart) == "DistributedOccupancy(n_cells=2, n_users=2, n_pairs=4)"


def test_weights_are_rounded_down():
    """Thirds of a cell are no more than the cell together."""
    thirds = hv.Occupancy.from_dense([[1], [1], [1]])
    weights = FactoredWeights(thirds, np.ones(3), np.array([1.0]))
    assert weights.of(thirds).tolist() == [WEIGHT_RESOLUTION // 3] * 3
