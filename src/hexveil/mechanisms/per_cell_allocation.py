"""Cells planned apart: a mechanism of one cell on every cell of a map.

Stage k of the map is the k-th stage of every cell that has one: one row of the journal, and one
call for the noise of all sums. Cells may differ in mechanism (`Auto`).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss: that of a user is the sum over its cells, since cells have independent noise and each cell's
loss holds whatever its earlier stages found (adaptive composition). One common loss of every cell
is searched by bisection, so that the most exposed user stays within ε by exact accounting.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import sum_upper_bounds
from hexveil.mechanisms.contract import (
    DONE,
    Decoded,
    DrawnRow,
    EstimateGrid,
    Outputs,
    PredictedError,
    ProvenError,
    Separate,
    StatisticError,
)
from hexveil.mechanisms.single_cell.cell_allocation import (
    CellAllocation,
    CellProblem,
    ReleasedRange,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.mechanisms.contract import (
        Floats,
        Ints,
        Measured,
        NoiseRequest,
        PrivateSums,
        SensitivityReport,
        Stage,
    )
    from hexveil.mechanisms.single_cell.cell_allocation import BoundedStage
    from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
    from hexveil.model.occupancy import LocalOccupancy

BISECTIONS = 16
SPENT = 1 - 2.0**-20
"""Part of ε that counts as all of it."""
PROPORTION = 1 - 2.0**-24
"""A guess stays so much below the limit, since losses round up."""


@dataclass(frozen=True, eq=False)
class MapProblem:
    """Public facts of a map.

    Attributes
    ----------
    occupancy : LocalOccupancy
        Records of each (cell, user) pair.
    lower, quantum : Fraction
        Lower bound of a value, and the resolution of sums, in value units.
    span : int
        Width of the bounds in quanta.
    """

    occupancy: LocalOccupancy
    lower: Fraction
    quantum: Fraction
    span: int

    def rows(self, cell: int) -> slice:
        """Return the pairs of a cell."""
        start = self.occupancy.start
        return slice(int(start[cell]), int(start[cell + 1]))

    def cell(self, cell: int) -> CellProblem:
        """Return the public facts of one cell."""
        return CellProblem(self.occupancy.n[self.rows(cell)], self.lower, self.quantum, self.span)


@dataclass(frozen=True, eq=False)
class CellStage:
    """One cell's stage within a stage of the map.

    Attributes
    ----------
    cell : int
    stage : BoundedStage
    entries : slice
        Of the row that all cells share.
    """

    cell: int
    stage: BoundedStage
    entries: slice


@dataclass(frozen=True, eq=False)
class PerCellStage(DrawnRow):
    """The stage of one number of every cell that has one."""

    allocation: PerCellAllocation
    number: int

    @property
    def name(self) -> str:
        """Name of its row."""
        return f"stage {self.number}"

    @cached_property
    def members(self) -> tuple[CellStage, ...]:
        """Each cell's stage, and where it stands in the row."""
        stages, begin = [], 0
        for cell, plan in enumerate(self.allocation.plans):
            if len(plan.stages) > self.number:
                stage = plan.stages[self.number]
                stages.append(CellStage(cell, stage, slice(begin, begin + stage.entries)))
                begin += stage.entries
        return tuple(stages)

    @property
    def entries(self) -> int:
        """Integers of all cells."""
        return int(self.members[-1].entries.stop)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise of each cell's queries."""
        return tuple(
            request
            for member, outputs in self._with_outputs(earlier)
            for request in member.stage.noise(outputs)
        )

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
        """Return by how much each user moves each cell's numbers."""
        problem = self.allocation.problem
        reports: list[SensitivityReport] = []
        for member, outputs in self._with_outputs(earlier):
            user = problem.occupancy.user[problem.rows(member.cell)]
            for report in member.stage.sensitivity(outputs):
                if not isinstance(report, Separate):
                    raise TypeError("the stages of one cell report separate sensitivities.")
                reports.append(Separate(user[report.user], report.entry, report.by))
        return tuple(reports)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:
        """Return each cell's integers. PRIVATE."""
        problem = self.allocation.problem
        return tuple(
            measured
            for member, outputs in self._with_outputs(earlier)
            for measured in member.stage.measure(sums.of_pairs(problem.rows(member.cell)), outputs)
        )

    def _with_outputs(self, earlier: Outputs) -> Iterator[tuple[CellStage, Outputs]]:
        """Yield each cell's stage with the earlier outputs of that cell."""
        outputs = self.allocation.cell_outputs(earlier, self.number)
        for member in self.members:
            yield member, outputs[member.cell]


