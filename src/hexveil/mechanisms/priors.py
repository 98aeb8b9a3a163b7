"""Priors of a cell's values: stated distributions to draw samples from.

Nothing here reads a record: a prior comes from outside the records, or from a release already
paid for. Samples are projected to the bounds one by one, and only then averaged per user.
`Normal`, `Uniform` and `UnknownRange` draw every sample by itself, so that the mean of a user with
many samples is close to everybody's; `PerUser` gives each user one value of its own.
"""

import math
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError

BLOCK = 500_000
"""Numbers drawn at once: 4 MB, which a processor's cache holds."""


class ValueDistribution(Protocol):
    """A distribution of the samples of a cell."""

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples before projection, user by user, each user's in order of time.

        Parameters
        ----------
        generator : numpy.random.Generator
        counts : ndarray of int64, shape (n_users,)
            Samples per user.
        trials : int

        Returns
        -------
        ndarray of float, shape (trials, counts.sum())
            A new array, which the caller may change.
        """


@dataclass(frozen=True)
class Normal:
    """Independent normal samples.

    Parameters
    ----------
    mean, sd : float
        In value units, before projection to the bounds.
    """

    mean: float
    sd: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.sd) and self.sd >= 0):
            raise InputError("Normal needs a finite mean and a finite sd of at least 0.")

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples before projection: see `ValueDistribution.draw`."""
        return generator.normal(self.mean, self.sd, (trials, int(counts.sum())))


@dataclass(frozen=True)
class _BetweenEnds:
    """Base of distributions between two numbers, or else over the bounds.

    Parameters
    ----------
    low, high : float, optional
        In value units, before projection to the bounds. Without both: the bounds themselves.
    """

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            return
        # One end alone is refused like one that is not a number.
        start, end = (math.nan if end is None else end for end in (self.low, self.high))
        if not (math.isfinite(start) and math.isfinite(end) and start <= end):
            raise InputError(
                f"{type(self).__name__} needs two finite numbers, the lower one first, or none."
            )

    def within(self, bounds: tuple[float, float]) -> Self:
        """Return itself, or without numbers of its own the distribution over the bounds."""
        return type(self)(*bounds) if self.low is None else self

    @property
    def ends(self) -> tuple[float, float]:
        """Both numbers."""
        if self.low is None or self.high is None:
            name = type(self).__name__
            raise InputError(f"{name}() draws within the bounds: name them by .within(bounds).")
        return self.low, self.high


class Uniform(_BetweenEnds):
    """Independent samples, uniform between `low` and `high`, value units; else over the bounds."""

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples before projection: see `ValueDistribution.draw`."""
        return generator.uniform(*self.ends, (trials, int(counts.sum())))


class UnknownRange(_BetweenEnds):
    """Independent samples, uniform between two ends that nobody knows.

    Both ends are drawn anew in every trial, uniform between `low` and `high`, value units, or else
    within the bounds. So a cell may be slow or fast, its samples alike or not.
    """

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples before projection: see `ValueDistribution.draw`."""
        start, end = generator.uniform(*self.ends, (2, trials, 1))
        # Scaled in place: the samples of a large cell are the largest array of a study.
        samples = generator.random((trials, int(counts.sum())))
        samples *= end - start
        samples += start
        return samples


@dataclass(frozen=True)
class PerUser:
    """One value for each user, which all its samples have.

    Users differ, and samples of one user are alike: this is the far end of it.

    Parameters
    ----------
    values : Normal, Uniform or UnknownRange
        Where the value of a user is drawn from.
    """

    values: ValueDistribution = field(default_factory=Uniform)

    def __post_init__(self) -> None:
        check_values(self.values, "PerUser")

    def within(self, bounds: tuple[float, float]) -> "PerUser":
        """Return itself with distributions that need to know the bounds told."""
        return PerUser(within_bounds(self.values, bounds))

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples before projection: see `ValueDistribution.draw`."""
        return np.repeat(self.levels(generator, counts.size, trials), counts, axis=1)

    def levels(self, generator: np.random.Generator, n_users: int, trials: int) -> Floats:
        """Return the value of each user in each trial, before projection."""
        return self.values.draw(generator, np.ones(n_users, dtype=np.int64), trials)


def check_values(values: ValueDistribution, owner: str) -> ValueDistribution:
    """Return the distribution; raise InputError if it cannot draw."""
    if not callable(getattr(values, "draw", None)):
        raise InputError(f"{owner} needs a distribution like Normal(20, 10), got {values!r}.")
    return values


def within_bounds(values: ValueDistribution, bounds: tuple[float, float]) -> ValueDistribution:
    """Return the distribution, with the bounds in place where it is over them."""
    return values.within(bounds) if isinstance(values, (_BetweenEnds, PerUser)) else values


def numbers_per_trial(values: ValueDistribution, counts: Ints) -> int:
    """Return how many numbers are drawn for the user means of one trial."""
    return counts.size if isinstance(values, PerUser) else int(counts.sum())


def draw_user_means(
    values: ValueDistribution,
    counts: Ints,
    bounds: tuple[float, float],
    generator: np.random.Generator,
    trials: int,
) -> Floats:
    """Return means of projected samples, shape (trials, n_users): drawn in blocks, by `BLOCK`."""
    values = within_bounds(values, bounds)
    starts = np.cumsum(counts) - counts
    means = np.empty((trials, counts.size))
    step = max(1, BLOCK // numbers_per_trial(values, counts))
    for begin in range(0, trials, step):
        rows = means[begin : begin + step]
        if isinstance(values, PerUser):  # the mean of equal samples is each of them
            rows[:] = np.clip(values.levels(generator, counts.size, len(rows)), *bounds)
        else:
            samples = values.draw(generator, counts, len(rows))
            np.clip(samples, *bounds, out=samples)
            rows[:] = np.add.reduceat(samples, starts, axis=1) / counts
    return means
