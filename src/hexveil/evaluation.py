"""Mechanisms of one cell compared by simulation: `evaluate`, and distributions of values.

The noise is simulated floating-point noise, for study only: nothing here is a release. Values are
drawn (nothing private), handed in, or those of a cell of own records; then the table is as private
as the records are, and says so in its metadata (`own`). Drawn samples are projected to the bounds
one by one, and only then averaged per user. The plainest distributions are priors, too, and live
with the mechanisms that choose by them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_bounds, to_positive_fraction
from hexveil.mechanisms import CellMechanism
from hexveil.mechanisms.priors import (
    Normal,
    PerUser,
    Uniform,
    UnknownRange,
    ValueDistribution,
    check_values,
    draw_user_means,
    numbers_per_trial,
)
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell import CellPlan
from hexveil.model.public_metadata import PublicMetadata
from hexveil.records.dataset import Dataset
from hexveil.simulation.own_cells import CellSelector, own_cell, stamped

__all__ = ["Heterogeneous", "Normal", "PerUser", "Uniform", "UnknownRange", "evaluate"]

Chunks = Iterator[tuple[Floats, int]]
Progress = Callable[[float], None]


_CHUNK = 100_000
"""User means that a mechanism is handed at once: 0.8 MB, which a processor's cache holds."""
_TRIALS = 1_000_000
"""Trials of one set of user means at once: 8 MB."""
_MOST = 10**8
"""Numbers of one trial: 800 MB."""