@dataclass(frozen=True, eq=False)
class PerCellAllocation:
    """Cells planned apart: an allocation of each.

    Attributes
    ----------
    problem : MapProblem
    plans : tuple of CellAllocation
    cell_epsilon : Fraction
        The common loss of every cell.
    choices : tuple of str
        Of each cell, by predicted errors: see `CellMechanism.choose`.
    """

    problem: MapProblem
    plans: tuple[CellAllocation, ...]
    cell_epsilon: Fraction
    choices: tuple[str, ...]

    kind = "per-cell"

    @cached_property
    def stages(self) -> tuple[PerCellStage, ...]:
        """Stages of the map, as many as the cell with the most has."""
        longest = max(len(plan.stages) for plan in self.plans)
        return tuple(PerCellStage(self, number) for number in range(longest))

    def cell_outputs(self, outputs: Outputs, n_stages: int) -> list[Outputs]:
        """Return the outputs of each cell's first stages, under the names of its own stages."""
        rows: list[Outputs] = [Outputs() for _ in self.plans]
        for stage in self.stages[:n_stages]:
            row = outputs[stage.name]
            for member in stage.members:
                name, entries = member.stage.name, member.stage.entries
                own_row = row[:, member.entries]
                rows[member.cell] = rows[member.cell].extended(name, entries, own_row)
        return rows

    def names(self, mechanism: CellMechanism) -> list[str]:
        """Return the name of the mechanism of each cell, where one may choose another."""
        return [mechanism.chosen_name(choice) for choice in self.choices]

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        terms = np.concatenate([plan.losses() for plan in self.plans])
        return sum_upper_bounds(self.problem.occupancy.user, terms, self.problem.occupancy.n_users)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.stages[len(earlier)] if len(earlier) < len(self.stages) else DONE

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the mean of every cell."""
        rows = self.cell_outputs(outputs, len(self.stages))
        cells = [plan.decode(row)[0] for plan, row in zip(self.plans, rows, strict=True)]
        batch = max(len(cell.estimate) for cell in cells)
        # A cell that no stage reads has one estimate for all data sets.
        columns = [np.broadcast_to(cell.estimate, (batch, 1)) for cell in cells]
        estimate = np.concatenate(columns, axis=1)
        return (Decoded("mean", estimate, joined_grids(cells), joined_errors(cells)),)


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """The cells of a map as a release runs them, with estimates in value units.

    Attributes
    ----------
    cells : PerCellAllocation
    error : ErrorModel
        Of the means, in value units.
    """

    cells: PerCellAllocation
    error: ErrorModel

    kind = "per-cell"

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self.cells.losses()

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.cells.next_stage(earlier)

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:  # noqa: ARG002  as of other plans
        """Return nothing: no range of the whole map cuts these integers off."""
        return {}

    def grid(self) -> EstimateGrid:
        """Return where published means can lie, in value units; no number where on a curve."""
        grids = [plan.grid() for plan in self.cells.plans]
        ends = [(np.nan, np.nan) if g is None else (g.start[0], g.step[0]) for g in grids]
        start, step = np.array(ends, dtype=np.float64).T
        return EstimateGrid(self._in_units(start), step * float(self.cells.problem.quantum))

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in value units."""
        rows = self.cells.cell_outputs(outputs, len(self.cells.stages))
        cells = zip(self.cells.plans, rows, strict=True)
        return tuple(self._range_in_units(plan.released_range(row)) for plan, row in cells)

    def _range_in_units(self, released: ReleasedRange | None) -> ReleasedRange | None:
        if released is None:
            return None
        quantum = float(self.cells.problem.quantum)
        # Sums count from the lower bound of each value, means do not.
        lowest = 0.0 if released.quantity == "user sums" else float(self.cells.problem.lower)
        lower, upper = (lowest + quantum * end for end in (released.lower, released.upper))
        return ReleasedRange(released.quantity, lower, upper, quantum * released.scale)

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the mean of every cell."""
        (mean,) = self.cells.decode(outputs)
        return (Decoded("mean", self._in_units(mean.estimate), self.grid(), self.error),)

    def _in_units(self, quanta: Floats) -> Floats:
        problem = self.cells.problem
        return np.asarray(float(problem.lower) + quanta * float(problem.quantum))


def joined_grids(cells: list[Decoded]) -> EstimateGrid | None:
    """Return the grids of all cells; None if estimates of a cell lie on none."""
    grids = [cell.grid for cell in cells if cell.grid is not None]
    if len(grids) < len(cells):
        return None
    starts, steps = ([getattr(grid, end) for grid in grids] for end in ("start", "step"))
    return EstimateGrid(np.concatenate(starts), np.concatenate(steps))


def joined_errors(cells: list[Decoded]) -> StatisticError:
    """Return the errors of all cells; proven if each of them is."""
    scale = np.concatenate([cell.error.scale for cell in cells])
    bound95 = np.concatenate([cell.error.bound95 for cell in cells])
    proven = [cell.error.bias for cell in cells if isinstance(cell.error, ProvenError)]
    if len(proven) == len(cells):
        return ProvenError(scale, np.concatenate(proven), bound95)
    return PredictedError(scale, bound95)


@dataclass(frozen=True)
class PerCell:
    """A mechanism of one cell at one common loss for every cell."""

    mechanism: CellMechanism

    def allocate_at(self, problem: MapProblem, cell_epsilon: Fraction) -> PerCellAllocation:
        """Return the allocation in which every cell has this loss."""
        return self.allocate_chosen(problem, cell_epsilon, self._choices(problem, cell_epsilon))

    def allocate_chosen(
        self, problem: MapProblem, cell_epsilon: Fraction, choices: tuple[str, ...]
    ) -> PerCellAllocation:
        """Return the allocation in which every cell has this loss, for choices that were made.

        Raises
        ------
        InputError
            If a choice is none of the mechanism's.
        """
        plans = tuple(
            self.mechanism.allocate_chosen(problem.cell(cell), cell_epsilon, choice)
            for cell, choice in enumerate(choices)
        )
        return PerCellAllocation(problem, plans, cell_epsilon, choices)

    def allocate(self, problem: MapProblem, epsilon: Fraction) -> PerCellAllocation:
        """Return the allocation with the largest common cell loss found, within ε for every user.

        Raises
        ------
        InputError
            If no cell loss stays within ε.
        """
        cells_per_user = np.bincount(problem.occupancy.user)
        # Losses round up, so the share of a user in the most cells is taken a hair smaller.
        start = epsilon / int(cells_per_user.max()) * (1 - Fraction(1, 2**30))
        first = self.allocate_at(problem, start)
        if first.losses().max() > float(epsilon):
            raise InputError("no loss of every cell keeps each user within epsilon.")
        best = self._largest(first, epsilon)
        if not any(best.choices) or best is first:
            return best
        # Choices were those of the first cell loss: predictions take long, losses do not.
        fresh = self.allocate_at(problem, best.cell_epsilon)
        return fresh if fresh.losses().max() <= float(epsilon) else best

    def _largest(self, best: PerCellAllocation, epsilon: Fraction) -> PerCellAllocation:
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
            allocation = self.allocate_chosen(best.problem, middle, best.choices)
            if allocation.losses().max() <= limit:
                best = allocation
            else:
                high = middle
        return best

    def _choices(self, problem: MapProblem, cell_epsilon: Fraction) -> tuple[str, ...]:
        """Return the choice of each cell; cells of the same counts share theirs."""
        known: dict[bytes, str] = {}
        choices = []
        for number in range(problem.occupancy.n_cells):
            cell = problem.cell(number)
            counts = cell.counts.tobytes()
            if counts not in known:
                known[counts] = self.mechanism.choose(cell, cell_epsilon)
            choices.append(known[counts])
        return tuple(choices)
