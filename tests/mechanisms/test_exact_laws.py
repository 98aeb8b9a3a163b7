"""Exact laws of every mechanism on tiny cells: booked, not exceeded, and not idle."""
# ruff: noqa: ARG005  a fault may have no use for the sound code

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import Occupancy
from hexveil.base.errors import HexveilError
from hexveil.mechanisms.per_cell_allocation import PlannedCells, allocate_within
from hexveil.mechanisms.private_quantile import PrivateQuantile
from hexveil.mechanisms.single_cell import CellProblem
from hexveil.mechanisms.single_cell.array_averaging import (
    ArrayAveraging,
    OptArrayAveraging,
    PseudoUserMeans,
    UserSums,
)
from hexveil.mechanisms.single_cell.clipped_range_mean import RangeSum
from hexveil.mechanisms.single_cell.clipped_user_sums import Baseline, LinearSum, OptimalClipping
from hexveil.mechanisms.single_cell.private_ranges import (
    AKMV,
    FixedQuantile,
    Levy,
    OptimizedQuantile,
)
from hexveil.model.public_metadata import ValueLattice
from mechanisms.stage_laws import ExactLoss, Problem, holds

CASES = [
    # mechanism, counts, span, least worst/booked
    (Baseline(), (3, 2, 1), 3, 0.999),
    (OptimalClipping(), (3, 2, 1, 1), 2, 0.999),
    (ArrayAveraging(cap=2), (3, 2, 1), 3, 0.999),
    (ArrayAveraging("wrap_around", 2), (3, 2, 1), 3, 0.999),
    (ArrayAveraging("wrap_around", 3), (4, 2, 2, 1), 2, 0.999),
    (OptArrayAveraging(), (3, 2, 1), 3, 0.999),
    (Levy(gamma=1, cap=4), (4, 3, 2), 3, 0.8),
    (Levy(gamma=1, cap=4), (4, 2, 2, 1), 2, 0.8),
    (Levy(gamma=1, cap=4), (3, 1, 2), 3, 0.8),
    (Levy(gamma=1, grouping="wrap_around", cap=4), (3, 3, 2), 3, 0.8),
    (Levy(gamma=1, grouping="wrap_around", cap=3), (3, 2, 2, 1), 2, 0.8),
    (OptArrayAveraging("minimax_std"), (3, 2, 1), 3, 0.999),
    (OptArrayAveraging("surrogate_printed"), (3, 2, 1), 3, 0.999),
    (Levy(gamma=1, cap=4, interval="unclamped", arrays="full"), (4, 2, 2, 1), 2, 0.8),
    (Levy(gamma=1, cap=4, interval="unclamped"), (3, 1, 2), 3, 0.7),
    (Levy(gamma=1, grouping="wrap_around", cap=3, interval="unclamped"), (3, 2, 2, 1), 2, 0.7),
    (FixedQuantile(candidates=3, cap=2), (2, 2, 1), 3, 0.6),
    (FixedQuantile(candidates=4, cap=2), (2, 1, 1, 1), 3, 0.6),
    (FixedQuantile(grouping="wrap_around", candidates=3, cap=2), (2, 1, 2, 1), 2, 0.6),
    (OptimizedQuantile(candidates=3, cap=2), (2, 2, 1), 3, 0.7),
    (OptimizedQuantile(grouping="wrap_around", candidates=3, cap=4), (3, 3, 2), 3, 0.7),
    (AKMV(candidates=4), (3, 2, 1), 3, 0.7),
    (AKMV(candidates=6), (2, 1, 1), 4, 0.7),
]
EPSILONS = [Fraction(1, 2), Fraction(4)]


def tiny_cell(counts, span):
    """Return a cell on integers."""
    return CellProblem(np.array(counts), Fraction(0), Fraction(1), span)


