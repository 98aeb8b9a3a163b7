"""Losses of (cell, user) pairs, by hand: three users in three cells, the last without noise."""

import numpy as np
import pytest

from hexveil.accounting import moves, privacy_loss
from hexveil.accounting.moves import PairMoves
from hexveil.mechanisms.looks.clipped_mean import mean_moves, unrounded_mean_moves
from hexveil.mechanisms.looks.clipped_variance import variance_moves
from hexveil.model.occupancy import LocalOccupancy, Partition
from hexveil.model.pair_columns import SuppressedPairs

PAIRS = Partition(
    "cells",
    0,
    cell=np.array([0, 0, 1, 1, 2, 2]),
    user=np.array([0, 1, 0, 2, 1, 2]),
    n=np.array([3, 1, 2, 2, 1, 1]),
    n_cells=3,
    n_users=3,
)
TOTAL = np.array([4, 4, 2])
COUNTED = LocalOccupancy(PAIRS.cell, PAIRS.user, PAIRS.n, 3, 3)
FACTOR = np.array([1.0, 0.5, 1.0])
CAP, NOISE, NO_QUANTA = np.array([2, 2, 1]), np.array([4.0, 8.0, 0.0]), np.zeros(3)
ALL = np.array([False] * 6)


def kept(cap=CAP, quanta=NO_QUANTA, factor=FACTOR, dropped=ALL):
    """Return the records that each pair contributes; those of dropped pairs are none."""
    rows = np.flatnonzero(dropped)
    gone = SuppressedPairs.of_rows(COUNTED, COUNTED.cell[rows], COUNTED.user[rows])
    return privacy_loss.KeptRecords(cap, factor, quanta, gone)


MEAN_LOSSES = [0.5, 0.125, 0.25, 0.25, 0.0, 0.0]
MEAN = unrounded_mean_moves(kept(), NOISE)
VARIANCE = np.array([3, 2, 1]), np.array([0.5, 0.25, 0.0])
PLAIN = np.array([True, False, False])
NEARLY = {"rel": 0, "abs": 2 * privacy_loss.VARIANCE_LATTICE}


def stated(*statistics):
    """Return the moves of these statistics."""
    return PairMoves(COUNTED, statistics)


def variances(plain, **changes):
    """Return the moves of variances, of cells of which nothing is put at the middle."""
    cap, noise = VARIANCE
    return variance_moves(TOTAL, kept(cap, **changes), noise, plain)


@pytest.fixture(params=[1, 4, 1 << 20])
def blocks(request, monkeypatch):
    """Compute so many pairs at a time."""
    monkeypatch.setattr(moves, "BLOCK_PAIRS", request.param)


@pytest.mark.usefixtures("blocks")
def test_a_mean_costs_the_records_kept_over_its_noise():
    """The loss is f min(m, t) / noise, and 0 in a cell without noise, which shows a constant."""
    assert stated(MEAN).per_pair(moves.losses).tolist() == MEAN_LOSSES


def test_records_are_moved_in_whole_half_quanta():
    """Of three quanta: half a record is moved by two half quanta, not by three."""
    whole = mean_moves(3, kept(quanta=np.full(3, 3.0)), 6 * NOISE)
    losses = stated(whole).per_pair(moves.losses)
    assert losses.tolist() == [0.5, 2 / 24, *MEAN_LOSSES[2:]]


@pytest.mark.usefixtures("blocks")
def test_a_dropped_pair_costs_nothing():
    """Nothing of it is read; all other pairs cost the same."""
    dropped = np.array([False, False, True, False, False, False])
    losses = stated(unrounded_mean_moves(kept(dropped=dropped), NOISE)).per_pair(moves.losses)
    assert losses.tolist() == [0.5, 0.125, 0.0, 0.25, 0.0, 0.0]
    variance = stated(variances(PLAIN)).per_pair(moves.losses)
    without = stated(variances(PLAIN, dropped=dropped)).per_pair(moves.losses)
    assert without.tolist() == [*variance[:2], 0.0, *variance[3:]]


