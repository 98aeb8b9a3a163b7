"""Our own mechanism: its exact loss on tiny cells, and odd cells."""

from dataclasses import replace
from fractions import Fraction

import pytest

from hexveil.mechanisms import Baseline
from hexveil_research.mechanisms.foresight import HuberDesign, huber_mean
from mechanisms.stage_laws import ExactLoss, Problem


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
    cell = Baseline().plan(counts, bounds=(0, 4), epsilon=loss).cell
    cell = replace(cell, quantum=Fraction(1), span=4)
    allocation = huber_mean(cell, loss, design)
    booked, worst = allocation.losses(), ExactLoss(Problem(counts, 4), allocation).worst
    assert (worst <= booked * (1 + 1e-9)).all()
    assert booked.max() <= float(loss) * (1 + 1e-6)
    assert worst.max() > 0.25 * float(loss)
