"""Cells planned apart: a mechanism of one cell on every cell of a map of pairs at hand.

Stage k of the map is the k-th stage of every cell that has one: one row of the journal, and one
call for the noise of all sums. Cells may differ in mechanism (`Auto`).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity: that of each cell's own stage, computed from the cell's counts.
Loss: that of a user is the sum over its cells, since cells have independent noise and each cell's
loss holds whatever its earlier stages found (adaptive composition). One common loss of every cell
is searched by bisection, so that the most exposed user stays within ε by exact accounting. The
meter adds the moves of all cells of a row up again, in the scales that go to the noise source.
Source: the mechanism of the cell.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from hexveil.accounting.moves import add_up
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays, read_only
from hexveil.mechanisms.contract import DONE, DrawnRow, Stage
from hexveil.mechanisms.sensitivity_report import NoiseRequest, SensitivityReport
from hexveil.mechanisms.single_cell import BoundedStage, CellAllocation, CellMechanism, CellProblem
from hexveil.mechanisms.stage_data import Measured, Outputs, PrivateSums
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import ValueLattice

BISECTIONS = 16
SPENT = 1 - 2.0**-20
"""Part of ε that counts as all of it."""
PROPORTION = 1 - 2.0**-24
"""A guess stays so much below the limit, since losses round up."""


@dataclass(frozen=True, eq=False)
class CellFigures(ReadOnlyArrays):
    """Figures of the plans of all cells.

    Attributes
    ----------
    scale, bias, bound95 : ndarray of float, shape (n_cells,)
        Error of the estimate for bounds of width 1; the bias is 1 where none is proven.
    proven : ndarray of bool, shape (n_cells,)
        Whether the bias is a proven worst case.
    grid_start, grid_step : ndarray of float, shape (n_cells,)
        Where estimates can lie, in quanta; no numbers where on a curve of integers.
    n_stages : ndarray of int64, shape (n_cells,)
    """

    scale: Floats
    bias: Floats
    bound95: Floats
    proven: Bools
    grid_start: Floats
    grid_step: Floats
    n_stages: Ints


def _figures_of(plan: CellAllocation) -> tuple[float | bool, ...]:
    error = plan.error(1.0)
    proven, bias = (False, 1.0) if error.bias is None else (True, error.bias)
    return error.scale, bias, error.bound95, proven, *plan.grid(), len(plan.stages)


@dataclass(frozen=True, eq=False)
class PlannedCells:
    """Cells planned apart at one common loss, as a release runs them.

    Attributes
    ----------
    occupancy : Occupancy
        Records of each (cell, user) pair.
    lattice : ValueLattice
    mechanism : CellMechanism
    cell_epsilon : Fraction
        The common loss of every cell.
    choices : tuple of str
        Of each cell, by predicted errors: see `CellMechanism.choose`.
    """

    occupancy: Occupancy
    lattice: ValueLattice
    mechanism: CellMechanism
    cell_epsilon: Fraction
    choices: tuple[str, ...]

    @cached_property
    def rows(self) -> list[slice]:
        """Pairs of each cell; refused of pairs that are not at hand."""
        return [slice(*ends) for ends in pairwise(self.occupancy.local().start.tolist())]

    @cached_property
    def plans(self) -> list[CellAllocation]:
        """Plan of each cell."""
        cells = cell_problems(self.occupancy, self.lattice)
        chosen = zip(cells, self.choices, strict=True)
        allocate, epsilon = self.mechanism.allocate_chosen, self.cell_epsilon
        return [allocate(cell, epsilon, choice) for cell, choice in chosen]

    @cached_property
    def figures(self) -> CellFigures:
        """Figures of all cells' plans."""
        return CellFigures(*map(np.array, zip(*map(_figures_of, self.plans), strict=True)))

    # ---- losses ----

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self._losses

    per_user = losses

    @cached_property
    def _losses(self) -> Floats:
        return self.sum_pairs(plan.losses() for plan in self.plans)

    def per_pair(self) -> Floats:
        """Return the loss of each (cell, user) pair."""
        return np.concatenate([plan.losses() for plan in self.plans])

    def counted(self) -> float:
        """Return the loss if each cell costs all whom it costs anything its largest."""
        losses = (plan.losses() for plan in self.plans)
        claimed = self.sum_pairs(np.where(one > 0, one.max(), 0.0) for one in losses)
        return float(claimed.max(initial=0.0))

    def stage_costs(self) -> dict[str, tuple[int, float]]:
        """Return by name of a stage its cells, and the loss of the user whom it costs most."""
        names = [stage.name for plan in self.plans for stage in plan.stages]
        costs = {}
        for name in dict.fromkeys(names):
            losses = (
                np.zeros(plan.cell.counts.size)
                + sum(stage.losses() for stage in plan.stages if stage.name == name)
                for plan in self.plans
            )
            costs[name] = (names.count(name), float(self.sum_pairs(losses).max()))
        return costs

    def sum_pairs(self, losses: Iterable[Floats]) -> Floats:
        """Return each user's sum over the pairs of all cells in order, rounded up."""
        pairs, terms = self.occupancy.local(), (np.concatenate(list(losses)),)
        bounds: Floats = read_only(add_up(pairs.user, terms, pairs.n_users, up=True))
        return bounds

    # ---- stages ----

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map, which has as many as the cell with the most."""
        return MapStage(self, earlier) if len(earlier) < self.figures.n_stages.max() else DONE

    def outputs(self, earlier: Outputs) -> list[Outputs]:
        """Return the outputs of each cell, under the names of its own stages."""
        made = [Outputs()] * len(self.plans)
        for number, row in enumerate(earlier.values()):
            begin = 0
            for cell, plan in enumerate(self.plans):
                if number < len(plan.stages):
                    stage = plan.stages[number]
                    end = begin + stage.entries
                    own = row[:, begin:end]
                    made[cell] = made[cell].extended(stage.name, stage.entries, own)
                    begin = end
        return made

    def estimates(self, outputs: Outputs) -> Floats:
        """Return the estimates of all cells in quanta, shape (1, n_cells)."""
        cells = zip(self.plans, self.outputs(outputs), strict=True)
        return np.array([[float(plan.estimate(own)[0]) for plan, own in cells]])


@dataclass(frozen=True, eq=False)
class MapStage(DrawnRow):
    """The stage after some outputs of every cell that has one, cell after cell."""

    cells: PlannedCells
    earlier: Outputs

    @property
    def name(self) -> str:
        """Name of its row."""
        return f"stage {len(self.earlier)}"

    @cached_property
    def stages(self) -> list[tuple[slice, BoundedStage, Outputs]]:
        """Pairs, stage and outputs before it, of each cell that has one."""
        number, cells = len(self.earlier), self.cells
        every = zip(cells.rows, cells.plans, cells.outputs(self.earlier), strict=True)
        return [
            (rows, plan.stages[number], own)
            for rows, plan, own in every
            if number < len(plan.stages)
        ]

    @property
    def entries(self) -> int:
        """Integers of all cells."""
        return sum(stage.entries for _, stage, _ in self.stages)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  its own
        """Return the noise of each cell's stage."""
        return tuple(request for _, stage, own in self.stages for request in stage.noise(own))

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002  its own
        """Return how far each user moves the numbers of each cell, by its number in the map."""
        user = self.cells.occupancy.local().user
        return tuple(
            replace(report, user=user[rows][report.user])
            for rows, stage, own in self.stages
            for report in stage.sensitivity(own)
        )

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:  # noqa: ARG002
        """Return each cell's integers. PRIVATE."""
        return tuple(
            one
            for rows, stage, own in self.stages
            for one in stage.measure(PrivateSums(sums.total[:, rows]), own)
        )


