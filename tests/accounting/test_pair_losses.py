"""Losses of (cell, user) pairs, by hand: three users in three cells, the last without noise."""

import numpy as np
import pytest

from hexveil.accounting import privacy_loss as module
from hexveil.accounting.contributions import (
    clipped_by_caps,
    effective_users,
    majority_user,
    record_shares,
    sum_per_cell,
    sum_per_user,
    sum_squares_per_user,
    sums_per_cell,
    threshold_shares,
)
from hexveil.accounting.privacy_loss import (
    VARIANCE_LATTICE,
    LossParameters,
    bisect_factors,
    composed_losses,
    count_charged_cells,
    loss_at,
    max_pair_loss,
    pair_losses,
    user_losses,
)
from hexveil.model.occupancy import CellSlice

PAIRS = CellSlice(
    cell=np.array([0, 0, 1, 1, 2, 2]),
    user=np.array([0, 1, 0, 2, 1, 2]),
    n=np.array([3, 1, 2, 2, 1, 1]),
    n_cells=3,
    n_users=3,
    start=np.array([0, 2, 4, 6]),
)
TOTAL = np.array([4, 4, 2])
FACTOR = np.array([1.0, 0.5, 1.0])
ALL, NONE = np.ones(3, dtype=bool), np.zeros(3, dtype=bool)
MEAN = LossParameters(
    records=TOTAL,
    cap=np.array([2, 2, 1]),
    noise=np.array([4.0, 8.0, 0.0]),
    span_quanta=np.zeros(3),
    variance_cap=np.zeros(3, dtype=np.int64),
    variance_noise=np.zeros(3),
    variance_unclipped=NONE,
    publishes_mean=ALL,
    publishes_variance=NONE,
)
MEAN_LOSSES = [0.5, 0.125, 0.25, 0.25, 0.0, 0.0]
VARIANCE = MEAN._replace(
    variance_cap=np.array([3, 2, 1]),
    variance_noise=np.array([0.5, 0.25, 0.0]),
    variance_unclipped=np.array([True, False, False]),
    publishes_mean=NONE,
    publishes_variance=ALL,
)
EXACTLY = {"rel": 0, "abs": 1e-15}


@pytest.fixture(params=[1, 4, 1 << 20])
def blocks(request, monkeypatch):
    """Compute so many pairs at a time."""
    monkeypatch.setattr(module, "BLOCK_PAIRS", request.param)


@pytest.mark.usefixtures("blocks")
def test_a_mean_costs_the_records_kept_over_its_noise():
    """The loss is f min(m, t) / noise, and 0 in a cell without noise, which shows a constant."""
    assert pair_losses(PAIRS, *MEAN, FACTOR).tolist() == MEAN_LOSSES


def test_parts_of_records_are_kept_in_whole_quanta():
    """Half a record of three quanta is one quantum."""
    losses = pair_losses(PAIRS, *MEAN._replace(span_quanta=np.full(3, 3.0)), FACTOR)
    assert losses.tolist() == pytest.approx([0.5, 1 / 12, *MEAN_LOSSES[2:]], **EXACTLY)


@pytest.mark.usefixtures("blocks")
def test_a_dropped_pair_costs_nothing():
    """Nothing of it is read; all other pairs cost the same."""
    dropped = np.array([False, False, True, False, False, False])
    losses = pair_losses(PAIRS, *MEAN, FACTOR, dropped)
    assert losses.tolist() == [0.5, 0.125, 0.0, 0.25, 0.0, 0.0]
    variance = pair_losses(PAIRS, *VARIANCE, FACTOR)
    kept = pair_losses(PAIRS, *VARIANCE, FACTOR, dropped)
    assert kept.tolist() == [*variance[:2], 0.0, *variance[3:]]


def test_a_variance_costs_its_sensitivity_over_its_noise():
    """Exact where nothing is put at the middle, else by share; each user pays for the lattice."""
    losses = pair_losses(PAIRS, *VARIANCE, FACTOR)
    plain = [0.25 / 0.5, 3 / 16 / 0.5, 0.25 / 0.25, 0.25 / 0.25]
    expected = [*(loss + VARIANCE_LATTICE for loss in plain), 0.0, 0.0]
    assert losses.tolist() == pytest.approx(expected, **EXACTLY)


def test_a_share_below_a_half_moves_a_variance_by_its_product():
    """Where something is put at the middle: s (1 - s) for the share that is kept."""
    losses = pair_losses(PAIRS, *VARIANCE._replace(variance_unclipped=NONE), FACTOR)
    expected = [0.25 / 0.5 + VARIANCE_LATTICE, 0.125 * 0.875 / 0.5 + VARIANCE_LATTICE]
    assert losses[:2].tolist() == pytest.approx(expected, **EXACTLY)


def test_mean_and_variance_are_charged_apart():
    """Each by its most, also to a user of more than half of a cell."""
    asked = VARIANCE._replace(
        cap=np.array([3, 2, 1]), noise=np.array([4.0, 8.0, 0.0]), publishes_mean=ALL
    )
    losses = pair_losses(PAIRS, *asked, np.ones(3))
    assert losses[0] == pytest.approx(3 / 4 + 0.5 + VARIANCE_LATTICE, **EXACTLY)
    assert losses[1] == pytest.approx(1 / 4 + 0.375 + VARIANCE_LATTICE, **EXACTLY)


