"""CLIP-USER: fewer cells per user, at no larger worst-case error.

Source: COMP Algorithm 1 and sections V-B, VI-A.3, as corrected by ERRATA 1 and 2.
Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts are public, so everything here costs no privacy.
Symbols of one cell: m samples of a user, N their sum, Γ contributed samples of a user, n their sum,
U the width of the bounds, ε the cell's loss for mean and variance together, half of it for each.

What is implemented where the paper leaves room:

- The error of a cell (eq. (13)) takes all of Proposition III.1 and Lemma III.3; eq. (12) prints
  only the branch N > 2m*, which is not private for a user of more than half a cell (ERRATA 4).
- Line 11 takes the least error (eq. (14) prints arg max); line 6 means the users of most cells;
  from the second stage on what was suppressed stays so, and the bias is against the original m.
- Algorithm 1 exempts no cell. In the paper's experiments (section VI-A.3) the cell of *smallest*
  initial error, arg min over cells of eq. (12), is left as it is, and so it is here. A user whose
  cells are used up but for the exempt one halts the run.
- A cell keeps its last user: Theorems IV.1 and IV.2 assume that some sample contributes. So K is
  at least 1.
- Errors that agree to a relative 1e-12 count as equal, between cells (the lower number is taken)
  and against E.
- With separate targets a cell's error is the larger share of its target; E is 1.

Every stage takes one cell from each user treated, so the users of the stage of degree d are those
who started with at least d cells, in the order of their numbers, and each of them has d left.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from hexveil.accounting.sensitivity import variance_share
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.model.occupancy import LocalOccupancy, Occupancy
from hexveil.model.pair_columns import SuppressedPairs

ErrorKind = Literal["sum", "separate"]
Unfinished = Literal["undo", "keep"]

TIE = 1e-12
"""Relative difference below which two errors are equal, as they would be in exact numbers."""


@dataclass(frozen=True)
class SuppressionStage:
    """One stage of CLIP-USER: every user of most cells loses one of them.

    Attributes
    ----------
    degree : int
        Cells of each of these users when the stage began.
    users : int
        Users of that degree.
    suppressed : int
        Users treated before the run halted; each lost one cell.
    finished : bool
        Whether all users were treated.
    """

    degree: int
    users: int
    suppressed: int
    finished: bool


@dataclass(frozen=True, eq=False)
class Suppression:
    """Result of CLIP-USER: the remaining occupancy and its errors.

    Attributes
    ----------
    occupancy : Occupancy
    suppressed : SuppressedPairs
        Pairs of which nothing contributes.
    degradation : int
        K, the most cells that a user still occupies: the loss is at most K ε (Proposition V.1).
    mean_errors, variance_errors : ndarray of float, shape (n_cells,)
        Bias against the original samples plus expected |noise|, in value units and squared.
    error : {"sum", "separate"}
        How the two were judged.
    bound : float or tuple of float
        E, or the targets of mean and variance.
    exempt : int or None
        The cell of smallest initial error, in which nobody was suppressed.
    stages : tuple of SuppressionStage
    """

    occupancy: LocalOccupancy
    suppressed: SuppressedPairs
    degradation: int
    mean_errors: Floats
    variance_errors: Floats
    error: ErrorKind
    bound: float | tuple[float, float]
    exempt: int
    stages: tuple[SuppressionStage, ...]

    @property
    def contributions(self) -> Ints:
        """Contributed samples of each (cell, user) pair at hand; 0 where suppressed."""
        return np.where(self.suppressed.of(self.occupancy), 0, self.occupancy.n)

    @property
    def errors(self) -> Floats | dict[str, Floats]:
        """Errors per cell: the sum of both, or each by the statistic's name."""
        if self.error == "sum":
            return self.mean_errors + self.variance_errors
        return {"mean": self.mean_errors, "variance": self.variance_errors}


