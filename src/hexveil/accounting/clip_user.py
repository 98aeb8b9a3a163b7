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
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

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
    bound: float | tuple[float, float] | None = None,
    error: ErrorKind = "sum",
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
    bound : float or pair of float, optional
        E; for error "separate" the largest error of the mean and of the variance, infinity where it
        does not matter. By default the largest initial error over cells, or errors. A cell whose
        initial error is above it keeps that error unless suppression lowers it to the bound.
    error : {"sum", "separate"}
        COMP's sum, of value units and squared ones, or each on its own.
    unfinished_stage : {"undo", "keep"}
        What becomes of suppressions in the stage that was halted. They do not lower K.

    Raises
    ------
    InputError
        If the occupancy is empty, a number is not positive, a word is unknown, or the bound does
        not go with the kind of error.

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
    for name, word, kinds in (
        ("error", error, ErrorKind), ("unfinished_stage", unfinished_stage, Unfinished),
    ):  # fmt: skip
        if word not in (choices := get_args(kinds)):
            raise InputError(f'{name} must be "{choices[0]}" or "{choices[1]}", got {word!r}.')
    cell_error = CellError.of(span, epsilon)
    if not counts.n_pairs:
        raise InputError("the occupancy is empty: CLIP-USER needs at least one cell.")
    cells = _whole_cells(counts)
    limits = _limits(cell_error.parts(*cells), error, bound)
    # Errors are reported in value units; only the comparison is in shares of the targets.
    targets = limits if isinstance(limits, tuple) else None
    measure = replace(cell_error, targets=targets)
    limit = 1.0 if isinstance(limits, tuple) else limits
    run = _SuppressionRun(counts, measure, limit, _first_least(measure.errors(*cells)))
    stages = tuple(run.stages())
    undone = stages[-1].suppressed if unfinished_stage == "undo" else 0
    gone = np.array(run.suppressed[: len(run.suppressed) - undone], dtype=np.int64)
    remaining, begin = counts.n.copy(), counts.start[:-1]
    remaining[gone] = 0
    degree = counts.cells_per_user - np.bincount(counts.user[gone], minlength=counts.n_users)
    left = np.add.reduceat(remaining, begin), np.maximum.reduceat(remaining, begin)
    return Suppression(
        counts,
        SuppressedPairs.of_rows(counts, counts.cell[gone], counts.user[gone]),
        int(degree.max()),
        *cell_error.parts(*left, counts.records_per_cell),
        error,
        limits,
        run.exempt,
        stages,
    )


def initial_errors(occupancy: Occupancy, span: float, epsilon: Number) -> tuple[float, float]:
    """Return the largest errors of mean and variance over cells before anybody is suppressed."""
    mean, variance = CellError.of(span, epsilon).parts(*_whole_cells(occupancy))
    return float(mean.max()), float(variance.max())


def _whole_cells(occupancy: Occupancy) -> tuple[Ints, Ints, Ints]:
    """Return n, the largest Γ and N of each cell where all samples contribute."""
    records = occupancy.records_per_cell
    return records, occupancy.largest_count, records


def _limits(initial: tuple[Floats, Floats], error: ErrorKind, bound: object) -> Any:  # noqa: ANN401  a number or two
    """Return E, or the targets of mean and variance."""
    if bound is None:
        if error == "sum":
            return float((initial[0] + initial[1]).max())
        return tuple(float(one.max()) for one in initial)
    given = tuple(bound) if isinstance(bound, (tuple, list)) else (bound,)
    if len(given) != (1 if error == "sum" else 2):
        raise InputError(f'bound must be a number for error "sum", else a pair, got {bound!r}.')
    limits = tuple(
        math.inf if one == math.inf else float(to_positive_fraction(one, "bound")) for one in given
    )
    if min(limits) == math.inf:
        raise InputError("a bound must be finite, of a pair at least one of the two.")
    return limits if error == "separate" else limits[0]


def _first_least(errors: Floats) -> int:
    """Return the position of the first error that is equal to the smallest."""
    return int(np.argmax(errors <= errors.min() * (1.0 + TIE)))


# ---- the stages ----


