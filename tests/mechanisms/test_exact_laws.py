"""Exact laws of every mechanism on tiny cells: booked, not exceeded, and not idle."""

from fractions import Fraction

import numpy as np
import pytest

from hexveil import Occupancy
from hexveil.mechanisms.per_cell_allocation import MapProblem, PerCell
from hexveil.mechanisms.single_cell import CellProblem
from hexveil.mechanisms.single_cell.array_averaging import ArrayAveraging, OptArrayAveraging
from hexveil.mechanisms.single_cell.clipped_user_sums import Baseline, OptimalClipping
from hexveil.mechanisms.single_cell.private_ranges import (
    AKMV,
    FixedQuantile,
    Levy,
    OptimizedQuantile,
)
from stage_laws import ExactLoss, Problem

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
    problem = MapProblem(OCCUPANCY, Fraction(0), Fraction(1), MAP.span)
    allocation = PerCell(mechanism).allocate(problem, Fraction(1))
    booked, exact = allocation.losses(), ExactLoss(MAP, allocation)
    assert (exact.worst <= booked * (1 + 1e-9)).all()
    assert 0.99 <= booked.max() <= 1.0
    assert used(exact, booked) >= 0.5
