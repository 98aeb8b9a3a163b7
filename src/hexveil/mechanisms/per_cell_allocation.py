"""Cells planned apart: a mechanism of one cell on every cell of a map.

Stage k of the map is the k-th stage of every cell that has one: one row of the journal, and one
call for the noise of all sums. Cells may differ in mechanism (`Auto`).

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Loss: that of a user is the sum over its cells, since cells have independent noise and each cell's
loss holds whatever its earlier stages found (adaptive composition). One common loss of every cell
is searched by bisection, so that the most exposed user stays within ε by exact accounting.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.accounting.moves import LossParts, sum_parts
from hexveil.base.errors import InputError
from hexveil.mechanisms.cell_blocks.block_plans import (
    CLAIM,
    LOSS,
    CellFigures,
    figure_columns,
    pair_losses,
)
from hexveil.mechanisms.cell_blocks.block_stage import DistributedCells, choose_in_blocks
from hexveil.mechanisms.contract import (
    DONE,
    Decoded,
    DrawnRow,
    EstimateGrid,
    Measured,
    NoiseRequest,
    Outputs,
    PredictedError,
    PrivateSums,
    ProvenError,
    SensitivityReport,
    Separate,
    Stage,
    StatisticError,
)
from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.cell_blocks.block_plans import Column, PlanWork
    from hexveil.mechanisms.single_cell.cell_allocation import (
        BoundedStage,
        CellAllocation,
        MapProblem,
    )
    from hexveil.model.public_metadata import ValueLattice


BISECTIONS = 16
SPENT = 1 - 2.0**-20
"""Part of ε that counts as all of it."""
PROPORTION = 1 - 2.0**-24
"""A guess stays so much below the limit, since losses round up."""


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
            user = problem.occupancy.local().user[problem.rows(member.cell)]
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

    def map_plans(self, work: PlanWork, n_columns: int) -> tuple[Column, ...]:  # noqa: ARG002  as in blocks
        """Return the columns that a function makes of the plans of all cells."""
        return work(iter(self.plans), self.choices)

    @cached_property
    def figures(self) -> CellFigures:
        """Figures of all cells' plans."""
        return CellFigures(*figure_columns(self.plans, self.choices))

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self._summed(LOSS)

    def claimed_losses(self) -> Floats:
        """Return each user's loss if each cell costs all whom it costs anything its largest."""
        return self._summed(CLAIM)

    def stage_costs(self) -> dict[str, tuple[int, float]]:
        """Return by name of a stage its cells, and the loss of the user whom it costs most."""
        names = Counter(stage.name for plan in self.plans for stage in plan.stages)
        return {name: (n, float(self._summed(name).max())) for name, n in names.items()}

    def _summed(self, kind: str) -> Floats:
        """Return sums of `pair_losses` over each user's cells, rounded up."""
        occupancy = self.problem.occupancy.local()
        parts = LossParts.of_cells(self.cell_epsilon, int(occupancy.cells_per_user.max()))
        terms = np.concatenate([pair_losses(plan, kind) for plan in self.plans])
        # In whole parts, as blocks of pairs add them: the same to the last bit.
        sums = sum_parts(occupancy.user, parts.rounded_up(terms), occupancy.n_users)
        return parts.upper_bounds(sums)

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.stages[len(earlier)] if len(earlier) < len(self.stages) else DONE

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in quanta."""
        rows = self.cell_outputs(outputs, len(self.stages))
        cells = zip(self.plans, rows, strict=True)
        return tuple(plan.released_range(row) for plan, row in cells)

    def estimates(self, outputs: Outputs) -> Floats:
        """Return the estimates of all cells in quanta, shape (batch, n_cells)."""
        (mean,) = self.decode(outputs)
        return mean.estimate

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the mean of every cell."""
        rows = self.cell_outputs(outputs, len(self.stages))
        cells = [plan.decode(row)[0] for plan, row in zip(self.plans, rows, strict=True)]
        batch = max(len(cell.estimate) for cell in cells)
        # A cell that no stage reads has one estimate for all data sets.
        columns = [np.broadcast_to(cell.estimate, (batch, 1)) for cell in cells]
        estimate = np.concatenate(columns, axis=1)
        return (Decoded("mean", estimate, joined_grids(cells), joined_errors(cells)),)


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


