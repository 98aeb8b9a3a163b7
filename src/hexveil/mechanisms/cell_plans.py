"""Questions to blocks of whole cells: plans of cells from their counts, and integers of their sums.

A block has all pairs of its cells, so that it makes a cell's plan from the counts wherever it is,
by the same functions: whatever follows from the plan is the same to the last bit. Plans have arrays
of all users of a cell: elsewhere they are made again for each question, and numbers of cells, or
sums over a block for each user, leave it; in memory they are kept.

Every question but `measured_integers` is about public facts. A refusal by them travels as an
answer, since an engine may hide the words of a task that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.moves import LossParts
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.private_quantile import PrivateQuantile
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, NoiseRequest, NoisyMax
from hexveil.mechanisms.single_cell.cell_allocation import BoundedStage, CellAllocation, CellProblem
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, ProvenError, Values
from hexveil.model.occupancy import Pairs
from hexveil.model.pair_bins import PairSums

Column = NDArray[Any]
Columns = tuple[Column, ...]
PlanWork = Callable[[Iterator[CellAllocation], Sequence[str]], Columns]
KeptPlans = dict[int, list[CellAllocation]]


LOSS, CLAIM = "loss", "claim"
"""Losses of pairs, and what counting cells claims: a cell's largest loss for all that lose any."""
NO_REFUSAL = np.zeros(0, dtype=np.str_)


@dataclass(frozen=True, eq=False)
class CellPlans:
    """Facts of all cells, from which a block makes the plans of its own.

    Attributes
    ----------
    mechanism : CellMechanism
    lower, quantum : Fraction
    span : int
        See `MapProblem`.
    epsilon : Fraction
        Loss of every cell.
    choices : ndarray of str, shape (n_cells,)
        Of each cell, by predicted errors: see `CellMechanism.choose`; none before they are made.
    outputs : tuple of ndarray of int64, shape (n_cells, most entries)
        Of each earlier stage: a row per cell.
    kept : dict or None
        Plans of each block, by its first cell, of pairs in memory.
    """

    mechanism: CellMechanism
    lower: Fraction
    quantum: Fraction
    span: int
    epsilon: Fraction
    choices: NDArray[np.str_] = field(default_factory=NO_REFUSAL.copy)
    outputs: tuple[Ints, ...] = ()
    kept: KeptPlans | None = None

    def cells(self, pairs: Pairs) -> Iterator[CellProblem]:
        """Yield each cell's public facts."""
        for begin, end in pairwise(pairs.start.tolist()):
            yield CellProblem(pairs.n[begin:end], self.lower, self.quantum, self.span)

    def of(self, pairs: Pairs) -> Iterator[tuple[slice, CellAllocation]]:
        """Yield each cell's pairs and plan; elsewhere one at a time."""
        plans: Iterable[CellAllocation] = self._plans(pairs)
        if self.kept is not None:
            if pairs.first not in self.kept:
                self.kept[pairs.first] = list(plans)
            plans = self.kept[pairs.first]
        return zip((slice(*ends) for ends in pairwise(pairs.start.tolist())), plans, strict=True)

    def _plans(self, pairs: Pairs) -> Iterator[CellAllocation]:
        choices = pairs.own(self.choices).tolist()
        for cell, choice in zip(self.cells(pairs), choices, strict=True):
            yield self.mechanism.allocate_chosen(cell, self.epsilon, choice)

    def with_outputs(self, pairs: Pairs) -> Iterator[tuple[slice, CellAllocation, Outputs]]:
        """Yield the same with earlier outputs, under the names of each cell's own stages."""
        for cell, (rows, plan) in enumerate(self.of(pairs), pairs.first):
            outputs = Outputs()
            for stage, table in zip(plan.stages, self.outputs, strict=False):
                row = table[cell, : stage.entries][None]
                outputs = outputs.extended(stage.name, stage.entries, row)
            yield rows, plan, outputs

    def next_stages(self, pairs: Pairs) -> Iterator[tuple[slice, CellAllocation, Outputs]]:
        """Yield those of cells that have a stage after the outputs."""
        for rows, plan, outputs in self.with_outputs(pairs):
            if len(plan.stages) > len(self.outputs):
                yield rows, plan, outputs


def with_refusal(
    pairs: Pairs, *, work: Callable[[Pairs], Columns], n_columns: int
) -> tuple[Column, ...]:
    """Return a public refusal, or none, and the columns that the work returns."""
    try:
        return NO_REFUSAL, *work(pairs)
    except InputError as error:
        return np.array([str(error)]), *[np.zeros(0)] * n_columns


# ---- plans ----


def choose_cells(pairs: Pairs, *, plans: CellPlans) -> Columns:
    """Return the choice of each cell; cells of the same counts share theirs."""
    known: dict[bytes, str] = {}
    choices = []
    for cell in plans.cells(pairs):
        counts = cell.counts.tobytes()
        if counts not in known:
            known[counts] = plans.mechanism.choose(cell, plans.epsilon)
        choices.append(known[counts])
    return (np.array(choices, dtype=np.str_),)


def map_plans(pairs: Pairs, *, plans: CellPlans, work: PlanWork) -> Columns:
    """Return the columns that a function makes of the plans of all cells."""
    return work((plan for _, plan in plans.of(pairs)), pairs.own(plans.choices).tolist())


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
    plans: CellPlans,
    kinds: tuple[str, ...],
    parts: LossParts,
) -> Columns:
    """Return the users of a block, and sums of their losses in parts by kind."""
    terms = np.zeros((len(kinds), pairs.user.size), dtype=np.int64)
    for rows, plan in plans.of(pairs):
        for row, kind in zip(terms, kinds, strict=True):
            row[rows] = parts.rounded_up(pair_losses(plan, kind))
    return _sums_of_users(pairs, terms)


