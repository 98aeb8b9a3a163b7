"""Cells planned apart whose pairs stay elsewhere: numbers per cell and per user here, never pairs.

The counterpart of `PerCellAllocation`, with the same stages, rows and estimates. Each question goes
to blocks of whole cells, which make the plans of their cells anew (`block_plans`). What returns is
a figure per cell; per stage one whole number of each sum, or the scores of each choice; and users'
losses, summed over each block in whole parts (`accounting/moves.py`): exact, wherever blocks
begin, and those of pairs at hand. They come back for runs of users that are cut so that a process
has room for them, however many pairs there are.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity: that of each cell's own stage, computed from the cell's counts in its block.
Loss: the sum over the user's cells of its losses by a stage at the scales of this process. The
meter gets that sum with the first request of the row, nothing with the others; a request of another
scale than the blocks were asked about has no bound, and is refused.
Source: the mechanism of the cell.
Noise is drawn here, once; blocks draw nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.moves import LossParts
from hexveil.base.errors import InputError
from hexveil.base.read_only import read_only
from hexveil.mechanisms.cell_blocks import block_plans
from hexveil.mechanisms.cell_blocks.block_plans import CellFigures, figure_columns
from hexveil.mechanisms.contract import (
    DONE,
    DrawnRow,
    LaplaceNoise,
    Measured,
    NoiseRequest,
    NoisyMax,
    Outputs,
    PrivateSums,
    Scores,
    SensitivityReport,
    Stage,
    Values,
)
from hexveil.mechanisms.single_cell.cell_allocation import ReleasedRange
from hexveil.model.distributed_occupancy import partition_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.cell_blocks.block_plans import Column, PlanWork
    from hexveil.mechanisms.single_cell.cell_allocation import MapProblem
    from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
    from hexveil.model.occupancy import Pairs


NOTHING = read_only(np.zeros(1))


MOST_SUMS = 2**24
"""Sums of users in blocks that come back from one question: 200 megabytes for each loss."""
MOST_SCORES = 2**26
"""Scores of all cells' choices in one stage: half a gigabyte."""