def test_a_variance_costs_its_sensitivity_over_its_noise():
    """Exact where nothing is put at the middle, else by share; each user pays for a step."""
    losses = stated(variances(PLAIN)).per_pair(moves.losses)
    plain = [0.25 / 0.5, 3 / 16 / 0.5, 0.25 / 0.25, 0.25 / 0.25]
    # These are whole numbers of steps, to which one is added.
    assert losses.tolist() == [*(loss + privacy_loss.VARIANCE_LATTICE for loss in plain), 0.0, 0.0]


def test_a_share_below_a_half_moves_a_variance_by_its_product():
    """Where something is put at the middle: s (1 - s) for the share that is kept."""
    losses = stated(variances(np.zeros(3, dtype=bool))).per_pair(moves.losses)
    assert losses[:2].tolist() == pytest.approx([0.25 / 0.5, 0.125 * 0.875 / 0.5], **NEARLY)


@pytest.mark.usefixtures("blocks")
def test_losses_of_users_and_of_cells():
    """A user loses the sum of its pairs, rounded up; a cell's claim is that of its worst user."""
    made = stated(MEAN)
    up, down = (made.per_user(moves.losses, up=one) for one in (True, False))
    assert (up > [0.75, 0.125, 0.25]).all()
    assert (down < [0.75, 0.125, 0.25]).all()
    assert up.tolist() == pytest.approx(down.tolist(), rel=1e-13)
    assert made.charged_cells().tolist() == [2, 1, 1]
    assert made.claimed(moves.losses).tolist() == pytest.approx([0.75, 0.5, 0.25], rel=1e-13)


def test_squares_of_moves_add_up_over_cells_and_statistics():
    """The square of each ratio; where few steps are moved, what a lattice may cost."""
    means = stated(MEAN).per_user(moves.squares, up=True)
    assert means.tolist() == pytest.approx([0.5**2 + 0.25**2, 0.125**2, 0.25**2], rel=1e-12)
    both = stated(MEAN, variances(PLAIN)).per_pair(moves.squares)
    assert both[0] == pytest.approx(0.5**2 + 0.5**2, rel=1e-8)
    few = mean_moves(1, kept(factor=np.ones(3)), 2 * NOISE)
    lattice = stated(few).per_user(moves.squares, up=True)
    assert lattice[1] == pytest.approx(512 * 2 / 8**2, rel=1e-12)


def test_other_noise_at_the_door_is_charged_at_its_scales():
    """The meter takes scales of noised cells alone; none at all is an infinite loss."""
    at_the_door = stated(MEAN).at([MEAN.scale[:2] / 2])
    assert at_the_door.per_pair(moves.losses).tolist() == [2 * one for one in MEAN_LOSSES]
    silent = stated(MEAN).at([np.zeros(2)])
    assert silent.per_user(moves.losses, up=False).tolist() == [np.inf] * 3


def test_what_an_earlier_look_authorised_and_did_not_spend_pays_for_the_next():
    """1/2 costs nothing of 3/4 less 1/4, and 1/4 beyond 3/8 less 1/8; never a digit too much."""
    by, scale = np.array([4, 4, 4]), np.array([8.0, 8.0, 8.0])
    before, used = np.array([16 / 3, 32 / 3, np.inf]), np.array([16.0, 32.0, np.inf])
    (left,) = moves.beyond([(by, scale), (by, before), (by, used)])
    assert left.tolist() == pytest.approx([0.0, 0.25, 0.5], rel=1e-13, abs=1e-14)
    assert (left <= [0.0, 0.25, 0.5]).all()


def test_the_least_charge_counts_cells_without_a_variance():
    """There a share costs its rate of the mean: a half at rate 2 adds the factor itself."""
    two = Partition("cells", 0, *(np.array(x) for x in ([0, 1], [0, 0], [3, 2])), 2, 1)
    rates = {"mean": np.array([1.0, 2.0]), "variance": np.array([2.0, 0.0])}
    found = privacy_loss.bisect_factors(
        two, total=np.array([4, 4]), **rates, factor=np.ones(1), loss=5 / 3, lower_bound=True
    )
    assert found.tolist() == pytest.approx([2 / 3], rel=1e-12)


def test_the_user_of_more_than_half_of_a_cell():
    """Half of a cell is not more than half of it."""
    users, records = privacy_loss.majority_user(PAIRS, total=TOTAL)
    assert (users.tolist(), records.tolist()) == ([0, -1, -1], [3, 0, 0])
