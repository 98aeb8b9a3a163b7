"""Releases with a clipping range per cell: what is booked, published, replayed and verified."""

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from publishing import noise_library
from publishing.releases import problems_of
from publishing.setting import dataset_of, hexagons

CELLS, EPSILON = 14, 20
MIDDLES = np.array([20, 21, 22, 20, 19, 21, 58, 22, 20, 18, 23, 20, 21, 20])
"""Typical values of the cells: that numbered 6 differs much from the others."""


def uneven_map(users=60):
    """Return records of users in a few cells each, of which one differs much from the others."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(1.2, (users, CELLS))
    counts[np.arange(users), np.arange(users) % CELLS] += 1
    dense = np.clip(MIDDLES + rng.normal(0, 2, (users, CELLS)), 0, 60)
    totals = np.rint(counts * dense * 10).astype(np.int64).T[counts.T > 0]
    place = hexagons(CELLS)
    return dataset_of(counts, totals, scale=(0, 60, "0.1"), cells=place, value_unit="km/h")


def planned_fleet():
    """Return the data set and its plan."""
    dataset = uneven_map()
    return dataset, hv.plan(dataset, epsilon=EPSILON, clipping_range="per-cell", advise=False)


@pytest.fixture(scope="module")
def fleet():
    """Return the data set and its plan."""
    return planned_fleet()


def test_a_release_in_stages_is_booked_once_and_shown_again(fleet, book, tmp_path):
    """A replay shows the same, also smoothed, and costs nothing; its folder verifies."""
    dataset, plan = fleet
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert not made.replayed
    assert plan.epsilon <= book.spent < plan.epsilon + Fraction(1, 10**11)
    # The mutant that stores nothing has empty ranges.
    with np.errstate(all="ignore"):
        smooth = [
            hv.release(dataset, plan, ledger=book, accept_noise=True, estimates=("raw", "smoothed"))
            for _ in range(2)
        ]
    assert smooth[0].replayed
    assert smooth[0].table.equals(smooth[1].table)
    assert smooth[0].table["mean_noisy"].equals(made.table["mean_noisy"])
    assert len(book.entries()) == 1
    assert plan.epsilon <= book.spent < plan.epsilon + Fraction(1, 10**11)
    assert problems_of(smooth[0].write(tmp_path / "map")) == ()


@pytest.mark.parametrize("call", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_draw_that_stops_midway_is_lost_and_paid_again(call, fleet, book):
    """Stopped at any call of the noise library: nothing is stored, and none is drawn again."""
    dataset, plan = fleet
    calls = []

    def stopping(*asked):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return asked[-1]()

    with noise_library.answered(stopping), pytest.raises(KeyboardInterrupt):
        hv.release(dataset, plan, ledger=book, accept_noise=True)
    (entry,) = book.entries()
    assert (entry.state, entry.published) == ("marked", None)
    spent = book.spent
    assert spent >= plan.epsilon
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert not made.replayed
    assert book.spent == 2 * spent
    assert hv.release(dataset, plan, ledger=book, accept_noise=True).table.equals(made.table)


def test_ranges_go_with_the_bounds_of_the_records(fleet, book):
    """A plan for narrower bounds is refused before anything is booked."""
    dataset, plan = fleet
    narrow = plan.changed(upper=plan.upper - 10.0)
    with pytest.raises(hv.InputError, match="leave bounds out of the plan"):
        hv.release(dataset, narrow, ledger=book, accept_noise=True)
    assert book.entries() == ()