def used(exact, booked):
    """Return the largest part of a booking that is really lost."""
    booked = np.where(booked > 0, booked, np.inf)
    return (exact.worst / booked).max()


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize(
    ("mechanism", "counts", "span", "least"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_no_user_loses_more_than_is_booked(mechanism, counts, span, least, epsilon):
    """Over all neighbours and outputs no user loses more than booked, ε bounds it, most is used."""
    allocation = mechanism.allocate_cell(tiny_cell(counts, span), epsilon)
    booked = allocation.losses()
    exact = ExactLoss(Problem(counts, span), allocation)
    assert allocation.stages
    assert (exact.worst <= booked * (1 + 1e-9)).all()
    assert booked.max() <= float(epsilon) * (1 + 1e-9)
    assert used(exact, booked) >= least


MAP = Problem((2, 1, 1, 1), 2, user=(0, 1, 0, 2))
OCCUPANCY = Occupancy(np.array([0, 0, 1, 1]), np.array(MAP.user), np.array(MAP.counts), 2, 3)


@pytest.mark.parametrize(
    "mechanism",
    [
        FixedQuantile(candidates=2, cap=2),
        AKMV(candidates=2),
        Levy(gamma=1, cap=2),
        ArrayAveraging(cap=1),
        Baseline(),
    ],
    ids=str,
)
def test_cells_planned_apart_stay_within_epsilon_together(mechanism):
    """Users of two cells lose no more than booked, with private stages in each of them."""
    lattice = ValueLattice.of((0, MAP.span), 1)
    allocation = allocate_within(mechanism, OCCUPANCY, lattice, Fraction(1))
    booked, exact = allocation.losses(), ExactLoss(MAP, allocation)
    assert (exact.worst <= booked * (1 + 1e-9)).all()
    assert 0.99 <= booked.max() <= 1.0
    assert used(exact, booked) >= 0.5


# ---- planted faults ----

LEVY = hv.mechanisms.Levy(gamma=1, cap=4), (4, 3, 2), 3
LEVY_WRAPPED = hv.mechanisms.Levy(gamma=1, grouping="wrap_around", cap=4), (3, 3, 2), 3
LEVY_SHARED = hv.mechanisms.Levy(gamma=1, cap=4), (4, 2, 2, 1), 2
LEVY_UNEVEN = hv.mechanisms.Levy(gamma=1, cap=4), (3, 1, 2), 3
RANKS = hv.mechanisms.OptimizedQuantile(candidates=3, cap=2), (2, 2, 1), 3
RANKS_WRAPPED = (
    hv.mechanisms.OptimizedQuantile(grouping="wrap_around", candidates=3, cap=4),
    (3, 3, 2),
    3,
)
EXTREME = hv.mechanisms.AKMV(candidates=4), (3, 2, 1), 3
PLAIN = hv.mechanisms.Baseline(), (3, 2, 1), 3
WEIGHED = hv.mechanisms.ArrayAveraging(cap=2), (3, 2, 1), 3
EPSILON = Fraction(2)


def sound(case):
    """Return whether no user of a case loses more than is booked, nor books more than ε."""
    way, counts, span = case
    cell = CellProblem(np.array(counts), Fraction(0), Fraction(1), span)
    allocation = way.allocate_cell(cell, EPSILON)
    try:
        return holds(Problem(counts, span), allocation, EPSILON * Fraction(1000001, 1000000))
    except (AssertionError, HexveilError):
        return False


def test_all_cases_are_sound_without_a_fault():
    """Every case that a fault is put into holds as it is."""
    cases = (LEVY, LEVY_WRAPPED, LEVY_SHARED, LEVY_UNEVEN, RANKS, RANKS_WRAPPED, EXTREME)
    assert all(sound(case) for case in (*cases, PLAIN, WEIGHED))


FAULTS = {
    "selection scale halved, or monotonic": (
        PrivateQuantile, "noise",
        lambda old: lambda s, e: tuple(type(r)(r.scale / 2) for r in old(s, e)), RANKS,
    ),

    "selection booked at half": (
        PrivateQuantile, "losses", lambda old: lambda s: old(s) / 2, RANKS,
    ),
    "one choice of two booked": (
        PrivateQuantile, "losses", lambda old: lambda s: old(s) / s.entries, RANKS_WRAPPED,
    ),
    "arrays of a user counted once under WRAPAROUND": (
        PseudoUserMeans, "pieces",
        lambda old: property(lambda s: np.minimum(old.func(s), 1)), LEVY_WRAPPED,
    ),

    "reach rounded down": (
        PseudoUserMeans, "reach",
        lambda old: property(
            lambda s: s.span * s.piece_size // s.fill[s.piece_array] * 1024
        ), LEVY_UNEVEN,
    ),

    "range noise a tenth too small": (
        RangeSum, "scales", lambda old: lambda s, w: 0.9 * old(s, w), LEVY_SHARED,
    ),
    "range noise for one array under WRAPAROUND": (
        PseudoUserMeans, "max_sensitivity",
        lambda old: lambda s, w: np.minimum(w, s.reach.max()), RANKS_WRAPPED,
    ),
    "range sum booked for all but one user": (
        RangeSum, "losses",
        lambda old: lambda s: old(s) * (np.arange(s.reading.pieces.size) > 0), LEVY,
    ),
    "threshold noise for the mean user": (
        UserSums, "max_sensitivity", lambda old: lambda s, w: np.minimum(w, s.span), EXTREME,
    ),
    "linear sum booked at 0.7": (
        LinearSum, "losses", lambda old: lambda s: 0.7 * old(s), PLAIN,
    ),
    "linear sum at 0.7 of its noise": (
        LinearSum, "noise",
        lambda old: lambda s, e: tuple(type(r)(0.7 * r.scales) for r in old(s, e)), WEIGHED,
    ),
    "linear sum not clipped": (
        LinearSum, "user_sensitivity", lambda old: property(lambda s: (s.high - s.low) // 2), PLAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, monkeypatch):
    """A stage with the fault loses more than is booked, books more than ε, or misstates a move."""
    target, attribute, change, case = FAULTS[fault]
    monkeypatch.setattr(target, attribute, change(target.__dict__[attribute]))
    assert not sound(case)


class Leaking(RangeSum):
    """A range sum whose values come from the true order of the data, past the noise."""

    def measure(self, sums, earlier):
        """Return the sum plus twice the first user's own value."""
        (values,) = super().measure(sums, earlier)
        return (type(values)(values.integers + 1024 * sums.total[:, :1]),)


def test_a_leak_past_the_noise_is_found(monkeypatch):
    """A stage that adds more of a user's value than it reports is found."""
    monkeypatch.setattr("hexveil.mechanisms.single_cell.private_ranges.RangeSum", Leaking)
    assert not sound(LEVY)


def test_cells_of_a_user_that_are_not_added_up_are_found(monkeypatch):
    """A booking that charges a user for its largest cell alone is found."""
    lattice = ValueLattice.of((0, MAP.span), 1)
    allocation = allocate_within(Baseline(), OCCUPANCY, lattice, Fraction(1))
    assert holds(MAP, allocation, 1)

    def largest(self, losses):
        every = np.concatenate(list(losses))
        return np.array([every[OCCUPANCY.user == k].max() for k in range(3)])

    booked_less = replace(allocation)
    with monkeypatch.context() as patch:
        patch.setattr(PlannedCells, "sum_pairs", largest)
        assert booked_less.losses().max() < allocation.losses().max()
    with pytest.raises(HexveilError, match="more than was booked"):
        holds(MAP, booked_less, 1)