def clip_user(
    occupancy: Occupancy,
    span: float,
    epsilon: Number,
    *,
    bound: float | None = None,
    error: ErrorKind = "sum",
    targets: tuple[float, float] | None = None,
    unfinished_stage: Unfinished = "undo",
) -> Suppression:
    """Users suppressed in cells, stage by stage, while no cell's error exceeds E.

    A stage takes the users of most cells in the order of their numbers and suppresses each in
    the cell whose error is then least (of equal ones the first); the run halts at the first user
    for whom this error is above E. The module says how the paper was read.

    Parameters
    ----------
    occupancy : Occupancy
        Of pairs at hand.
    span : float
        U, the width of the bounds, in value units.
    epsilon : int, str, Decimal, Fraction or float
        Loss of one cell, mean and variance together; the noise scales are 2 Δ/ε.
    bound : float, optional
        E, for error "sum"; by default the largest initial error over cells. A cell whose
        initial error is above it keeps that error unless suppression lowers it to the bound.
    error : {"sum", "separate"}
        COMP's sum, of value units and squared ones, or each on its own.
    targets : pair of float, optional
        For error "separate": largest error of the mean and of the variance, infinity where it
        does not matter; by default the largest initial ones over cells.
    unfinished_stage : {"undo", "keep"}
        What becomes of suppressions in the stage that was halted. They do not lower K.

    Raises
    ------
    InputError
        If the occupancy is empty, a number is not positive, a word is unknown, or bound and
        targets do not go with the kind of error.

    Examples
    --------
    >>> from hexveil import Occupancy
    >>> roads = Occupancy.from_dense([[1, 1], [9, 0], [9, 0], [0, 9], [0, 9]])
    >>> done = clip_user(roads, 1.0, 1, bound=3)
    >>> done.contributions.tolist(), done.degradation
    ([1, 9, 9, 0, 9, 9], 1)
    >>> done.stages[0]
    SuppressionStage(degree=2, users=1, suppressed=1, finished=True)
    """
    counts = occupancy.local()
    cell_loss = float(to_positive_fraction(epsilon, "epsilon"))
    width = float(to_positive_fraction(span, "span"))
    _check_words(error, unfinished_stage)
    if not counts.n_pairs:
        raise InputError("the occupancy is empty: CLIP-USER needs at least one cell.")
    # Errors are reported in value units; only the comparison is in shares of the targets.
    cell_error, all_cells = CellError.of(width, cell_loss, None), _whole_cells(counts)
    limits = _limits(cell_error.parts(*all_cells), error, bound, targets)
    shares = limits if isinstance(limits, tuple) else None
    measure = CellError.of(width, cell_loss, shares)
    untouched = _first_least(measure.errors(*all_cells))
    limit = 1.0 if isinstance(limits, tuple) else limits
    run = _SuppressionRun(counts, measure, limit, untouched)
    stages = tuple(run.stages())
    undone = stages[-1].suppressed if unfinished_stage == "undo" else 0
    gone = np.array(run.suppressed[: len(run.suppressed) - undone], dtype=np.int64)
    remaining = counts.n.copy()
    remaining[gone] = 0
    degree = counts.cells_per_user - np.bincount(counts.user[gone], minlength=counts.n_users)
    errors = cell_error.parts(*_remaining_cells(counts, remaining, gone))
    return Suppression(
        counts,
        SuppressedPairs.of_rows(counts, counts.cell[gone], counts.user[gone]),
        int(degree.max()),
        *errors,
        error,
        limits,
        untouched,
        stages,
    )


def initial_errors(occupancy: Occupancy, span: float, epsilon: Number) -> tuple[float, float]:
    """Return the largest errors of mean and variance over cells before anybody is suppressed."""
    measure = CellError.of(float(span), float(to_positive_fraction(epsilon, "epsilon")), None)
    mean, variance = measure.parts(*_whole_cells(occupancy))
    return float(mean.max()), float(variance.max())


