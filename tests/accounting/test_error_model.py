"""What a plan states of loss and bias, against every data set of tiny cells; the noise floor."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from accounting.small_cells import SPAN, owners, values
from hexveil import theory
from strategies import occupancies

BOTH = ("mean", "variance")
TWO_CELLS = (
    [[1, 2], [2, 1]],
    [[1, 1], [1, 2], [1, 1]],
    [[3, 1], [1, 3]],
    [[2, 0], [1, 2], [1, 2]],
    [[4, 1], [1, 1]],
)
FACTORS = ((1.0, 1.0, 1.0), (0.5, 1.0, 0.25), (1.0, 0.0, 0.5), (0.125, 0.5, 0.5))


def with_factors(dense, factor, statistics, noise=(0.4, 0.15)):
    """Return a plan of these factors, with noise that differs by cell."""
    occupancy = hv.Occupancy.from_dense(dense)
    plan = hv.plan(
        occupancy, bounds=(0, SPAN), epsilon=1, statistics=statistics, objective="max", advise=False
    )
    most, total = occupancy.kth_largest(1), occupancy.records_per_cell
    wide = 1.0 + np.arange(occupancy.n_cells)
    mean, variance = ("mean" in statistics), ("variance" in statistics)
    rows = replace(
        plan.allocation,
        contribution_cap=most * mean,
        noise_scale_records=noise[0] * wide * total * mean,
        variance_cap=most * variance,
        variance_noise=noise[1] * wide * variance,
        contribution_factor=np.array(factor[: occupancy.n_users]),
    )
    return plan.changed(allocation=rows)


def published(counts, factor):
    """Return mean and variance as they are published, without noise, of every data set.

    Means of users are projected around the middle; of the variance a part is put at the middle.
    """
    x, who, m = values(sum(counts)), owners(counts), np.array(counts)
    kept, total = m * factor, sum(counts)
    own = np.stack([x[:, who == user].mean(axis=1) for user in range(len(counts))], axis=1)
    half = SPAN * kept / m / 2
    mean = np.clip(own, SPAN / 2 - half, SPAN / 2 + half) @ (m / total)
    mass = np.asarray(factor)[who] / total
    away = 1.0 - mass.sum()
    centre = x - SPAN / 2
    variance = centre**2 @ mass - (centre @ mass) ** 2
    low, high = (-0.25, 0.75) if away <= 0.5 else (-0.25, None)
    spread = away * (1 - away)
    top = high * spread if high is not None else 1 - spread
    top = top if high is not None else top / 4
    return mean, variance + SPAN**2 * (low * spread + top) / 2


@pytest.mark.parametrize("dense", TWO_CELLS)
@pytest.mark.parametrize("factor", FACTORS)
def test_stated_bias_is_never_exceeded(dense, factor):
    """The worst error before noise is the mean's stated bias, and within the variance's."""
    plan = with_factors(dense, factor, BOTH)
    for cell, counts in enumerate(np.transpose(dense)):
        here = np.flatnonzero(counts)
        own = counts[here].tolist()
        mean, variance = published(own, np.array(factor)[here])
        x = values(sum(own))
        worst = np.abs(mean - x.mean(axis=1)).max()
        assert worst == pytest.approx(plan.error_models["mean"].bias[cell], rel=1e-9, abs=1e-12)
        worst = np.abs(variance - x.var(axis=1)).max()
        assert worst <= plan.error_models["variance"].bias[cell] + 1e-12


@given(occupancies(), st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_no_unclipped_weights_reach_below_the_floor(occupancy, epsilon, random):
    """Any weights and scales within ε have a mean noise of at least the floor."""
    rng = np.random.default_rng(random.randrange(2**32))
    weight = rng.exponential(size=occupancy.n_pairs)
    weight /= np.bincount(occupancy.cell, weights=weight)[occupancy.cell]
    scale = rng.exponential(size=occupancy.n_cells) + 1e-3
    loss = np.bincount(occupancy.user, weights=weight / scale[occupancy.cell])
    scale *= loss.max() / epsilon  # for a span of 1, the most exposed user loses ε now
    floor = theory.noise_floor(1.0, occupancy.n_cells, occupancy.n_users, epsilon)
    assert scale.mean() >= floor * (1 - 1e-9)


def test_floor_is_reached_by_equal_shares():
    """Cells that all users fill equally, with equal noise, are at the floor."""
    users, cells, epsilon = 4, 3, 2.0
    scale = cells * (1 / users) / epsilon  # each user loses (1/users)/scale in each cell
    assert theory.noise_floor(1.0, cells, users, epsilon) == pytest.approx(scale)
