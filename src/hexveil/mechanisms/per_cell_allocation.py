"""Cells planned apart: a mechanism of one cell on every cell of a map.

Stage k of the map is the k-th stage of every cell that has one: one row of the journal, and one
call for the noise of all sums. Cells may differ in mechanism (`Auto`). Each question goes to blocks
of whole cells, in memory or elsewhere, which make the plans of their cells (`cell_plans`). What
returns is a figure per cell; per stage one whole number of each sum, or the scores of each choice;
and users' losses, summed over each block in whole parts (`accounting/moves.py`): exact, wherever
blocks begin. Noise is drawn here, once; blocks draw nothing.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity: that of each cell's own stage, computed from the cell's counts in its block.
Loss: that of a user is the sum over its cells, since cells have independent noise and each cell's
loss holds whatever its earlier stages found (adaptive composition). One common loss of every cell
is searched by bisection, so that the most exposed user stays within ε by exact accounting. The
meter gets the sum at the scales of a row with the first request of the row, nothing with the
others; a request of another scale than was asked about has no bound, and is refused.
Source: the mechanism of the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from hexveil.accounting.moves import LossParts
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import read_only
from hexveil.mechanisms import cell_plans
from hexveil.mechanisms.cell_plans import (
    CellFigures,
    CellPlans,
    Column,
    Columns,
    PlanWork,
    figure_columns,
)
from hexveil.mechanisms.contract import DONE, DrawnRow, Stage
from hexveil.mechanisms.sensitivity_report import (
    LaplaceNoise,
    NoiseRequest,
    NoisyMax,
    SensitivityReport,
)
from hexveil.mechanisms.single_cell.cell_allocation import MapProblem, ReleasedRange
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.stage_data import Measured, Outputs, PrivateSums, Scores, Values

BISECTIONS = 16
SPENT = 1 - 2.0**-20
"""Part of ε that counts as all of it."""
PROPORTION = 1 - 2.0**-24
"""A guess stays so much below the limit, since losses round up."""
NOTHING = read_only(np.zeros(1))
MOST_SCORES = 2**26
"""Scores of all cells' choices in one stage: half a gigabyte."""