def _sums_of_users(pairs: Pairs, terms: Ints) -> Columns:
    numbers, position = np.unique(pairs.user, return_inverse=True)
    sums = np.zeros((len(terms), numbers.size), dtype=np.int64)
    for total, row in zip(sums, terms, strict=True):
        np.add.at(total, position, row)
    # In 32 bits where the numbers of users fit: fewer bytes travel.
    return numbers.astype(np.int32) if pairs.n_users < 2**31 else numbers, *sums


# ---- stages ----


def stage_requests(pairs: Pairs, *, plans: CellPlans) -> tuple[Bools, Floats]:
    """Return the noise of the next stage: whether each number is a private choice, and scales."""
    selects, scales = [], []
    for _, plan, outputs in plans.next_stages(pairs):
        for request in plan.stages[len(plans.outputs)].noise(outputs):
            selects.append(isinstance(request, NoisyMax))
            scales.append(_scale(request))
    return np.array(selects, dtype=bool), np.array(scales, dtype=np.float64)


def _scale(request: NoiseRequest) -> float:
    if isinstance(request, NoisyMax):
        return request.scale
    if isinstance(request, LaplaceNoise) and request.scales.size == 1:
        return float(request.scales.ravel()[0])
    raise TypeError("a stage of one cell asks for discrete Laplace noise of single numbers.")


def sum_moves(
    pairs: Pairs,
    *,
    plans: CellPlans,
    selects: Bools,
    scales: Floats,
    parts: LossParts,
) -> Columns:
    """Return the users of a block, and their losses by a stage, rounded down.

    Noise is that which each cell's numbers will get, in tables with a row per cell.
    """
    terms = np.zeros((1, pairs.user.size), dtype=np.int64)
    for rows, plan, outputs in plans.next_stages(pairs):
        cell = int(pairs.cell[rows.start])
        for entry, report in enumerate(plan.stages[len(plans.outputs)].sensitivity(outputs)):
            scale = float(scales[cell, entry])
            request = NoisyMax(scale) if selects[cell, entry] else LaplaceNoise(np.array([scale]))
            losses = report.loss_lower_bound(request, rows.stop - rows.start)
            terms[0, rows] += parts.rounded_down(losses)
    return _sums_of_users(pairs, terms)


def measured_integers(pairs: Pairs, sums: PairSums, *, plans: CellPlans) -> Ints:
    """Return the integers of the next stage of all cells, one after another. PRIVATE.

    A sum is its integer. Scores are how many there are, then the scores, then the candidates of
    each run; where each run is one candidate the number is negative and no candidates follow.
    """
    integers: list[Ints] = [np.zeros(0, dtype=np.int64)]
    for rows, plan, outputs in plans.next_stages(pairs):
        own = PrivateSums(sums.total[rows])
        for measured in plan.stages[len(plans.outputs)].measure(own, outputs):
            if isinstance(measured, Values):
                integers.append(measured.integers[0])
                continue
            scores, sizes = measured.scores[0], measured.sizes[0]
            is_plain = bool((sizes == 1).all())
            integers += [np.array([-scores.size if is_plain else scores.size]), scores]
            integers += [] if is_plain else [sizes]
    return np.concatenate(integers)


def estimated_cells(pairs: Pairs, *, plans: CellPlans) -> Columns:
    """Return estimates in quanta, and released choices: quantity, both ends and scale.

    The quantity is empty where nothing was chosen.
    """
    estimates, names, numbers = [], [], []
    for _, plan, outputs in plans.with_outputs(pairs):
        estimates.append(float(plan.estimate(outputs)[0]))
        one = plan.released_range(outputs)
        names.append("" if one is None else one.quantity)
        numbers.append((np.nan,) * 3 if one is None else (one.lower, one.upper, one.scale))
    ends = np.array(numbers, dtype=np.float64).T
    return np.array(estimates), np.array(names, dtype=np.str_), *ends


# ---- figures ----


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
        Where estimates can lie, in quanta; no numbers where on a curve of integers.
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
    proven: Bools
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


def figure_columns(plans: Iterable[CellAllocation], choices: Sequence[str]) -> Columns:  # noqa: ARG001  as of all functions of plans
    """Return the columns of `CellFigures` for these plans, in the order of its fields."""
    numbers, counts = [], []
    stages: list[BoundedStage] = []
    for plan in plans:
        error, grid = plan.error(1.0), plan.grid()
        is_proven = isinstance(error, ProvenError)
        bias = float(error.bias[0]) if isinstance(error, ProvenError) else 1.0
        ends = (np.nan,) * 2 if grid is None else (float(grid.start[0]), float(grid.step[0]))
        numbers.append((float(error.scale[0]), bias, float(error.bound95[0]), is_proven, *ends))
        # A public number; 0 of a sum.
        scores = (
            stage.entries * stage.candidates.size
            for stage in plan.stages
            if isinstance(stage, PrivateQuantile)
        )
        counts.append((max(scores, default=0), len(plan.stages)))
        stages += plan.stages
    scale, bias_column, bound95, proven, start, step = np.array(numbers, dtype=np.float64).T
    entries = np.array([stage.entries for stage in stages], dtype=np.int64)
    names = np.array([stage.name for stage in stages], dtype=np.str_)
    found = (scale, bias_column, bound95, proven.astype(bool), start, step)
    return *found, *np.array(counts, dtype=np.int64).T, entries, names
