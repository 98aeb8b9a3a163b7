"""Public questions about cells planned apart, to blocks of whole cells: figures, never pairs.

Here are numbers per cell, and sums per user: those of each block come back for runs of users that
are cut so that a process has room for them, however many pairs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.loss_parts import LossParts
from hexveil.base.errors import InputError
from hexveil.mechanisms.cell_blocks import block_plans
from hexveil.mechanisms.cell_blocks.cell_figures import CellFigures, figure_columns
from hexveil.model.distributed_occupancy import DistributedOccupancy, partition_numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.cell_blocks.block_plans import Column, PlanWork
    from hexveil.mechanisms.cell_blocks.map_problem import MapProblem
    from hexveil.mechanisms.contract import Outputs
    from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
    from hexveil.model.occupancy import Pairs

MOST_SUMS = 2**24
"""Sums of users in blocks that come back from one question: 200 megabytes for each loss."""
MOST_SCORES = 2**26
"""Scores of all cells' choices in one stage: half a gigabyte."""


@dataclass(frozen=True, eq=False)
class CellBlocks:
    """Plans of all cells at one common loss, made in blocks of pairs.

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
        self, work: Callable[..., tuple[Column, ...]], cells: tuple[Column, ...], n_columns: int
    ) -> tuple[Column, ...]:
        """Return the columns of a function of `block_plans`, of the blocks in order."""
        asked = partial(work, recipe=self.recipe)
        return ask_blocks(self.problem, asked, (self.choice_array, *cells), n_columns)

    def map_plans(self, work: PlanWork, n_columns: int) -> tuple[Column, ...]:
        """Return the columns that a function makes of the plans of all cells.

        Parameters
        ----------
        work : callable
            From plans, one at a time, and their choices to columns of numbers or text; a function
            of a module.
        n_columns : int
        """
        return self.ask_plans(partial(block_plans.map_plans, work=work), (), n_columns)

    def sum_over_users(
        self, work: Callable[..., tuple[Ints, ...]], cells: tuple[Column, ...], n_columns: int
    ) -> tuple[Ints, ...]:
        """Return sums of parts of each user, for runs of users one after another."""
        occupancy = self.problem.occupancy
        assert isinstance(occupancy, DistributedOccupancy)  # noqa: S101  the pairs are elsewhere
        totals = tuple(np.zeros(occupancy.n_users, dtype=np.int64) for _ in range(n_columns))
        for begin, end in pairwise(self._user_runs):
            asked = partial(work, recipe=self.recipe, parts=self.parts, users=(begin, end))
            told = partial(block_plans.with_refusal, work=asked, n_columns=n_columns + 1)
            # Block by block: where blocks are on disk, one answer is in memory at a time.
            for answer in occupancy.iterate_cells(told, (self.choice_array, *cells)):
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
        return tuple(self.table(k, outputs[stage_name(k)][0]) for k in range(n_stages))


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
    (choices,) = ask_blocks(problem, partial(block_plans.choose_cells, recipe=recipe), (), 1)
    return tuple(choices.tolist())


def ask_blocks(
    problem: MapProblem,
    work: Callable[..., tuple[Column, ...]],
    cells: tuple[Column, ...],
    n_columns: int,
) -> tuple[Column, ...]:
    """Return the columns of a public question to blocks of cells.

    Raises
    ------
    InputError
        If a block refuses it.
    """
    asked = partial(block_plans.with_refusal, work=work, n_columns=n_columns)
    return accepted_columns(problem.occupancy.map_cells(asked, cells))


def accepted_columns(answer: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns of an answer; raise InputError if a block refuses."""
    refusals, *columns = answer
    if refusals.size:
        raise InputError(str(refusals[0]))
    return tuple(columns)


def _count_block(pairs: Pairs) -> Ints:
    return pairs.n[:1]


def stage_name(number: int) -> str:
    """Return the name of a stage's row."""
    return f"stage {number}"
