"""Figures of the plans of cells: a number of each cell, whatever the number of its users. Public.

A map's errors, grids and rows follow from them, wherever the plans are made: on this machine, or in
blocks of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import ProvenError
from hexveil.mechanisms.private_quantile import PrivateQuantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.single_cell.cell_allocation import BoundedStage, CellAllocation

    Column = NDArray[Any]

UNKNOWN_GRID = (np.nan, np.nan)
"""Of estimates that lie on a curve of integers."""


@dataclass(frozen=True, eq=False)
class CellFigures(ReadOnlyArrays):
    """Figures of the plans of all cells; see `figure_columns`.

    Attributes
    ----------
    scale, bias, bound95 : ndarray of float, shape (n_cells,)
        Error of the estimate for bounds of width 1; the bias is 1 where none is proven.
    proven : ndarray of bool, shape (n_cells,)
        Whether the bias is a proven worst case.
    grid_start, grid_step : ndarray of float, shape (n_cells,)
        Where estimates can lie, in quanta; no numbers where on a curve.
    n_scores : ndarray of int64, shape (n_cells,)
        Most scores that a stage of the cell measures; 0 without a private choice.
    n_stages : ndarray of int64, shape (n_cells,)
    entries : ndarray of int64, shape (n_stages.sum(),)
        Integers of each stage, cell after cell.
    stage_names : ndarray of str, shape (n_stages.sum(),)
    """

    scale: Floats
    bias: Floats
    bound95: Floats
    proven: NDArray[np.bool_]
    grid_start: Floats
    grid_step: Floats
    n_scores: Ints
    n_stages: Ints
    entries: Ints
    stage_names: NDArray[np.str_]

    @cached_property
    def entry_table(self) -> Ints:
        """Integers of each cell's stages, shape (n_cells, most stages); 0 after its last."""
        n_cells, longest = self.n_stages.size, int(self.n_stages.max())
        table = np.zeros((n_cells, longest), dtype=np.int64)
        # Filled row by row, as the stages stand.
        table[np.arange(longest) < self.n_stages[:, None]] = self.entries
        return table


def figure_columns(plans: Iterable[CellAllocation], choices: Sequence[str]) -> tuple[Column, ...]:  # noqa: ARG001  as of all functions of plans
    """Return the columns of `CellFigures` for these plans, in the order of its fields."""
    numbers, grids, counts, entries, names = [], [], [], [], []
    for plan in plans:
        error, grid = plan.error(1.0), plan.grid()
        is_proven = isinstance(error, ProvenError)
        bias = float(error.bias[0]) if isinstance(error, ProvenError) else 1.0
        numbers.append((float(error.scale[0]), bias, float(error.bound95[0]), is_proven))
        grids.append(UNKNOWN_GRID if grid is None else (float(grid.start[0]), float(grid.step[0])))
        n_scores = max((score_room(stage) for stage in plan.stages), default=0)
        counts.append((n_scores, len(plan.stages)))
        entries += [stage.entries for stage in plan.stages]
        names += [stage.name for stage in plan.stages]
    scale, bias_column, bound95, proven = np.array(numbers, dtype=np.float64).T
    start, step = np.array(grids, dtype=np.float64).T
    scores, n_stages = np.array(counts, dtype=np.int64).T
    return (
        scale,
        bias_column,
        bound95,
        proven.astype(bool),
        start,
        step,
        scores,
        n_stages,
        np.array(entries, dtype=np.int64),
        np.array(names, dtype=np.str_),
    )


def score_room(stage: BoundedStage) -> int:
    """Return the most scores that a stage measures, a public number; 0 of a sum."""
    return stage.entries * stage.candidates.size if isinstance(stage, PrivateQuantile) else 0
