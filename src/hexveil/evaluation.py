"""Mechanisms of one cell compared on known values: `evaluate`, and distributions of values.

Simulated values: no real record is involved. Samples are projected to the bounds one by one, and
only then averaged per user. The plainest distributions are priors, too, and live with the
mechanisms that choose by them. `mechanism` and `values` read them as a person writes them on a
command line; nothing is evaluated.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms import PRIORS, CellMechanism, parse
from hexveil.mechanisms.priors import Normal, PerUser, Uniform, UnknownRange, ValueDistribution
from hexveil.simulation.cell_evaluation import evaluate

__all__ = [
    "Drift",
    "Heterogeneous",
    "Normal",
    "PerUser",
    "StudentT",
    "Uniform",
    "UnknownRange",
    "evaluate",
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

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
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

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
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

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
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


_DISTRIBUTIONS: dict[str, type[Any]] = PRIORS | {kind.__name__: kind for kind in KINDS.values()}


def mechanism(text: str) -> CellMechanism:
    """Return the mechanism that is written as in a table, like "Levy(gamma=0.2)".

    A name alone has every option at its default; an option may be a distribution of a study.

    Raises
    ------
    InputError
        If there is no such mechanism or option, or an option's value is out of range.

    Examples
    --------
    >>> mechanism("Levy(gamma=0.2)"), mechanism("Baseline")
    (Levy(gamma=0.2), Baseline())
    """
    return parse(text, _DISTRIBUTIONS)


def values(text: str) -> ValueDistribution:
    """Return the distribution that is written as kind:number,..., like "normal:20,10".

    Raises
    ------
    InputError
        If there is no such kind, or its numbers are too few, too many or out of range.

    Examples
    --------
    >>> values("normal:20,10")
    Normal(mean=20.0, sd=10.0)
    """
    name, _, arguments = text.partition(":")
    kind = KINDS.get(name.strip().lower())
    if kind is None:
        raise InputError(f"values must be one of {', '.join(map(_form, KINDS))}, got {text!r}.")
    try:
        numbers = [float(number) for number in arguments.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(dataclasses.fields(kind)):
        raise InputError(f"values {text!r} must have the form {_form(name.strip().lower())}.")
    distribution: ValueDistribution = kind(*numbers)
    return distribution


def _form(name: str) -> str:
    fields = ",".join(field.name for field in dataclasses.fields(KINDS[name]))
    return f"{name}:{fields.upper()}"