PlannedCells: TypeAlias = PerCellAllocation | DistributedCells
"""Cells planned apart: with pairs at hand, or with pairs that stay elsewhere."""


@dataclass(frozen=True)
class PerCell:
    """A mechanism of one cell at one common loss for every cell."""

    mechanism: CellMechanism

    def allocate_at(self, problem: MapProblem, cell_epsilon: Fraction) -> PlannedCells:
        """Return the allocation in which every cell has this loss."""
        return self.allocate_chosen(problem, cell_epsilon, self._choices(problem, cell_epsilon))

    def allocate_chosen(
        self, problem: MapProblem, cell_epsilon: Fraction, choices: tuple[str, ...]
    ) -> PlannedCells:
        """Return the allocation in which every cell has this loss, for choices that were made.

        Raises
        ------
        InputError
            If a choice is none of the mechanism's.
        """
        if not problem.occupancy.is_local:
            return DistributedCells(problem, self.mechanism, cell_epsilon, choices)
        plans = tuple(
            self.mechanism.allocate_chosen(problem.cell(cell), cell_epsilon, choice)
            for cell, choice in enumerate(choices)
        )
        return PerCellAllocation(problem, plans, cell_epsilon, choices)

    def allocate(self, problem: MapProblem, epsilon: Fraction) -> PlannedCells:
        """Return the allocation with the largest common cell loss found, within ε for every user.

        Raises
        ------
        InputError
            If no cell loss stays within ε.
        """
        largest = int(problem.occupancy.cells_per_user.max())
        # Losses round up, so the share of a user in the most cells is taken a hair smaller.
        start = epsilon / largest * (1 - Fraction(1, 2**30))
        first = self.allocate_at(problem, start)
        if first.losses().max() > float(epsilon):
            raise InputError("no loss of every cell keeps each user within epsilon.")
        best = self._largest(first, epsilon)
        if not any(best.choices) or best is first:
            return best
        # Choices were those of the first cell loss: predictions take long, losses do not.
        fresh = self.allocate_at(problem, best.cell_epsilon)
        return fresh if fresh.losses().max() <= float(epsilon) else best

    def _largest(self, best: PlannedCells, epsilon: Fraction) -> PlannedCells:
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
        if type(self.mechanism).choose is CellMechanism.choose:
            return ("",) * problem.occupancy.n_cells
        return choose_in_blocks(problem, self.mechanism, cell_epsilon)


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """The cells of a map as a release runs them, with estimates in value units.

    The error model is that of the means, in value units.
    """

    cells: PlannedCells
    error: ErrorModel

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self.cells.losses()

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.cells.next_stage(earlier)

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:  # noqa: ARG002  as of other plans
        """Return nothing: no range of the whole map cuts these integers off."""
        return {}

    def view(self, outputs: Outputs) -> None:
        """Return nothing: each cell's estimate is its mechanism's."""

    def check_release(self, scale: ValueLattice, epsilon: float, *, has_squares: bool) -> None:
        """Refuse nothing: stages are built for these records, or not at all."""

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, EstimateGrid]:  # noqa: ARG002
        """Return where published means can lie, in value units; no number where on a curve."""
        start, step = self.cells.figures.grid_start, self.cells.figures.grid_step
        grid = EstimateGrid(self._in_units(start), step * float(self.cells.problem.quantum))
        return {"mean": grid}

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in value units."""
        return tuple(map(self._range_in_units, self.cells.released_ranges(outputs)))

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
        estimates = self._in_units(self.cells.estimates(outputs))
        return (Decoded("mean", estimates, self.grids({})["mean"], self.error),)

    def _in_units(self, quanta: Floats) -> Floats:
        problem = self.cells.problem
        return np.asarray(float(problem.lower) + quanta * float(problem.quantum))
