"""What the plans of one cell share: its public facts, and plans that add one Laplace noise.

Neighbours: one user's values all change within the bounds; users and counts are public.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.sensitivity import check_counts
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_bounds, to_positive_fraction

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]

LN20 = math.log(20.0)


@dataclass(frozen=True, eq=False)
class CellFacts:
    """Counts, bounds and loss of one cell, checked; all public.

    Attributes
    ----------
    counts : ndarray of int64, shape (n_users,)
    lower, upper : float
        Bounds of a value, in value units.
    epsilon : Fraction
        Loss of the whole release.
    """

    counts: NDArray[np.int64]
    lower: float
    upper: float
    epsilon: Fraction

    @property
    def span(self) -> float:
        """Width of the bounds."""
        return self.upper - self.lower

    @property
    def total(self) -> int:
        """N, the samples of the cell."""
        return int(self.counts.sum())

    def means(self, user_means: ArrayLike, trials: int | None = None) -> Floats:
        """Return user means projected to the bounds, one row or one per trial."""
        given = np.asarray(user_means, dtype=np.float64)
        rows = () if given.ndim < 2 or trials is None else (trials,)
        if given.shape != (*rows, self.counts.size):
            raise InputError(
                f"one mean per user is needed ({self.counts.size})"
                + ("." if trials is None else f", for all or for each of {trials} trials.")
            )
        return np.clip(given, self.lower, self.upper)


def cell_facts(counts: ArrayLike, bounds: object, epsilon: Number) -> CellFacts:
    """Return the checked facts; raise InputError on counts, bounds or a loss without meaning."""
    m, loss = check_counts(counts), to_positive_fraction(epsilon, "epsilon")
    lower, upper = to_bounds(bounds)
    return CellFacts(m, float(lower), float(upper), loss)


class LaplacePlan(CellFacts, ABC):
    """A plan that adds one Laplace noise, of public scale, to an estimate without randomness."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change."""

    @property
    @abstractmethod
    def worst_case_bias(self) -> float:
        """Largest |expected estimate - true mean| over all values."""

    @abstractmethod
    def noiseless(self, means: Floats) -> Floats:
        """Return the estimate before noise, for user means along the last axis."""

    @property
    def noise_scale(self) -> float:
        """Laplace scale, which is also the expected |noise|; 0 if no value is read."""
        return self.sensitivity / float(self.epsilon)

    @property
    def worst_case_error(self) -> float:
        """Planning error: worst-case bias plus expected |noise|."""
        return self.worst_case_bias + self.noise_scale

    @property
    def bound95(self) -> float:
        """Error not exceeded with probability 95 percent, whatever the values."""
        return self.worst_case_bias + self.noise_scale * LN20

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: see `CellPlan.release`."""
        estimate = float(self.noiseless(self.means(user_means)))
        return estimate + (noise.laplace(self.noise_scale) if self.noise_scale else 0.0)

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return many estimates distributed as those of `release`: see `CellPlan.simulate`."""
        quiet = self.noiseless(self.means(user_means, trials))
        return np.asarray(quiet + generator.laplace(0.0, self.noise_scale, trials))


class Named:
    """A mechanism that shows itself as constructed, options at their default left out."""

    _always: tuple[str, ...] = ()
    _positional: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As constructed, for tables."""
        itself: Any = self  # every mechanism is a dataclass
        shown = []
        for field in dataclasses.fields(itself):
            value = getattr(self, field.name)
            text = f'"{value}"' if isinstance(value, str) else repr(value)
            if field.name in self._positional:
                shown.append(text)
            elif field.name in self._always or value != field.default:
                shown.append(f"{field.name}={text}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __repr__(self) -> str:
        return self.name