# ---- allocations ----


def cell_problems(occupancy: Occupancy, lattice: ValueLattice) -> list[CellProblem]:
    """Return the public facts of each cell."""
    pairs, place = occupancy.local(), (lattice.lower, lattice.quantum, lattice.span_quanta)
    return [CellProblem(counts, *place) for counts in np.split(pairs.n, pairs.start[1:-1])]


def allocate_at(
    mechanism: CellMechanism, occupancy: Occupancy, lattice: ValueLattice, cell_epsilon: Fraction
) -> PlannedCells:
    """Return the allocation in which every cell has this loss."""
    choices = [""] * occupancy.n_cells
    if type(mechanism).choose is not CellMechanism.choose:
        # Cells of the same counts share their choice: predictions take long.
        known: dict[bytes, str] = {}
        for number, cell in enumerate(cell_problems(occupancy, lattice)):
            counts = cell.counts.tobytes()
            if counts not in known:
                known[counts] = mechanism.choose(cell, cell_epsilon)
            choices[number] = known[counts]
    return PlannedCells(occupancy, lattice, mechanism, cell_epsilon, tuple(choices))


def allocate_within(
    mechanism: CellMechanism, occupancy: Occupancy, lattice: ValueLattice, epsilon: Fraction
) -> PlannedCells:
    """Return the allocation with the largest common cell loss found, within ε for every user.

    Raises
    ------
    InputError
        If no cell loss stays within ε.
    """
    largest = int(occupancy.cells_per_user.max())
    # Losses round up, so the share of a user in the most cells is taken a hair smaller.
    start = epsilon / largest * (1 - Fraction(1, 2**30))
    first = allocate_at(mechanism, occupancy, lattice, start)
    if first.losses().max() > float(epsilon):
        raise InputError("no loss of every cell keeps each user within epsilon.")
    best = _largest(first, epsilon)
    if not any(best.choices) or best is first:
        return best
    # Choices were those of the first cell loss.
    fresh = allocate_at(mechanism, occupancy, lattice, best.cell_epsilon)
    return fresh if fresh.losses().max() <= float(epsilon) else best


def _largest(best: PlannedCells, epsilon: Fraction) -> PlannedCells:
    """Return the allocation of the largest cell loss found within ε, with the same choices.

    Losses need not grow evenly with the cell loss (caps change by rank), but what is returned
    is checked exactly, so the search can only be less than optimal.
    """
    limit, high = float(epsilon), 2 * epsilon
    for _ in range(BISECTIONS):
        largest = float(best.losses().max())
        # Where a user's pairs lose all of their cells' losses, nothing is left from the start.
        if largest >= limit * SPENT:
            break
        # Losses in proportion to the cell loss, as most are, are met at once.
        guess = best.cell_epsilon * Fraction(limit / largest * PROPORTION) if largest else high
        middle = guess if guess < high else (best.cell_epsilon + high) / 2
        allocation = replace(best, cell_epsilon=middle)
        if allocation.losses().max() <= limit:
            best = allocation
        else:
            high = middle
    return best