@dataclass(frozen=True, eq=False)
class DistributedCells:
    """Cells planned apart at one common loss, as a release runs them on blocks of pairs.

    Attributes
    ----------
    problem : MapProblem
        Its pairs are elsewhere.
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

    @property
    def recipe(self) -> block_plans.CellRecipe:
        """Facts of all cells, from which blocks make plans."""
        return block_recipe(self.problem, self.mechanism, self.cell_epsilon)

    @cached_property
    def choice_array(self) -> NDArray[np.str_]:
        """The choices, as blocks are given them."""
        return np.array(self.choices, dtype=np.str_)

    @cached_property
    def parts(self) -> LossParts:
        """Parts in which losses are added."""
        return LossParts.of_cells(
            self.cell_epsilon, int(self.problem.occupancy.cells_per_user.max())
        )

    def ask_plans(
        self, work: Callable[..., tuple[Column, ...]], n_columns: int
    ) -> tuple[Column, ...]:
        """Return the columns of a function of `block_plans`, of the blocks in order."""
        asked = partial(work, recipe=self.recipe, choices=self.choice_array)
        return ask_blocks(self.problem, asked, n_columns)

    def map_plans(self, work: PlanWork, n_columns: int) -> tuple[Column, ...]:
        """Return the columns that a function of a module makes of the plans of all cells."""
        return self.ask_plans(partial(block_plans.map_plans, work=work), n_columns)

    def sum_over_users(
        self, work: Callable[..., tuple[Ints, ...]], n_columns: int
    ) -> tuple[Ints, ...]:
        """Return sums of parts of each user, for runs of users one after another."""
        occupancy = self.problem.occupancy
        totals = tuple(np.zeros(occupancy.n_users, dtype=np.int64) for _ in range(n_columns))
        for begin, end in pairwise(self._user_runs):
            asked = partial(
                work, recipe=self.recipe, choices=self.choice_array, parts=self.parts,
                users=(begin, end),
            )  # fmt: skip
            told = partial(block_plans.with_refusal, work=asked, n_columns=n_columns + 1)
            # Block by block: where blocks are on disk, one answer is in memory at a time.
            for answer in occupancy.each("cells", told):
                users, *sums = accepted_columns(answer)
                for total, column in zip(totals, sums, strict=True):
                    np.add.at(total, users, column)
        return totals

    @cached_property
    def _user_runs(self) -> list[int]:
        """Users from which runs begin with about `MOST_SUMS` sums in all blocks; then all users."""
        occupancy = self.problem.occupancy
        n_blocks = len(occupancy.map_cells(_count_block))
        # A user has a sum in a block that has any of its pairs.
        sums = np.minimum(occupancy.cells_per_user, n_blocks)
        run = partition_numbers(sums, MOST_SUMS)
        begins: list[int] = np.searchsorted(run, np.arange(int(run[-1]) + 2)).tolist()
        return begins

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
        if n_scores > MOST_SCORES:
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
        return tuple(self.table(k, outputs[block_plans.stage_name(k)][0]) for k in range(n_stages))

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
        return self._sum_kinds((block_plans.LOSS, block_plans.CLAIM))

    def stage_costs(self) -> dict[str, tuple[int, float]]:
        """Return by name of a stage its cells, and the loss of the user whom it costs most."""
        names, n_cells = np.unique(self.figures.stage_names, return_counts=True)
        kinds = tuple(dict.fromkeys(self.figures.stage_names.tolist()))
        if not kinds:
            return {}
        counts = dict(zip(names.tolist(), n_cells.tolist(), strict=True))
        losses = self._sum_kinds(kinds)
        return {
            kind: (counts[kind], float(own.max())) for kind, own in zip(kinds, losses, strict=True)
        }

    def _sum_kinds(self, kinds: tuple[str, ...]) -> tuple[Floats, ...]:
        work = partial(block_plans.sum_losses, kinds=kinds)
        sums = self.sum_over_users(work, len(kinds))
        return tuple(read_only(self.parts.upper_bounds(parts)) for parts in sums)

    # ---- stages ----

    @cached_property
    def stages(self) -> tuple[BlockStage, ...]:
        """Stages of the map, as many as the cell with the most has."""
        return tuple(BlockStage(self, k) for k in range(self.figures.entry_table.shape[1]))

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the next stage of the map."""
        return self.stages[len(earlier)] if len(earlier) < len(self.stages) else DONE

    # ---- estimates ----

    def estimates(self, outputs: Outputs) -> Floats:
        """Return the estimates of all cells in quanta, shape (1, n_cells)."""
        return np.asarray(self._decoded(outputs)[0][None])

    def released_ranges(self, outputs: Outputs) -> tuple[ReleasedRange | None, ...]:
        """Return the released choices of each cell, in quanta."""
        _, names, *ends = self._decoded(outputs)
        rows = zip(names.tolist(), *(column.tolist() for column in ends), strict=True)
        return tuple(ReleasedRange(*row) if row[0] else None for row in rows)

    def _decoded(self, outputs: Outputs) -> tuple[Column, ...]:
        key = tuple(outputs[name].tobytes() for name in outputs)
        if key not in self._known:
            tables = self.output_tables(outputs, len(self.stages))
            self._known[key] = self.ask_plans(
                partial(block_plans.estimated_cells, tables=tables), 5
            )
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[bytes, ...], tuple[Column, ...]]:
        return {}


def block_recipe(
    problem: MapProblem, mechanism: CellMechanism, cell_epsilon: Fraction
) -> block_plans.CellRecipe:
    """Return the facts of all cells from which blocks make plans."""
    return block_plans.CellRecipe(
        mechanism, problem.lower, problem.quantum, problem.span, cell_epsilon
    )


def choose_in_blocks(
    problem: MapProblem, mechanism: CellMechanism, cell_epsilon: Fraction
) -> tuple[str, ...]:
    """Return the choice of each cell: see `CellMechanism.choose`."""
    recipe = block_recipe(problem, mechanism, cell_epsilon)
    (choices,) = ask_blocks(problem, partial(block_plans.choose_cells, recipe=recipe), 1)
    return tuple(choices.tolist())