@dataclass(frozen=True, eq=False, repr=False)
class _Setting:
    """Counts, bounds, and where the values of a trial come from."""

    counts: Ints
    bounds: tuple[Fraction, Fraction]
    source: Floats | ValueDistribution
    private: bool = False

    def chunks(self, trials: int, seed: int) -> Chunks:
        """Yield user means, of all trials or a row for each, with the number of trials."""
        if isinstance(self.source, np.ndarray):
            for start in range(0, trials, _TRIALS):
                yield self.source, min(_TRIALS, trials - start)
            return
        # Stream 0 draws values, streams [seed, 1, i] draw noise: no mechanism changes another's.
        generator = np.random.default_rng([seed, 0])
        # A whole number of trials, so that a chunk never splits one.
        step = max(1, _CHUNK // self.counts.size)
        bounds = float(self.bounds[0]), float(self.bounds[1])
        for start in range(0, trials, step):
            size = min(step, trials - start)
            yield draw_user_means(self.source, self.counts, bounds, generator, size), size


def evaluate(  # noqa: PLR0913  the public signature; all but the first by name
    mechanisms: Sequence[CellMechanism],
    *,
    counts: ArrayLike | None = None,
    user_means: ArrayLike | None = None,
    values: ValueDistribution | None = None,
    data: Dataset | None = None,
    cell: CellSelector = None,
    bounds: object = None,
    epsilons: Sequence[Number],
    trials: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> pa.Table:
    """Return each mechanism's mean absolute error against the mean of the cell's samples.

    Give `counts`, `bounds` and either `user_means` or `values`; or `data` and `cell`, which are
    then compared on their own values, or with `values` on simulated ones at their public counts.

    Parameters
    ----------
    mechanisms : sequence of CellMechanism
        Mechanisms to compare.
    counts : array_like of int, shape (n_users,), optional
        Samples per user. Public.
    user_means : array_like of float, shape (n_users,), optional
        Values that stay the same in every trial.
    values : Normal, Uniform or alike, optional
        Values redrawn in every trial, the same for all mechanisms.
    data : Dataset, optional
        Own records.
    cell : str or int, optional
        A cell of `data`: its name, like "88608b0b31fffff/07:00", or its number from 0. Not needed
        where there is one cell.
    bounds : pair of numbers, optional
        Of a value; `data` has its own.
    epsilons : sequence of numbers
        Losses to compare at.
    trials : int
        At least 2.
    seed : int
        The same seed gives the same table.
    progress : callable, optional
        Receives the completed share of the work, from 0 to 1.

    Returns
    -------
    pyarrow.Table
        mechanism, epsilon, mae, standard_error, trials. In value units.

    Raises
    ------
    InputError
        On an argument that is not as described.

    Privacy
    -------
    With `data` and without `values` the table is computed from private values, has no protection,
    and carries the entry hexveil.private in its schema's metadata. With `user_means` it is as
    private as these are. Otherwise only public counts are read. Choices made from a table of own
    values on the records to be released are not covered by the guarantee.

    Examples
    --------
    >>> import hexveil as hv
    >>> table = evaluate([hv.mechanisms.Baseline()], counts=[2, 1, 1], user_means=[20, 30, 40],
    ...                  bounds=(0, 65), epsilons=[1], trials=1000)
    >>> abs(table["mae"][0].as_py() - 65 * 2 / 4) < 5 * table["standard_error"][0].as_py()
    True
    """
    options: dict[str, Any] = {
        "counts": counts,
        "bounds": bounds,
        "user_means": user_means,
        "values": values,
    }
    _check_size(mechanisms, epsilons, trials, seed)
    if data is None and cell is not None:
        raise InputError("cell needs data: pass the data set of the cell, or omit cell.")
    setting = _simulated(**options) if data is None else _of_records(data, cell, **options)
    tell = progress or (lambda _: None)
    rows = [
        (mechanism, to_positive_fraction(epsilon, "epsilon"))
        for mechanism in mechanisms
        for epsilon in epsilons
    ]
    plans = []
    for mechanism, epsilon in rows:
        plans.append(mechanism.plan(setting.counts, bounds=setting.bounds, epsilon=epsilon))
        tell(0.0)
    mae, error = _mean_errors(plans, setting, trials, seed, tell)
    table = pa.table(
        {
            "mechanism": [mechanism.name for mechanism, _ in rows],
            "epsilon": [float(epsilon) for _, epsilon in rows],
            "mae": mae,
            "standard_error": error,
            "trials": [trials] * len(rows),
        }
    )
    return stamped(table) if setting.private else table


def _check_size(
    mechanisms: Sequence[CellMechanism], epsilons: Sequence[Number], trials: int, seed: int
) -> None:
    for name, values in (("mechanisms", mechanisms), ("epsilons", epsilons)):
        # Text has a length, too, and would be taken letter by letter.
        if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
            raise InputError(f"{name} must be a list of at least one, got {values or 'none'}.")
    for name, number, minimum in (("trials", trials, 2), ("seed", seed, 0)):
        is_integer = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
        if not is_integer or number < minimum:
            raise InputError(
                f"{name} must be a whole number of at least {minimum}, got {number!r}."
            )


def _simulated(counts: Any, user_means: Any, values: Any, bounds: object) -> _Setting:  # noqa: ANN401  any argument of a caller
    """Return a setting without records."""
    if counts is None or bounds is None:
        raise InputError("evaluate needs counts and bounds, or data and a cell of it.")
    if (user_means is None) == (values is None):
        raise InputError("evaluate needs either user_means or values; give exactly one of them.")
    sizes, pair = check_counts(counts), to_bounds(bounds)
    if values is not None:
        return _Setting(sizes, pair, _drawable(values, sizes))
    return _Setting(sizes, pair, _means(user_means, sizes, pair))


def _means(user_means: ArrayLike | None, counts: Ints, bounds: tuple[Fraction, Fraction]) -> Floats:
    """Return user means as an array; a message shows none of them."""
    lower, upper = map(float, bounds)
    try:
        means = np.asarray(user_means, dtype=np.float64)
    except (TypeError, ValueError):
        means = np.empty(0)
    if means.shape != counts.shape or not ((means >= lower) & (means <= upper)).all():
        raise InputError("user_means needs one number per count, each within the bounds.")
    return means


def _of_records(data: Dataset, cell: CellSelector, values: Any, **other: object) -> _Setting:  # noqa: ANN401  any argument of a caller
    """Return a setting of a cell of records: its own values, or simulated ones at its counts."""
    for name, value in other.items():
        if value is not None:
            raise InputError(f"data and {name} cannot be combined: the records have their own.")
    if not isinstance(data.public, PublicMetadata):
        raise InputError(
            'evaluate compares one cell of one value column with protect="values"; of several '
            'columns name one, data.datasets["pm25"], at its part of epsilon, '
            'plan.plans["pm25"].requested_epsilon.'
        )
    private_cell = own_cell(data, cell)
    public = private_cell.counts, private_cell.bounds
    if values is not None:
        return _Setting(*public, _drawable(values, private_cell.counts))
    return _Setting(*public, private_cell.user_means, private=True)


def _drawable(values: ValueDistribution, counts: Ints) -> ValueDistribution:
    """Return the distribution, if one trial of its numbers fits into memory."""
    check_values(values, "values")
    numbers = numbers_per_trial(values, counts)
    if numbers > _MOST:
        raise InputError(
            f"the cell needs {numbers:,} values a trial, more than the {_MOST:,} that can be drawn "
            "at once; give user_means instead."
        )
    return values


def _mean_errors(
    plans: list[CellPlan], setting: _Setting, trials: int, seed: int, tell: Progress
) -> tuple[Floats, Floats]:
    """Return mean and standard error of |estimate - true mean| of each plan.

    All plans run on the same sums, so that what several of them read is computed once. Chunks are
    merged by their mean and their sum of squares about it, so that memory does not grow with the
    trials and nothing is lost to rounding.
    """
    generators = [np.random.default_rng([seed, 1, i]) for i in range(len(plans))]
    # The target is the mean of all samples, in which a user weighs by its count.
    share = setting.counts / setting.counts.sum()
    mean, squares = np.zeros(len(plans)), np.zeros(len(plans))
    n_done = 0
    for means, size in setting.chunks(trials, seed):
        sums, truth = plans[0].cell.sums(means), means @ share
        for i, (plan, generator) in enumerate(zip(plans, generators, strict=True)):
            estimates = plan.estimates(sums, SimulatedNoise(generator, size))
            # A mechanism without noise has one estimate for all trials.
            errors = np.broadcast_to(np.abs(estimates - truth), (size,))
            # Chan's update of mean and squares: a plain sum of squares would cancel.
            chunk_mean = float(errors.mean())
            gap = chunk_mean - mean[i]
            mean[i] += gap * size / (n_done + size)
            squares[i] += float(((errors - chunk_mean) ** 2).sum()) + gap**2 * n_done * size / (
                n_done + size
            )
            tell((n_done + size * (i + 1) / len(plans)) / trials)
        n_done += size
    return mean, np.sqrt(squares / (trials - 1) / trials)


# ---- distributions of values ----


@dataclass(frozen=True)
class Heterogeneous:
    """Users of different levels: a user's samples are normal about its own level.

    Levels are normal, too, and drawn anew in every trial. A sample has the given mean and the
    standard deviation √(between² + within²).

    Parameters
    ----------
    mean : float
        Of the levels, in value units.
    between, within : float
        Standard deviation of the levels, and of a user's samples about its level.
    """

    mean: float
    between: float
    within: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, vars(self).values())) or min(self.between, self.within) < 0:
            raise InputError("Heterogeneous needs a finite mean and two deviations of at least 0.")

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples before projection: see `ValueDistribution.draw`."""
        levels = generator.normal(self.mean, self.between, (trials, counts.size))
        samples = generator.normal(0.0, self.within, (trials, int(counts.sum())))
        samples += np.repeat(levels, counts, axis=1)
        return samples
