"""Questions to blocks of whole cells: plans of cells from their counts, and integers of their sums.

A block has all pairs of its cells, so that it makes a cell's plan from the counts as one machine
does, by the same functions: whatever follows from the plan is the same to the last bit. Plans have
arrays of all users of a cell, and are made anew for each question; numbers of cells, or sums over a
block for each user, leave it.

Every question but `measured_integers` is about public facts. A refusal by them travels as an
answer, since an engine may hide the words of a task that fails.

Figures of the plans of cells: a number of each cell, whatever the number of its users. Public.

A map's errors, grids and rows follow from them, wherever the plans are made: on this machine, or in
blocks of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.contract import (
    LaplaceNoise,
    NoiseRequest,
    NoisyMax,
    Outputs,
    PrivateSums,
    ProvenError,
    Scores,
    Values,
)
from hexveil.mechanisms.private_quantile import PrivateQuantile
from hexveil.mechanisms.single_cell.cell_allocation import (
    CellAllocation,
    CellProblem,
    ReleasedRange,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.accounting.moves import LossParts
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.single_cell.cell_allocation import BoundedStage
    from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
    from hexveil.model.occupancy import Pairs
    from hexveil.model.pair_bins import PairSums

    Column = NDArray[Any]
    PlanWork = Callable[[Iterator[CellAllocation], Sequence[str]], tuple[Column, ...]]


LOSS, CLAIM = "loss", "claim"
"""Losses of pairs, and what counting cells claims: a cell's largest loss for all that lose any."""
NO_REFUSAL = np.zeros(0, dtype=np.str_)


@dataclass(frozen=True)
class CellRecipe:
    """Facts of all cells, from which a block makes the plans of its own.

    Attributes
    ----------
    mechanism : CellMechanism
    lower, quantum : Fraction
    span : int
        See `MapProblem`.
    epsilon : Fraction
        Loss of every cell.
    """

    mechanism: CellMechanism
    lower: Fraction
    quantum: Fraction
    span: int
    epsilon: Fraction

    def cells(self, pairs: Pairs) -> Iterator[tuple[slice, CellProblem]]:
        """Yield each cell's pairs and public facts."""
        for begin, end in pairwise(pairs.start.tolist()):
            rows = slice(begin, end)
            yield rows, CellProblem(pairs.n[rows], self.lower, self.quantum, self.span)

    def plans(
        self, pairs: Pairs, choices: NDArray[np.str_]
    ) -> Iterator[tuple[slice, CellAllocation]]:
        """Yield each cell's pairs and plan, one at a time."""
        for (rows, cell), choice in zip(
            self.cells(pairs), pairs.own(choices).tolist(), strict=True
        ):
            yield rows, self.mechanism.allocate_chosen(cell, self.epsilon, choice)


def with_refusal(
    pairs: Pairs, *, work: Callable[[Pairs], tuple[Column, ...]], n_columns: int
) -> tuple[Column, ...]:
    """Return a public refusal, or none, and the columns that the work returns."""
    try:
        return NO_REFUSAL, *work(pairs)
    except InputError as error:
        return np.array([str(error)]), *[np.zeros(0)] * n_columns


# ---- plans ----


def choose_cells(pairs: Pairs, *, recipe: CellRecipe) -> tuple[NDArray[np.str_]]:
    """Return the choice of each cell; cells of the same counts share theirs."""
    known: dict[bytes, str] = {}
    choices = []
    for _, cell in recipe.cells(pairs):
        counts = cell.counts.tobytes()
        if counts not in known:
            known[counts] = recipe.mechanism.choose(cell, recipe.epsilon)
        choices.append(known[counts])
    return (np.array(choices, dtype=np.str_),)


def map_plans(
    pairs: Pairs, *, choices: NDArray[np.str_], recipe: CellRecipe, work: PlanWork
) -> tuple[Column, ...]:
    """Return the columns that a function makes of the plans of all cells."""
    return work((plan for _, plan in recipe.plans(pairs, choices)), pairs.own(choices).tolist())


def pair_losses(plan: CellAllocation, kind: str) -> Floats:
    """Return the losses of a cell's users: `LOSS`, `CLAIM`, or those by the stages of a name."""
    if kind == LOSS:
        return plan.losses()
    if kind == CLAIM:
        losses = plan.losses()
        return np.where(losses > 0, losses.max(), 0.0)
    total = np.zeros(plan.cell.counts.size)
    for stage in plan.stages:
        if stage.name == kind:
            total += stage.losses()
    return total


def sum_losses(
    pairs: Pairs,
    *,
    choices: NDArray[np.str_],
    recipe: CellRecipe,
    kinds: tuple[str, ...],
    parts: LossParts,
    users: tuple[int, int],
) -> tuple[Ints, ...]:
    """Return the users of a run that are in a block, and sums of their losses in parts by kind.

    A run is the first user, and the one after the last.
    """
    terms = np.zeros((len(kinds), pairs.user.size), dtype=np.int64)
    for rows, plan in recipe.plans(pairs, choices):
        for row, kind in zip(terms, kinds, strict=True):
            row[rows] = parts.rounded_up(pair_losses(plan, kind))
    return _sums_of_users(pairs, terms, users)


def _sums_of_users(pairs: Pairs, terms: Ints, users: tuple[int, int]) -> tuple[Ints, ...]:
    rows = np.flatnonzero((pairs.user >= users[0]) & (pairs.user < users[1]))
    numbers, position = np.unique(pairs.user[rows], return_inverse=True)
    sums = np.zeros((len(terms), numbers.size), dtype=np.int64)
    for total, row in zip(sums, terms, strict=True):
        np.add.at(total, position, row[rows])
    # In 32 bits where the numbers of users fit: fewer bytes travel.
    return numbers.astype(np.int32) if pairs.n_users < 2**31 else numbers, *sums


