"""Simulated values of one cell, for studies: no real record is involved.

Samples are projected to the bounds one by one, and only then averaged per user. The plainest
distributions are priors, too, and live with the mechanisms that choose by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.priors import Normal, Uniform, ValueDistribution, draw_user_means

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "KINDS",
    "Drift",
    "Heterogeneous",
    "Normal",
    "StudentT",
    "Uniform",
    "ValueDistribution",
    "draw_user_means",
]


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
        _check_finite(self)
        if self.between < 0 or self.within < 0:
            raise InputError("Heterogeneous needs two standard deviations of at least 0.")

    def draw(
        self, generator: np.random.Generator, counts: NDArray[np.int64], trials: int
    ) -> NDArray[np.float64]:
        """Return samples before projection: see `ValueDistribution.draw`."""
        levels = generator.normal(self.mean, self.between, (trials, counts.size))
        samples = generator.normal(0.0, self.within, (trials, int(counts.sum())))
        samples += np.repeat(levels, counts, axis=1)
        return samples


@dataclass(frozen=True)
class StudentT:
    """Independent samples with heavy tails: centre + scale times Student's t.

    The mean is the centre; the standard deviation is scale √(degrees / (degrees - 2)). Fewer
    degrees are heavier tails.

    Parameters
    ----------
    centre, scale : float
        In value units, before projection to the bounds.
    degrees : float
        Of freedom, above 2.
    """

    centre: float
    scale: float
    degrees: float

    def __post_init__(self) -> None:
        _check_finite(self)
        if self.scale < 0 or self.degrees <= 2:
            raise InputError("StudentT needs a scale of at least 0 and more than 2 degrees.")

    def draw(
        self, generator: np.random.Generator, counts: NDArray[np.int64], trials: int
    ) -> NDArray[np.float64]:
        """Return samples before projection: see `ValueDistribution.draw`."""
        samples = generator.standard_t(self.degrees, (trials, int(counts.sum())))
        samples *= self.scale
        samples += self.centre
        return samples


@dataclass(frozen=True)
class Drift:
    """Samples about a level that moves in time, from one number to another.

    The users' j-th samples are taken at one moment, all moments as far apart: the level of the
    j-th of m* samples is start + (end - start) (j - 1)/(m* - 1), m* the largest count. A user of
    few samples has seen only the beginning, so its mean leans to the start.

    Parameters
    ----------
    start, end : float
        First and last level, in value units.
    sd : float
        Standard deviation of a sample about the level.
    """

    start: float
    end: float
    sd: float

    def __post_init__(self) -> None:
        _check_finite(self)
        if self.sd < 0:
            raise InputError("Drift needs a standard deviation of at least 0.")

    def draw(
        self, generator: np.random.Generator, counts: NDArray[np.int64], trials: int
    ) -> NDArray[np.float64]:
        """Return samples before projection: see `ValueDistribution.draw`."""
        total = int(counts.sum())
        # A sample's number among its user's: moments are the same for all users.
        first_record = np.repeat(np.cumsum(counts) - counts, counts)
        passed = (np.arange(total) - first_record) / max(int(counts.max()) - 1, 1)
        samples = generator.normal(0.0, self.sd, (trials, total))
        samples += self.start + (self.end - self.start) * passed
        return samples


KINDS: dict[str, type[Normal | Uniform | Heterogeneous | StudentT | Drift]] = {
    "normal": Normal,
    "uniform": Uniform,
    "heterogeneous": Heterogeneous,
    "student": StudentT,
    "drift": Drift,
}
"""Every distribution by its short name."""


def _check_finite(values: Heterogeneous | StudentT | Drift) -> None:
    for name, number in vars(values).items():
        if not math.isfinite(number):
            raise InputError(f"{type(values).__name__} needs a finite {name}, got {number}.")