def _check_words(error: str, unfinished_stage: str) -> None:
    words = {"error": (error, ErrorKind), "unfinished_stage": (unfinished_stage, Unfinished)}
    for name, (word, kinds) in words.items():
        if word not in (choices := get_args(kinds)):
            raise InputError(f'{name} must be "{choices[0]}" or "{choices[1]}", got {word!r}.')


def _whole_cells(occupancy: Occupancy) -> tuple[Ints, Ints, Ints]:
    """Return n, the largest Γ and N of each cell where all samples contribute."""
    records = occupancy.records_per_cell
    return records, occupancy.largest_count, records


def _remaining_cells(
    counts: LocalOccupancy, remaining: Ints, gone: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return n, the largest Γ and N of each cell once some pairs are suppressed."""
    records = counts.records_per_cell
    contributing = records.copy()
    np.subtract.at(contributing, counts.cell[gone], counts.n[gone])
    return contributing, np.maximum.reduceat(remaining, counts.start[:-1]), records


def _limits(
    initial: tuple[Floats, Floats],
    error: ErrorKind,
    bound: float | None,
    targets: tuple[float, float] | None,
) -> float | tuple[float, float]:
    """Return E, or the two targets."""
    mean, variance = initial
    if error == "sum":
        if targets is not None:
            raise InputError('targets go with error="separate"; give a bound for error="sum".')
        return float((mean + variance).max()) if bound is None else _above_zero(bound, "bound")
    if bound is not None:
        raise InputError('bound goes with error="sum"; give targets for error="separate".')
    if targets is None:
        return float(mean.max()), float(variance.max())
    if len(targets) != 2:
        raise InputError(f"targets must be a pair, of mean and variance, got {targets!r}.")
    mean_limit, variance_limit = (_above_zero(target, "each of the targets") for target in targets)
    if mean_limit == variance_limit == math.inf:
        raise InputError("at least one of the targets must be finite.")
    return mean_limit, variance_limit


def _above_zero(value: float, name: str) -> float:
    """Return a number above zero, or infinity, as a float."""
    return math.inf if value == math.inf else float(to_positive_fraction(value, name))


def _first_least(errors: Floats) -> int:
    """Return the position of the first error that is equal to the smallest."""
    return int(np.argmax(errors <= errors.min() * (1.0 + TIE)))


# ---- the stages ----


@dataclass(frozen=True)
class CellError:
    """Error of cells: bias and noise of mean and variance, added up or the larger of the two.

    Attributes
    ----------
    mean, mean_noise : float
        U and 2 U/ε, each divided by the mean's target if there is one.
    variance, variance_noise : float
        U² and 2 U²/ε, each divided by the variance's target if there is one.
    summed : bool
        COMP's sum, not the larger.
    """

    mean: float
    mean_noise: float
    variance: float
    variance_noise: float
    summed: bool

    @classmethod
    def of(cls, span: float, epsilon: float, targets: tuple[float, float] | None) -> "CellError":
        """Return the measure in km/h + (km/h)², or in shares of the two targets."""
        mean_target, variance_target = targets or (1.0, 1.0)
        # Where every cell has one record the variance is 0 without error, and so is its target.
        mean = span / mean_target
        variance = span * span / variance_target if variance_target else 0.0
        return cls(mean, 2 * mean / epsilon, variance, 2 * variance / epsilon, targets is None)

    def parts(self, n: Ints, t: Ints, total: Ints) -> tuple[Floats, Floats]:
        """Return the errors of mean and variance, one per (n, t, N)."""
        size = total.astype(np.float64)
        n_moved = np.where(total < 2 * n, n, total // 2)
        mean = self.mean * ((total - n) / size) + self.mean_noise * (t / n)
        bias = self.variance * (n_moved / size * ((total - n_moved) / size))
        return mean, np.asarray(bias + self.variance_noise * variance_share(t, n), dtype=float)

    def errors(self, n: Ints, t: Ints, total: Ints) -> Floats:
        """Return the error by which cells are compared, one per (n, t, N)."""
        mean, variance = self.parts(n, t, total)
        return mean + variance if self.summed else np.maximum(mean, variance)


class _SuppressionRun:
    """One execution: remaining records per cell, and the suppressed pairs in order."""

    def __init__(
        self, occupancy: LocalOccupancy, measure: CellError, limit: float, exempt: int
    ) -> None:
        self._occupancy, self._cells = occupancy, _RemainingCounts(occupancy)
        self._measure, self._limit = measure, limit * (1.0 + TIE)
        by_user = np.argsort(occupancy.user, kind="stable")
        self._pair = by_user[occupancy.cell[by_user] != exempt]
        self._is_left = np.ones(self._pair.size, dtype=np.bool_)
        user = occupancy.user[self._pair]
        self._start = np.searchsorted(user, np.arange(occupancy.n_users + 1)).tolist()
        self.suppressed: list[int] = []

    def stages(self) -> Iterator[SuppressionStage]:
        """Run and report the stages until one halts: at the latest, the last users of cells."""
        degree = self._occupancy.cells_per_user
        order = np.argsort(-degree, kind="stable")
        rising = -degree[order]
        for d in range(int(degree.max()), 0, -1):
            users = np.sort(order[: np.searchsorted(rising, -d, side="right")])
            treated = sum(1 for _ in itertools.takewhile(self._suppress, users.tolist()))
            yield SuppressionStage(d, users.size, treated, treated == users.size)
            if treated < users.size:
                return

    def _suppress(self, user: int) -> bool:
        """Suppress a user in its cheapest cell; return whether that is within the limit."""
        rows = slice(self._start[user], self._start[user + 1])
        position = self._start[user] + self._is_left[rows].nonzero()[0]
        pairs = self._pair[position]
        cell, count = self._occupancy.cell[pairs], self._occupancy.n[pairs]
        errors = self._cells.errors_without(cell, count, self._measure)
        smallest = errors.min(initial=math.inf)
        if smallest > self._limit or smallest == math.inf:
            return False
        cheapest = _first_least(errors)
        self._is_left[position[cheapest]] = False
        self._cells.suppress(*(int(column[cheapest]) for column in (cell, count, pairs)))
        self.suppressed.append(int(pairs[cheapest]))
        return True


class _RemainingCounts:
    """Remaining records of each cell, and of its two largest users.

    The two are pointers into the cell's sorted counts, which only move on.
    """

    def __init__(self, occupancy: LocalOccupancy) -> None:
        order = np.lexsort((-occupancy.n, occupancy.cell))
        self._place = np.argsort(order)
        self._counts, self._gone = occupancy.n[order], bytearray(order.size)
        self._first, self._end = occupancy.start[:-1].copy(), occupancy.start[1:]
        self._next = self._first + 1
        self._total, self._left = occupancy.records_per_cell, occupancy.records_per_cell.copy()
        self._top, self._second = occupancy.kth_largest(1), occupancy.kth_largest(2)

    def errors_without(self, cell: Ints, count: Ints, measure: CellError) -> Floats:
        """Return the error of each cell without a user of this count; a cell keeps its last one."""
        t = np.where(count == self._top[cell], self._second[cell], self._top[cell])
        errors = measure.errors(np.maximum(self._left[cell] - count, 1), t, self._total[cell])
        return np.where(t > 0, errors, np.inf)

    def suppress(self, cell: int, count: int, pair: int) -> None:
        """Take a user's samples out of a cell."""
        self._left[cell] -= count
        self._gone[self._place[pair]] = 1
        if count >= self._second[cell]:
            end = int(self._end[cell])
            largest = self._remaining_from(int(self._first[cell]), end)
            following = self._remaining_from(max(int(self._next[cell]), largest + 1), end)
            self._first[cell], self._next[cell] = largest, following
            self._top[cell] = self._counts[largest] if largest < end else 0
            self._second[cell] = self._counts[following] if following < end else 0

    def _remaining_from(self, place: int, end: int) -> int:
        """Return the first remaining place from one on."""
        while place < end and self._gone[place]:
            place += 1
        return place