@dataclass(frozen=True)
class CellError:
    """Error of cells: bias and noise of mean and variance.

    Attributes
    ----------
    span, epsilon : float
    targets : pair of float, optional
        Of mean and variance: cells are then compared by the larger share of a target, else by
        COMP's sum.
    """

    span: float
    epsilon: float
    targets: tuple[float, float] | None = None

    @classmethod
    def of(cls, span: Number, epsilon: Number) -> "CellError":
        """Return the error by a width and a loss as written by a caller."""
        width, loss = to_positive_fraction(span, "span"), to_positive_fraction(epsilon, "epsilon")
        return cls(float(width), float(loss))

    def parts(self, n: Ints, t: Ints, total: Ints) -> tuple[Floats, Floats]:
        """Return the errors of mean and variance, one per (n, t, N)."""
        size, noise = total.astype(np.float64), 2.0 / self.epsilon
        n_moved = np.where(total < 2 * n, n, total // 2)
        mean = self.span * ((total - n) / size + noise * (t / n))
        bias = n_moved / size * ((total - n_moved) / size)
        return mean, np.asarray(self.span**2 * (bias + noise * variance_share(t, n)))

    def errors(self, n: Ints, t: Ints, total: Ints) -> Floats:
        """Return the error by which cells are compared, one per (n, t, N)."""
        mean, variance = self.parts(n, t, total)
        if self.targets is None:
            return mean + variance
        # Where every cell has one record the variance is 0 without error, and so is its target.
        return np.maximum(mean / self.targets[0], variance / (self.targets[1] or math.inf))


class _SuppressionRun:
    """One execution: remaining counts of each cell, ascending, and the suppressed pairs in order.

    A cell keeps its last user.
    """

    def __init__(
        self, occupancy: LocalOccupancy, measure: CellError, limit: float, exempt: int
    ) -> None:
        self._occupancy, self._measure, self.exempt = occupancy, measure, exempt
        self._limit, self._left = limit * (1.0 + TIE), occupancy.records_per_cell.copy()
        cells = np.split(occupancy.n, occupancy.start[1:-1])
        self._counts: list[list[int]] = [np.sort(counts).tolist() for counts in cells]
        by_user = np.argsort(occupancy.user, kind="stable")
        pairs = by_user[occupancy.cell[by_user] != exempt]
        edges = np.searchsorted(occupancy.user[pairs], np.arange(1, occupancy.n_users))
        self._pairs = np.split(pairs, edges)
        self.suppressed: list[int] = []

    def stages(self) -> Iterator[SuppressionStage]:
        """Run and report the stages until one halts: at the latest, the last users of cells."""
        degree = self._occupancy.cells_per_user
        for d in range(int(degree.max()), 0, -1):
            users = np.flatnonzero(degree >= d)
            treated = sum(1 for _ in itertools.takewhile(self._suppress, users.tolist()))
            yield SuppressionStage(d, users.size, treated, treated == users.size)
            if treated < users.size:
                return

    def _suppress(self, user: int) -> bool:
        """Suppress a user in its cheapest cell; return whether that is within the limit."""
        pairs = self._pairs[user]
        cell, count = self._occupancy.cell[pairs], self._occupancy.n[pairs]
        largest = [self._largest_without(*one) for one in zip(cell, count, strict=True)]
        t, total = np.array(largest, dtype=np.int64), self._occupancy.records_per_cell[cell]
        errors = self._measure.errors(np.maximum(self._left[cell] - count, 1), t, total)
        errors = np.where(t > 0, errors, np.inf)
        smallest = errors.min(initial=math.inf)
        if smallest > self._limit or smallest == math.inf:
            return False
        cheapest = _first_least(errors)
        counts, gone = self._counts[cell[cheapest]], int(count[cheapest])
        del counts[bisect_left(counts, gone)]
        self._left[cell[cheapest]] -= gone
        self._pairs[user] = np.delete(pairs, cheapest)
        self.suppressed.append(int(pairs[cheapest]))
        return True

    def _largest_without(self, cell: int, count: int) -> int:
        """Return the largest remaining count of a cell without a user of this count, or 0."""
        *_, second, first = 0, 0, *self._counts[cell][-2:]
        return second if count == first else first
