"""Simulated values of one cell, for studies: no real record is involved.

Samples are projected to the bounds one by one, and only then averaged per user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Values(Protocol):
    """A distribution of the samples of a cell."""

    def draw(self, generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Return samples, one row per trial, before projection."""


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

    def draw(self, generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Return samples, one row per trial, before projection."""
        return generator.normal(self.mean, self.sd, shape)


@dataclass(frozen=True)
class Uniform:
    """Independent samples, uniform between two numbers.

    Parameters
    ----------
    low, high : float
        In value units, before projection to the bounds.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise InputError("Uniform needs two finite numbers, the lower one first.")

    def draw(self, generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Return samples, one row per trial, before projection."""
        return generator.uniform(self.low, self.high, shape)


def draw_user_means(
    values: Values,
    counts: NDArray[np.int64],
    bounds: tuple[float, float],
    generator: np.random.Generator,
    trials: int,
) -> NDArray[np.float64]:
    """Return means of projected samples, shape (trials, n_users)."""
    samples = values.draw(generator, (trials, int(counts.sum())))
    np.clip(samples, *bounds, out=samples)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    return np.asarray(np.add.reduceat(samples, starts, axis=1) / counts)
