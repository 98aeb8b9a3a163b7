"""WC's two collections of counts, its samples, and simulated errors as curves over ε.

Source: WC section IV-B. Public and simulated: there are no records here.
What the paper leaves open: the values of ε, taken as 0.1, 0.2, ..., 2. N(U/2, U/4) is read as its
section II-A defines it, with the variance U/4 (a standard deviation of 4.0 km/h); then hardly a
sample is ever rejected, so that figure 3 has a second panel for the standard deviation U/4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.evaluation import evaluate
from hexveil.mechanisms import CellMechanism
from hexveil_research.papers.simultaneous_tests import Margins
from hexveil_research.papers.study import Line, Setting, Whose, line

SPAN = 65.0
"""U, in km/h."""
BOUNDS = (0, 65)
EPSILONS = tuple(f"{step / 10:g}" for step in range(1, 21))
X = np.array([float(epsilon) for epsilon in EPSILONS])
LEVELS = 6
"""M of the geometric collection."""
USERS, HEAVY = 101, 10
"""L and m* of the extreme-valued collection."""
ENDS = "95% interval of the simulation"
NORMAL = 1.96
"""Standard errors to each end of a 95% interval."""


def geometric(levels: int = LEVELS) -> Ints:
    """Return the geometric collection: 2^i users of 2^(M - i) samples each, for i from 0 to M.

    Examples
    --------
    >>> geometric(2).tolist()
    [4, 2, 2, 1, 1, 1, 1]
    """
    steps = np.arange(levels + 1)
    return np.repeat(2 ** (levels - steps), 2**steps)


def extreme(users: int = USERS, heavy: int = HEAVY) -> Ints:
    """Return the extreme-valued collection: one user of m* samples, the others of one.

    Examples
    --------
    >>> extreme(4, 10).tolist()
    [10, 1, 1, 1]
    """
    return np.array([heavy, *[1] * (users - 1)])


@dataclass(frozen=True)
class ProjectedNormal:
    """Independent normal samples, each drawn again until it lies in (low, high].

    Parameters
    ----------
    mean, sd : float
        In value units, before rejection.
    low, high : float
    """

    mean: float
    sd: float
    low: float
    high: float

    def draw(self, generator: np.random.Generator, counts: Ints, trials: int) -> Floats:
        """Return samples: see `ValueDistribution.draw`."""
        samples = generator.normal(self.mean, self.sd, (trials, int(counts.sum())))
        while (outside := (samples <= self.low) | (samples > self.high)).any():
            samples[outside] = generator.normal(self.mean, self.sd, int(outside.sum()))
        return samples


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """A simulated error at every ε.

    Attributes
    ----------
    error, standard_error : ndarray of float, shape (n_epsilons,)
        In value units.
    x : ndarray of float, shape (n_epsilons,)
        Values of ε.
    """

    error: Floats
    standard_error: Floats
    x: Floats = field(default_factory=lambda: X)

    def line(self, name: str, whose: Whose = "paper") -> Line:
        """Return it as a line of a figure, with its 95% interval."""
        reach = NORMAL * self.standard_error
        low, high = np.maximum(self.error - reach, 0), self.error + reach
        return line(name, self.x, self.error, low=low, high=high, whose=whose)

    def larger(self, other: ThresholdCurve) -> ThresholdCurve:
        """Return the larger of both at each ε, with its own standard error."""
        mine = self.error >= other.error
        error = np.where(mine, self.error, other.error)
        return ThresholdCurve(
            error, np.where(mine, self.standard_error, other.standard_error), self.x
        )

    def below(self, rival: ThresholdCurve, factor: float = 1.0) -> Margins:
        """Return by how much it lies below `factor` times another, at each ε."""
        # Both errors count in full: draws that both have in common are not credited.
        noise = np.hypot(self.standard_error, factor * rival.standard_error)
        return Margins(factor * rival.error - self.error, noise, rival.error)

    def falls(self) -> Margins:
        """Return by how much it falls from each ε to the next."""
        before, after = (
            ThresholdCurve(self.error[part], self.standard_error[part], self.x[part])
            for part in (slice(None, -1), slice(1, None))
        )
        return after.below(before)

    def log_below(self, rival: ThresholdCurve) -> Margins:
        """Return the logarithm of another's error over this one, at each ε."""
        # Errors of the logarithms are relative errors.
        noise = np.hypot(self.standard_error / self.error, rival.standard_error / rival.error)
        return Margins(np.log(rival.error / self.error), noise, np.ones_like(noise))


def simulated(
    mechanisms: Sequence[CellMechanism],
    setting: Setting,
    tell: Callable[[float], None],
    **cell: Any,  # noqa: ANN401  counts, and user_means or values, as evaluate takes them
) -> dict[str, ThresholdCurve]:
    """Return each mechanism's mean absolute error at every ε of `EPSILONS`, by its name."""
    # Two trials at least: a single one has no standard error.
    epsilons = setting.losses(EPSILONS)
    table = evaluate(
        mechanisms, bounds=setting.shown_bounds, epsilons=epsilons, trials=max(2, setting.trials),
        seed=setting.seed, progress=tell, **cell,
    )  # fmt: skip
    shape = len(mechanisms), len(epsilons)
    mae = np.asarray(table["mae"]).reshape(shape)
    error = np.asarray(table["standard_error"]).reshape(shape)
    x = np.array(epsilons, dtype=float)
    return {
        mechanism.name: ThresholdCurve(mae[i], error[i], x)
        for i, mechanism in enumerate(mechanisms)
    }


def exactly(error: Floats, x: Floats | None = None) -> ThresholdCurve:
    """Return a curve that is computed, not simulated."""
    return ThresholdCurve(error, np.zeros_like(error), X if x is None else x)