@dataclass(frozen=True, eq=False)
class PlannedCells:
    """Cells planned apart at one common loss, as a release runs them.

    Attributes
    ----------
    problem : MapProblem
    mechanism : CellMechanism
    cell_epsilon : Fraction
        The common loss of every cell.
    choices : tuple of str
        Of each cell, by predicted errors: see `CellMechanism.choose`.
    """

    problem: MapProblem
    mechanism: CellMechanism
    cell_epsilon: Fraction
    choices: tuple[str, ...]

    @cached_property
    def plans(self) -> CellPlans:
        """Facts of all cells, from which blocks make plans."""
        problem = self.problem
        return CellPlans(
            self.mechanism,
            problem.lower,
            problem.quantum,
            problem.span,
            self.cell_epsilon,
            np.array(self.choices, dtype=np.str_),
            kept={} if problem.occupancy.is_local else None,
        )

    @cached_property
    def parts(self) -> LossParts:
        """Parts in which losses are added."""
        most = int(self.problem.occupancy.cells_per_user.max())
        return LossParts.of_cells(self.cell_epsilon, most)

    def ask(
        self, work: Callable[..., Columns], n_columns: int, outputs: tuple[Ints, ...] = ()
    ) -> Columns:
        """Return the columns of a function of `cell_plans`, of the blocks in order.

        Raises
        ------
        InputError
            If a block refuses it.
        """
        asked = partial(work, plans=replace(self.plans, outputs=outputs))
        told = partial(cell_plans.with_refusal, work=asked, n_columns=n_columns)
        return _accepted(self.problem.occupancy.map_cells(told))

    def map_plans(self, work: PlanWork, n_columns: int) -> Columns:
        """Return the columns that a function of a module makes of the plans of all cells."""
        return self.ask(partial(cell_plans.map_plans, work=work), n_columns)

    def sum_over_users(
        self, work: Callable[..., Columns], n_columns: int, outputs: tuple[Ints, ...] = ()
    ) -> tuple[Ints, ...]:
        """Return sums of parts of each user."""
        occupancy = self.problem.occupancy
        totals = tuple(np.zeros(occupancy.n_users, dtype=np.int64) for _ in range(n_columns))
        asked = partial(work, plans=replace(self.plans, outputs=outputs), parts=self.parts)
        told = partial(cell_plans.with_refusal, work=asked, n_columns=n_columns + 1)
        # Block by block: where blocks are on disk, one answer is in memory at a time.
        for answer in occupancy.each("cells", told):
            users, *sums = _accepted(answer)
            for total, column in zip(totals, sums, strict=True):
                np.add.at(total, users, column)
        return totals

    @cached_property
    def figures(self) -> CellFigures:
        """Figures of all cells' plans.

        Raises
        ------
        InputError
            If their private choices have more scores than come to one machine.
        """
        figures = CellFigures(*self.map_plans(figure_columns, 10))
        n_scores = int(figures.n_scores.sum())
        if n_scores > MOST_SCORES and self.plans.kept is None:
            raise InputError(
                f"the private choices of all cells have {n_scores:,} candidates together, and "
                f"scores of at most {MOST_SCORES:,} come to one machine from pairs that stay "
                "elsewhere: give the mechanism fewer candidates, like AKMV(candidates=256), or "
                "take larger cells."
            )
        return figures

    def table(self, number: int, row: Column) -> Column:
        """Return a row of a stage as a table with a row per cell; nothing where it has less."""
        entries = self.figures.entry_table[:, number]
        table = np.zeros((entries.size, int(entries.max())), dtype=row.dtype)
        table[np.arange(table.shape[1]) < entries[:, None]] = row
        return table

    def output_tables(self, outputs: Outputs, n_stages: int) -> tuple[Ints, ...]:
        """Return the rows of the first stages as tables with a row per cell."""
        # A release is a batch of one.
        return tuple(self.table(k, outputs[stage_name(k)][0]) for k in range(n_stages))

    def names(self, mechanism: CellMechanism) -> list[str]:
        """Return the name of the mechanism of each cell, where one may choose another."""
        return [mechanism.chosen_name(choice) for choice in self.choices]

    def losses(self) -> Floats:
        """Return each user's loss over all its cells, rounded up."""
        return self._losses[0]

    def claimed_losses(self) -> Floats:
        """Return each user's loss if each cell costs all whom it costs anything its largest."""
        return self._losses[1]

    @cached_property
    def _losses(self) -> tuple[Floats, ...]:
        return self._sum_kinds((cell_plans.LOSS, cell_plans.CLAIM))

    def stage_costs(self) -> dict[str, tuple[int, float]]:
        """Return by name of a stage its cells, and the loss of the user whom it costs most."""
        names = self.figures.stage_names.tolist()
        kinds = tuple(dict.fromkeys(names))
        losses = self._sum_kinds(kinds) if kinds else ()
        largest = (float(own.max()) for own in losses)
        return {kind: (names.count(kind), own) for kind, own in zip(kinds, largest, strict=True)}

    def _sum_kinds(self, kinds: tuple[str, ...]) -> tuple[Floats, ...]:
        sums = self.sum_over_users(partial(cell_plans.sum_losses, kinds=kinds), len(kinds))
        return tuple(read_only(self.parts.upper_bounds(parts)) for parts in sums)

    @property
    def n_stages(self) -> int:
        """Stages of the map, as many as the cell with the most has."""
        return int(self.figures.entry_table.shape[1])

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return MapStage(self, earlier) if len(earlier) < self.n_stages else DONE

    def estimates(self, outputs: Outputs) -> Floats:
        """Return the estimates of all cells in quanta, shape (1, n_cells)."""
        return np.asarray(self._decoded(outputs)[0][None])

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in quanta."""
        _, names, *ends = self._decoded(outputs)
        rows = zip(names.tolist(), *(column.tolist() for column in ends), strict=True)
        return tuple(ReleasedRange(*row) if row[0] else None for row in rows)

    def _decoded(self, outputs: Outputs) -> Columns:
        return self.ask(cell_plans.estimated_cells, 5, self.output_tables(outputs, self.n_stages))


def stage_name(number: int) -> str:
    """Return the name of a stage's row."""
    return f"stage {number}"


def _accepted(answer: Columns) -> Columns:
    """Return the columns of an answer; raise InputError if a block refuses."""
    refusals, *columns = answer
    if refusals.size:
        raise InputError(str(refusals[0]))
    return tuple(columns)


@dataclass(frozen=True, eq=False)
class RowMoves(SensitivityReport):
    """Losses of users by one request of a row: a `SensitivityReport`.

    Attributes
    ----------
    selects : bool
    scales : ndarray of float, shape (n,)
        Noise of the request that was asked about.
    losses : ndarray of float, shape (n_users,) or (1,)
        Losses by all requests of the stage for the first of them, nothing for the others.
    """

    selects: bool
    scales: Floats
    losses: Floats

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's loss, rounded down; infinity for a request that was not asked."""
        if isinstance(request, NoisyMax):
            same = self.selects and np.array_equal(self.scales, [request.scale])
        else:
            same = (
                isinstance(request, LaplaceNoise)
                and not self.selects
                and np.array_equal(self.scales, np.ravel(request.scales))
            )
        return self.losses if same else np.full(n_users, np.inf)


