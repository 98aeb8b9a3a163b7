"""What to do when a grid is too fine: a larger ε, or the finest coarser grid that is not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.cells import Cells, slot_seconds
from hexveil.planning.per_cell import METHODS, rows_at

if TYPE_CHECKING:
    from hexveil.facts import PublicFacts
    from hexveil.mechanisms import ThresholdMechanism
    from hexveil.planning.plan import Plan


OFFERED_SLOTS = ("1h", "3h", "6h", "1d")
"""Timeslots that are offered beside the data set's own."""


class GridTooFineWarning(UserWarning):
    """The map would say no more than one constant for all cells."""


@dataclass(frozen=True)
class Advice:
    """What would help, and the sentence that says so.

    Attributes
    ----------
    epsilon_needed : float or None
        Loss at which this grid would say more than one constant; None if none would.
    coarser : Plan or None
        The coarser grid of most cells that says more at the asked loss, planned.
    text : str
    """

    epsilon_needed: float | None
    coarser: Plan | None
    text: str


def advice(plan: Plan, mechanism: ThresholdMechanism) -> Advice:
    """Return what would help a plan whose grid is too fine."""
    needed = epsilon_needed(plan, mechanism)
    coarser = finest_supported(plan, mechanism)
    return Advice(needed, coarser, _text(plan, needed, coarser))


def at_loss(plan: Plan, cell_epsilon: Fraction, mechanism: ThresholdMechanism) -> Plan:
    """Return the same grid planned at another common cell loss."""
    rows = rows_at(plan.occupancy, cell_epsilon, mechanism)
    return replace(
        plan,
        kept=rows.kept,
        noise_records=rows.noise_records,
        cell_epsilon=rows.cell_epsilon,
        mechanism=mechanism.name,
    )


def epsilon_needed(plan: Plan, mechanism: ThresholdMechanism) -> float | None:
    """Return the loss at which the average planning error falls below the prior.

    The least worst-case error of a cell never grows with its loss, so the smallest common cell
    loss that is enough is found by bisection; what the most exposed user then loses is rounded up
    to two figures. None if 100 is not enough.
    """
    low, high = 1e-4, 1e3
    if at_loss(plan, Fraction(high), mechanism).mean_error >= plan.prior_miss:
        return None
    for _ in range(30):
        middle = math.sqrt(low * high)
        good = at_loss(plan, Fraction(middle), mechanism).mean_error < plan.prior_miss
        low, high = (low, middle) if good else (middle, high)
    enough = at_loss(plan, Fraction(high), mechanism)
    most = int(plan.occupancy.cells_per_user.max())
    charged = enough.cell_epsilon * most if plan.method == "composition" else enough.epsilon
    loss = _two_figures_up(float(charged))
    return loss if loss <= 100 else None


def _two_figures_up(value: float) -> float:
    if value <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    return round(math.ceil(value * 10.0**digits - 1e-9) / 10.0**digits, max(digits, 0))


def regrid(plan: Plan, facts: PublicFacts, mechanism: ThresholdMechanism) -> Plan:
    """Return the plan of the same request on other public facts."""
    rows = METHODS[plan.method](facts.occupancy, plan.asked, mechanism)
    size = facts.occupancy.n_cells
    return replace(
        plan,
        occupancy=facts.occupancy,
        lower=np.full(size, plan.lower.min()),
        upper=np.full(size, plan.upper.max()),
        kept=rows.kept,
        noise_records=rows.noise_records,
        cell_epsilon=rows.cell_epsilon,
        facts=facts,
    )


def coarser_grids(grid: Cells) -> tuple[Cells, ...]:
    """Return the same and coarser resolutions and offered timeslots, without the grid itself."""
    slots = [grid.timeslot, *coarser_slots(grid)]
    grids = [
        replace(grid, resolution=resolution, timeslot=slot)
        for resolution in range(grid.resolution, -1, -1)
        for slot in slots
    ]
    return tuple(grids[1:])


def coarser_slots(grid: Cells) -> tuple[str, ...]:
    """Return the offered timeslots that are longer than the grid's."""
    own = grid.seconds
    return tuple(s for s in OFFERED_SLOTS if own is not None and slot_seconds(s) > own)


def finest_supported(plan: Plan, mechanism: ThresholdMechanism) -> Plan | None:
    """Return the plan of the coarser grid of most cells that says more than one constant."""
    facts = plan.facts
    if facts is None or facts.recount is None or not isinstance(facts.cells.grid, Cells):
        return None
    grids = coarser_grids(facts.cells.grid)
    plans = [
        regrid(plan, other, mechanism)
        for other in facts.recount(grids, facts.unit)
        if other is not None
    ]
    supported = [p for p in plans if p.support.supported]
    return max(supported, key=lambda p: p.support.cells, default=None)


def _text(plan: Plan, needed: float | None, coarser: Plan | None) -> str:
    cells = plan.support.cells
    sentence = (
        f"this grid is too fine for this fleet: the error to expect is {plan.mean_error:.3g} on "
        f"average, while one constant for all {cells} cells is assumed to miss "
        f"{plan.prior_miss:.3g}"
    )
    ways = []
    if coarser is not None:
        ways.append(f"the finest grid that is not is {_described(coarser)}")
    if needed is not None:
        ways.append(f"this grid would need epsilon {needed:g}")
    return sentence + ("; " + ", and ".join(ways) if ways else "") + "."


def _described(plan: Plan) -> str:
    assert plan.facts is not None  # noqa: S101  a coarser grid comes from public facts
    grid = plan.facts.cells.grid
    assert isinstance(grid, Cells)  # noqa: S101
    slots = "" if grid.timeslot is None else f" in {grid.timeslot} slots"
    return f"resolution {grid.resolution}{slots} ({plan.support.cells} cells)"