def ask_blocks(
    problem: MapProblem, work: Callable[[Pairs], tuple[Column, ...]], n_columns: int
) -> tuple[Column, ...]:
    """Return the columns of a public question to blocks of cells.

    Raises
    ------
    InputError
        If a block refuses it.
    """
    asked = partial(block_plans.with_refusal, work=work, n_columns=n_columns)
    return accepted_columns(problem.occupancy.map_cells(asked))


def accepted_columns(answer: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of an answer; raise InputError if a block refuses."""
    refusals, *columns = answer
    if refusals.size:
        raise InputError(str(refusals[0]))
    return tuple(columns)


def _count_block(pairs: Pairs) -> Ints:
    return pairs.n[:1]


# ---- stages ----


@dataclass(frozen=True, eq=False)
class BlockMoves:
    """Losses by one request, of users whose pairs are in blocks: a `SensitivityReport`.

    Attributes
    ----------
    selects : bool
    scales : ndarray of float, shape (n,)
        Noise of the request that the blocks were asked about.
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
class BlockStage(DrawnRow):
    """The stage of one number of every cell that has one, measured in blocks."""

    blocks: DistributedCells
    number: int

    @property
    def name(self) -> str:
        """Name of its row."""
        return block_plans.stage_name(self.number)

    @property
    def entries(self) -> int:
        """Integers of all cells."""
        return int(self.blocks.figures.entry_table[:, self.number].sum())

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise of the row: a request for each choice, and for each run of sums."""
        selects, scales = self._requests(earlier)
        return tuple(
            NoisyMax(float(scales[begin])) if selects[begin] else LaplaceNoise(scales[begin:end])
            for begin, end in _queries(selects)
        )

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
        """Return the losses of users by all numbers of the row, with the first request."""
        selects, scales = self._requests(earlier)
        work = partial(
            block_plans.sum_moves,
            number=self.number,
            selects=self.blocks.table(self.number, selects),
            scales=self.blocks.table(self.number, scales),
            tables=self.blocks.output_tables(earlier, self.number),
        )
        (parts,) = self.blocks.sum_over_users(work, 1)
        losses = self.blocks.parts.lower_bounds(parts)
        return tuple(
            BlockMoves(bool(selects[begin]), scales[begin:end], NOTHING if position else losses)
            for position, (begin, end) in enumerate(_queries(selects))
        )

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Measured, ...]:
        """Return each cell's integers. PRIVATE."""
        selects, _ = self._requests(earlier)
        work = partial(
            block_plans.measured_integers,
            recipe=self.blocks.recipe,
            choices=self.blocks.choice_array,
            tables=self.blocks.output_tables(earlier, self.number),
            number=self.number,
        )
        row = sums.map_cells(self.blocks.problem.occupancy, work)[0]
        return tuple(_measured(row, selects))

    def _requests(self, earlier: Outputs) -> tuple[NDArray[np.bool_], Floats]:
        """Return whether each number of the row is a choice, and its scale."""
        key = tuple(earlier[name].tobytes() for name in earlier)
        # Noise, sensitivity and integers of a stage need them: blocks are asked once.
        if key not in self._known:
            tables = self.blocks.output_tables(earlier, self.number)
            work = partial(block_plans.stage_requests, number=self.number, tables=tables)
            selects, scales = self.blocks.ask_plans(work, 2)
            self._known[key] = read_only(selects), read_only(scales)
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[bytes, ...], tuple[NDArray[np.bool_], Floats]]:
        return {}


def _queries(selects: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of a row that share a request: each choice, and each run of sums."""
    begins = np.flatnonzero(selects | np.concatenate(([True], selects[:-1])))
    yield from pairwise([*begins.tolist(), selects.size])


def _measured(row: Ints, selects: NDArray[np.bool_]) -> Iterator[Measured]:
    """Yield measured queries, from the row of `block_plans.measured_integers`. PRIVATE."""
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
