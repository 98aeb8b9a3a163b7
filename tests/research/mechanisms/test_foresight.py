"""Our own mechanism: its exact loss on tiny cells, and odd cells."""
# ruff: noqa: ARG005  a planted fault may have no use for the sound code

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.single_cell import CellProblem
from hexveil_research.mechanisms.foresight import HuberDesign, huber_mean
from hexveil_research.mechanisms.huber_location import (
    BalancePoint,
    ScoreSumAtPoint,
    ScoreSums,
)
from stage_laws import ExactLoss, Problem, holds


@pytest.mark.parametrize(
    "design",
    [
        HuberDesign(Fraction(0), 0.3, 1, Fraction(0)),
        HuberDesign(Fraction(1), 0.2, 4, Fraction(1)),
        HuberDesign(Fraction(1, 2), 0.6, 4, Fraction(1)),
        HuberDesign(Fraction(1), 0.4, 4, Fraction(1, 2)),
    ],
    ids=["from the middle", "a point", "a wide point", "from a point"],
)
@pytest.mark.parametrize("counts", [(3, 1), (2, 2, 1)], ids=str)
@pytest.mark.parametrize("epsilon", ["0.5", 2])
def test_exact_loss_is_at_most_epsilon(design, counts, epsilon):
    """Over all neighbours and outputs the log-ratio is at most ε, and not idle."""
    loss = Fraction(epsilon)
    cell = CellProblem(np.array(counts), Fraction(0), Fraction(1), 4)
    allocation = huber_mean(cell, loss, design)
    booked, worst = allocation.losses(), ExactLoss(Problem(counts, 4), allocation).worst
    assert (worst <= booked * (1 + 1e-9)).all()
    assert booked.max() <= float(loss) * (1 + 1e-6)
    assert worst.max() > 0.25 * float(loss)


# ---- planted faults: the exact laws find each of them ----

FAULT_LOSS = Fraction(2)
POINT = HuberDesign(Fraction(0), 0.2, 4, Fraction(1)), (3, 1, 1), 3
FROM_POINT = HuberDesign(Fraction(1), 0.75, 3, Fraction(1, 2)), (2, 1, 1), 3
FAULTS = {
    "point costs of half their sensitivity": (
        BalancePoint, "user_sensitivity", lambda old: property(lambda s: old.func(s) // 2), POINT,
    ),
    "point costs in units of half": (
        BalancePoint, "costs", lambda old: lambda s, b: 2 * old(s, b), POINT,
    ),
    "score noise a tenth too small": (
        ScoreSumAtPoint, "scales", lambda old: property(lambda s: 0.9 * old.func(s)), FROM_POINT,
    ),
    "score moved to one side only": (
        ScoreSums, "user_sensitivity",
        lambda old: property(
            lambda s: np.minimum(s.weight[:, None] * (s.span - s.points), s.reach)
        ), FROM_POINT,
    ),
}  # fmt: skip


def is_sound(case):
    """Return whether no user of a case loses more than is booked, nor books more than ε."""
    design, counts, span = case
    cell = CellProblem(np.array(counts), Fraction(0), Fraction(1), span)
    allocation = huber_mean(cell, FAULT_LOSS, design)
    try:
        return holds(Problem(counts, span), allocation, FAULT_LOSS * Fraction(1000001, 1000000))
    except (AssertionError, hv.HexveilError):
        return False


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, monkeypatch):
    """A sound stage passes; one with the fault loses or books more, or misstates a move."""
    target, attribute, change, case = FAULTS[fault]
    assert is_sound(case)
    monkeypatch.setattr(target, attribute, change(target.__dict__[attribute]))
    assert not is_sound(case)


# ---- Score sums about a point: their value in integers, and how far one user moves them ----
