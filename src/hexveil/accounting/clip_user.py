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
- Algorithm 1 exempts no cell (`exempt="none"`). In the paper's experiments (section VI-A.3) the
  cell of *smallest* initial error, arg min over cells of eq. (12), is left as it is, and so it is
  unless asked otherwise; the cell of largest error, which sets E, may be suppressed in if that
  lowers its error or leaves it within E. So a user whose cells are used up but for the exempt one
  halts the run.
- A cell keeps its last user: Theorems IV.1 and IV.2 assume that some sample contributes. So K is
  at least 1.
- Errors that agree to a relative 1e-12 count as equal, as they would in exact numbers, both
  between cells (the lower number is taken) and against E.
- With separate targets the two errors are compared as shares of their targets: a cell's error is
  the larger share, E is 1.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from hexveil.accounting.suppression_stages import TIE, CellError, SuppressionRun, SuppressionStage
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.model.occupancy import LocalOccupancy, Occupancy
from hexveil.model.pair_columns import SuppressedPairs

ErrorKind = Literal["sum", "separate"]
Unfinished = Literal["undo", "keep"]
Exempt = Literal["smallest", "none"]


@dataclass(frozen=True, eq=False)
class Suppression:
    """Result of CLIP-USER: the remaining occupancy and its errors.

    Attributes
    ----------
    occupancy : Occupancy
    suppressed : SuppressedPairs
        Pairs of which nothing contributes.
    degradation : int
        K, the most cells that a user still occupies: the release loses at most K ε (COMP
        Proposition V.1; ERRATA 3 gives the loss itself).
    mean_errors, variance_errors : ndarray of float, shape (n_cells,)
        Bias against the original samples plus expected |noise|, in value units and squared.
    error : {"sum", "separate"}
        How the two were judged.
    bound : float or tuple of float
        E, or the targets of mean and variance.
    exempt : int or None
        The cell of smallest initial error, in which nobody was suppressed; None without one.
    stages : tuple of Stage
    """

    occupancy: LocalOccupancy
    suppressed: SuppressedPairs
    degradation: int
    mean_errors: Floats
    variance_errors: Floats
    error: ErrorKind
    bound: float | tuple[float, float]
    exempt: int | None
    stages: tuple[SuppressionStage, ...]

    @property
    def contributions(self) -> Ints:
        """Contributed samples of each (cell, user) pair at hand; 0 where suppressed."""
        return np.where(self.suppressed.of(self.occupancy), 0, self.occupancy.n)

    @property
    def contributing_pairs(self) -> Bools:
        """Whether each (cell, user) pair contributes."""
        return self.contributions > 0

    @property
    def errors(self) -> Floats | dict[str, Floats]:
        """Errors per cell: the sum of both, or each by the statistic's name."""
        if self.error == "sum":
            return self.mean_errors + self.variance_errors
        return {"mean": self.mean_errors, "variance": self.variance_errors}

    @property
    def max_error(self) -> float | dict[str, float]:
        """Largest error over cells, of the sum or by the statistic's name."""
        errors = self.errors
        if isinstance(errors, dict):
            return {name: float(per_cell.max()) for name, per_cell in errors.items()}
        return float(errors.max())


def clip_user(  # noqa: PLR0913  a public door: keyword-only
    occupancy: Occupancy,
    span: float,
    epsilon: Number,
    *,
    bound: float | None = None,
    error: ErrorKind = "sum",
    targets: tuple[float, float] | None = None,
    unfinished_stage: Unfinished = "undo",
    exempt: Exempt = "smallest",
) -> Suppression:
    """Users suppressed in cells, stage by stage, while no cell's error exceeds E.

    A stage takes the users of most cells in the order of their numbers and suppresses each in
    the cell whose error is then least (of equal ones the first); the run halts at the first user
    for whom this error is above E. The module says how the paper was read.

    Parameters
    ----------
    occupancy : Occupancy
        Public counts, of pairs at hand.
    span : float
        U, the width of the bounds, in value units.
    epsilon : int, str, Decimal, Fraction or float
        Loss of one cell, mean and variance together; the noise scales are 2 Δ/ε.
    bound : float, optional
        E, for error "sum"; by default the largest initial error over cells. A cell whose
        initial error is above it keeps that error unless suppression lowers it to the bound.
    error : {"sum", "separate"}
        COMP's sum of an error in value units and one in squared units, or each on its own.
    targets : pair of float, optional
        For error "separate": largest error of the mean and of the variance, infinity where it
        does not matter; by default the largest initial ones over cells.
    unfinished_stage : {"undo", "keep"}
        What becomes of suppressions in the stage that was halted. They do not lower K.
    exempt : {"smallest", "none"}
        Whether nobody is suppressed in the cell of smallest initial error, as in the paper's
        experiments, or every cell is treated alike, as in Algorithm 1.

    Returns
    -------
    Suppression

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
    _check_words(error, unfinished_stage, exempt)
    if not counts.n_pairs:
        raise InputError("the occupancy is empty: CLIP-USER needs at least one cell.")
    # Errors are reported in value units; only the comparison is in shares of the targets.
    cell_error, whole = CellError.of(width, cell_loss, None), _whole_cells(counts)
    limits = _limits(cell_error.parts(*whole), error, bound, targets)
    shares = limits if isinstance(limits, tuple) else None
    measure = CellError.of(width, cell_loss, shares)
    untouched = _exempt(measure.errors(*whole)) if exempt == "smallest" else None
    limit = 1.0 if isinstance(limits, tuple) else limits
    run = SuppressionRun(counts, measure, limit, untouched)
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


def _check_words(error: str, unfinished_stage: str, exempt: str) -> None:
    for name, word, choices in (
        ("error", error, get_args(ErrorKind)),
        ("unfinished_stage", unfinished_stage, get_args(Unfinished)),
        ("exempt", exempt, get_args(Exempt)),
    ):
        if word not in choices:
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
    left = records.copy()
    np.subtract.at(left, counts.cell[gone], counts.n[gone])
    return left, np.maximum.reduceat(remaining, counts.start[:-1]), records


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


def _exempt(errors: Floats) -> int:
    """Return the first cell of smallest error."""
    # Ties by a tolerance: which of two equal cells is exempt must not hang on the last bit.
    return int(np.argmax(errors <= errors.min() * (1.0 + TIE)))