# ---- stages ----


def stage_name(number: int) -> str:
    """Return the name of a stage's row."""
    return f"stage {number}"


def stage_requests(
    pairs: Pairs,
    *,
    choices: NDArray[np.str_],
    tables: tuple[Ints, ...],
    recipe: CellRecipe,
    number: int,
) -> tuple[NDArray[np.bool_], Floats]:
    """Return the noise of a stage of all cells: whether each is a private choice, and its scale.

    Parameters
    ----------
    pairs : Pairs
    choices : ndarray of str, shape (n_cells,)
    tables : tuple of ndarray of int64, shape (n_cells, most entries)
        Outputs of each earlier stage.
    recipe : CellRecipe
    number : int
        Of the stage.
    """
    selects, scales = [], []
    for _, plan, outputs in _with_outputs(pairs, choices, tables, recipe, number):
        for request in plan.stages[number].noise(outputs):
            selects.append(isinstance(request, NoisyMax))
            scales.append(_scale(request))
    return np.array(selects, dtype=bool), np.array(scales, dtype=np.float64)


def _scale(request: NoiseRequest) -> float:
    if isinstance(request, NoisyMax):
        return request.scale
    if isinstance(request, LaplaceNoise) and request.scales.size == 1:
        return float(request.scales.ravel()[0])
    raise TypeError("a stage of one cell asks for discrete Laplace noise of single numbers.")


def single_request(selects: bool, scale: float) -> NoiseRequest:
    """Return the request for a private choice, or for the noise of one number."""
    return NoisyMax(scale) if selects else LaplaceNoise(np.array([scale]))


def sum_moves(  # noqa: PLR0913  what blocks are given, by name
    pairs: Pairs,
    *,
    choices: NDArray[np.str_],
    selects: NDArray[np.bool_],
    scales: Floats,
    tables: tuple[Ints, ...],
    recipe: CellRecipe,
    number: int,
    parts: LossParts,
    users: tuple[int, int],
) -> tuple[Ints, ...]:
    """Return the users of a run that are in a block, and their losses by a stage, rounded down.

    Noise is that which each cell's numbers will get, in tables with a row per cell.
    """
    terms = np.zeros((1, pairs.user.size), dtype=np.int64)
    for rows, plan, outputs in _with_outputs(pairs, choices, tables, recipe, number):
        cell = int(pairs.cell[rows.start])
        for entry, report in enumerate(plan.stages[number].sensitivity(outputs)):
            request = single_request(bool(selects[cell, entry]), float(scales[cell, entry]))
            losses = report.loss_lower_bound(request, rows.stop - rows.start)
            terms[0, rows] += parts.rounded_down(losses)
    return _sums_of_users(pairs, terms, users)


def measured_integers(
    pairs: Pairs,
    sums: PairSums,
    *,
    choices: NDArray[np.str_],
    tables: tuple[Ints, ...],
    recipe: CellRecipe,
    number: int,
) -> Ints:
    """Return the integers of a stage of all cells, one after another. PRIVATE.

    A sum is its integer. Scores are how many there are, then the scores, then the candidates of
    each run; where each run is one candidate the number is negative and no candidates follow.
    """
    integers: list[Ints] = []
    for rows, plan, outputs in _with_outputs(pairs, choices, tables, recipe, number):
        for measured in plan.stages[number].measure(PrivateSums(sums.total[rows]), outputs):
            integers += _encoded(measured)
    return np.concatenate(integers) if integers else np.zeros(0, dtype=np.int64)


def _encoded(measured: Values | Scores) -> list[Ints]:
    if isinstance(measured, Values):
        return [measured.integers[0]]
    scores, sizes = measured.scores[0], measured.sizes[0]
    if (sizes == 1).all():
        return [np.array([-scores.size]), scores]
    return [np.array([scores.size]), scores, sizes]


def estimated_cells(
    pairs: Pairs,
    *,
    choices: NDArray[np.str_],
    tables: tuple[Ints, ...],
    recipe: CellRecipe,
) -> tuple[Column, ...]:
    """Return estimates in quanta, and released choices: quantity, both ends and scale.

    The quantity is empty where nothing was chosen.
    """
    estimates, names, numbers = [], [], []
    for _, plan, outputs in _with_outputs(pairs, choices, tables, recipe, None):
        estimates.append(float(plan.estimate(outputs)[0]))
        released = plan.released_range(outputs)
        names.append("" if released is None else released.quantity)
        numbers.append(_ends(released))
    ends = np.array(numbers, dtype=np.float64).T
    return np.array(estimates), np.array(names, dtype=np.str_), *ends


def _ends(released: ReleasedRange | None) -> tuple[float, float, float]:
    if released is None:
        return np.nan, np.nan, np.nan
    return released.lower, released.upper, released.scale


def _with_outputs(
    pairs: Pairs,
    choices: NDArray[np.str_],
    tables: tuple[Ints, ...],
    recipe: CellRecipe,
    number: int | None,
) -> Iterator[tuple[slice, CellAllocation, Outputs]]:
    """Yield the plans that have a stage of this number (all, without one), with earlier outputs."""
    for cell, (rows, plan) in enumerate(recipe.plans(pairs, choices)):
        if number is not None and len(plan.stages) <= number:
            continue
        outputs = Outputs()
        for stage, table in zip(plan.stages, tables, strict=False):
            own_row = table[pairs.first + cell, : stage.entries][None]
            outputs = outputs.extended(stage.name, stage.entries, own_row)
        yield rows, plan, outputs


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