@pytest.mark.usefixtures("blocks")
def test_losses_of_users_and_of_cells():
    """A user loses the sum of its pairs, rounded up; a cell's claim is that of its worst user."""
    losses = user_losses(PAIRS, *MEAN, FACTOR)
    assert (losses >= [0.75, 0.125, 0.25]).all()
    assert losses.tolist() == pytest.approx([0.75, 0.125, 0.25], rel=1e-13)
    assert count_charged_cells(PAIRS, *MEAN, FACTOR).tolist() == [2, 1, 1]
    worst = max_pair_loss(PAIRS, *MEAN, FACTOR)
    assert worst.tolist() == [0.5, 0.25, 0.0]
    composed = composed_losses(PAIRS, worst, *MEAN, FACTOR)
    assert composed.tolist() == pytest.approx([0.75, 0.5, 0.25], rel=1e-13)


def test_clipped_records_are_those_above_the_cap():
    """Per cell: 3 - 2 and 1 - 1/2, nothing, and half a record."""
    clipped = clipped_by_caps(PAIRS, MEAN.cap, MEAN.span_quanta, FACTOR)
    assert clipped.tolist() == [1.5, 0.0, 0.5]


def test_sums_of_shares():
    """Shares of a cell's records, summed over users' cells and over cells' users."""
    assert record_shares(PAIRS, TOTAL).tolist() == [0.75, 0.25, 0.5, 0.5, 0.5, 0.5]
    per_cell, per_user = np.array([1.0, 10.0, 100.0]), np.array([1.0, 2.0, 4.0])
    assert sum_per_user(PAIRS, TOTAL, per_cell).tolist() == [5.75, 50.25, 55.0]
    assert sum_squares_per_user(PAIRS, TOTAL, per_cell).tolist() == [3.0625, 25.0625, 27.5]
    assert sum_per_cell(PAIRS, TOTAL, per_user).tolist() == [1.25, 2.5, 3.0]
    bent = sums_per_cell(PAIRS, TOTAL, per_user, per_user)
    assert [sums.tolist() for sums in bent] == [[1.25, 2.5, 3.0], [0.6875, 1.25, 1.5]]


def test_losses_at_rates():
    """Rates per share for the mean; for the variance s (1 - s) of a share of at most a half."""
    mean, variance = np.array([1.0, 2.0, 0.0]), np.array([0.0, 4.0, 8.0])
    half = np.array([1.0, 1.0, 0.5])
    plain = loss_at(PAIRS, TOTAL, mean, np.zeros(3), half)
    assert plain.tolist() == [0.75 + 1.0, 0.25, 0.5]
    both = loss_at(PAIRS, TOTAL, mean, variance, half)
    assert both.tolist() == [1.75 + 4 * 0.25, 0.25 + 8 * 0.25, 0.5 + (4 + 8) * 0.1875]


def test_the_user_of_more_than_half_of_a_cell():
    """Half of a cell is not more than half of it."""
    users, records = majority_user(PAIRS, TOTAL)
    assert (users.tolist(), records.tolist()) == ([0, -1, -1], [3, 0, 0])


@pytest.mark.parametrize("loss", [0.5, 1.0, 1.5, 9.0])
def test_a_factor_found_by_halving_uses_up_the_loss(loss):
    """The largest factor of at most 1 within the loss; that of users without a majority stays."""
    mean, variance = np.ones(3), np.full(3, 0.5)
    found = bisect_factors(PAIRS, TOTAL, mean, variance, FACTOR, loss=loss, lower_bound=False)
    assert found[1:].tolist() == FACTOR[1:].tolist()
    used = loss_at(PAIRS, TOTAL, mean, variance, found)[0]
    assert used <= loss
    assert used == pytest.approx(min(loss, 0.75 + 0.5 + 0.5 * (0.25 + 0.25)), rel=1e-12)


def test_the_least_charge_counts_cells_without_a_variance():
    """There a share costs its rate of the mean: a half at rate 2 adds the factor itself."""
    two = CellSlice(*(np.array(x) for x in ([0, 1], [0, 0], [3, 2])), 2, 1, np.array([0, 1, 2]))
    rates = np.array([1.0, 2.0]), np.array([2.0, 0.0])
    found = bisect_factors(two, np.array([4, 4]), *rates, np.ones(1), loss=5 / 3, lower_bound=True)
    assert found.tolist() == pytest.approx([2 / 3], rel=1e-12)


def test_the_least_charge_is_that_of_plain_data():
    """Two of three records move a variance by 2/9, less than the bound of any share."""
    one = CellSlice(*(np.array([x]) for x in (0, 0, 2)), 1, 1, np.array([0, 1]))
    rates = np.array([0.1]), np.array([2.0])
    found = bisect_factors(one, np.array([3]), *rates, np.ones(1), loss=0.52, lower_bound=True)
    assert found.tolist() == [1.0]
    fewer = bisect_factors(one, np.array([3]), *rates, np.ones(1), loss=0.51, lower_bound=True)
    assert fewer[0] < 1.0


def test_shares_of_thresholds():
    """Σ min(m, t) / t over a user's cells; a cell of threshold 0 publishes nothing of records."""
    assert threshold_shares(PAIRS, np.array([1, 4, 0])).tolist() == pytest.approx([1.5, 1.0, 0.5])


def test_effective_users():
    """Two users of equal parts are two; of three quarters and a quarter, 1.6."""
    assert effective_users(PAIRS, TOTAL).tolist() == [1.6, 2.0, 2.0]