@dataclass(frozen=True, eq=False)
class MapStage(DrawnRow):
    """The stage after some outputs of every cell that has one, measured in blocks."""

    cells: PlannedCells
    earlier: Outputs

    @property
    def number(self) -> int:
        """Stages before it."""
        return len(self.earlier)

    @property
    def name(self) -> str:
        """Name of its row."""
        return stage_name(self.number)

    @property
    def entries(self) -> int:
        """Integers of all cells."""
        return int(self.cells.figures.entry_table[:, self.number].sum())

    @cached_property
    def requests(self) -> tuple[Bools, Floats]:
        """Whether each number of the row is a choice, and its scale."""
        # Noise, sensitivity and integers of a stage need them: blocks are asked once.
        selects, scales = self.cells.ask(cell_plans.stage_requests, 2, self._outputs)
        return read_only(selects), read_only(scales)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  its own
        """Return the noise of the row: a request for each choice, and for each run of sums."""
        selects, scales = self.requests
        return tuple(
            NoisyMax(float(scales[begin])) if selects[begin] else LaplaceNoise(scales[begin:end])
            for begin, end in _queries(selects)
        )

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return the losses of users by all numbers of the row, with the first request."""
        selects, scales = self.requests
        by_cell = partial(self.cells.table, self.number)
        work = partial(cell_plans.sum_moves, selects=by_cell(selects), scales=by_cell(scales))
        (parts,) = self.cells.sum_over_users(work, 1, self._outputs)
        losses = self.cells.parts.lower_bounds(parts)
        return tuple(
            RowMoves(bool(selects[begin]), scales[begin:end], NOTHING if position else losses)
            for position, (begin, end) in enumerate(_queries(selects))
        )

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:  # noqa: ARG002
        """Return each cell's integers. PRIVATE."""
        plans = replace(self.cells.plans, outputs=self._outputs)
        work = partial(cell_plans.measured_integers, plans=plans)
        row = sums.map_cells(self.cells.problem.occupancy, work)[0]
        return tuple(_measured(row, self.requests[0]))

    @property
    def _outputs(self) -> tuple[Ints, ...]:
        return self.cells.output_tables(self.earlier, self.number)


def _queries(selects: Bools) -> Iterator[tuple[int, int]]:
    """Yield the numbers of a row that share a request: each choice, and each run of sums."""
    begins = np.flatnonzero(selects | np.concatenate(([True], selects[:-1])))
    yield from pairwise([*begins.tolist(), selects.size])


def _measured(row: Ints, selects: Bools) -> Iterator[Measured]:
    """Yield measured queries, from the row of `cell_plans.measured_integers`. PRIVATE."""
    place = 0
    for begin, end in _queries(selects):
        if not selects[begin]:
            yield Values(row[None, place : place + end - begin])
            place += end - begin
            continue
        size = int(row[place])
        n_runs, place = abs(size), place + 1
        scores = row[None, place : place + n_runs]
        place += n_runs
        sizes: Any = np.ones((1, n_runs), dtype=np.int64)
        if size > 0:
            sizes = row[None, place : place + n_runs]
            place += n_runs
        yield Scores(scores, sizes)


@dataclass(frozen=True)
class PerCell:
    """A mechanism of one cell at one common loss for every cell."""

    mechanism: CellMechanism

    def allocate_at(self, problem: MapProblem, cell_epsilon: Fraction) -> PlannedCells:
        """Return the allocation in which every cell has this loss."""
        return PlannedCells(
            problem, self.mechanism, cell_epsilon, self._choices(problem, cell_epsilon)
        )

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
            allocation = replace(best, cell_epsilon=middle)
            if allocation.losses().max() <= limit:
                best = allocation
            else:
                high = middle
        return best

    def _choices(self, problem: MapProblem, cell_epsilon: Fraction) -> tuple[str, ...]:
        """Return the choice of each cell; cells of the same counts share theirs."""
        if type(self.mechanism).choose is CellMechanism.choose:
            return ("",) * problem.occupancy.n_cells
        undecided = PlannedCells(problem, self.mechanism, cell_epsilon, ())
        (choices,) = undecided.ask(cell_plans.choose_cells, 1)
        return tuple(choices.tolist())
