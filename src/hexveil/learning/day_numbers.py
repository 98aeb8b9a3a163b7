"""What one published day says about its cells: noisy numbers, and how they depend on the averages.

The likelihood of a cell's average T is that of `smoothing.clipped_posterior`: noise, what the
clipping range cuts off, weights that are not shares of records. It is kept in bins of T. Part of
what it allows for is the same every day, since ranges and users resemble those of the day before:
`lasting` is its standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.smoothing.clipped_posterior import last_look, mixed_likelihood, model_look
from hexveil.smoothing.user_mean_law import (
    CellDesign,
    ClippedLook,
    UserMeanLaw,
    UserMeanSpread,
    refine,
)

BINS = 64
LEAST = 1e-30
"""Least likelihood of a bin, against the largest one of its cell: no number is impossible."""


@dataclass(frozen=True, eq=False)
class DayNumbers(ReadOnlyArrays):
    """The published numbers of a day, and the public facts about them.

    Attributes
    ----------
    day : int
        Ordinal of the local date.
    place : ndarray of str, shape (n_cells,)
        Hexagon or labels of each cell.
    slot : ndarray of int64, shape (n_cells,)
        Start of its slot, in seconds of the day.
    looks : tuple of ClippedLook
    design : CellDesign
    spread : UserMeanSpread
    bounds : pair of float
    """

    day: int
    place: np.typing.NDArray[np.str_]
    slot: Ints
    looks: tuple[ClippedLook, ...]
    design: CellDesign
    spread: UserMeanSpread
    bounds: tuple[float, float]

    @property
    def is_weekend(self) -> bool:
        """Whether the day is a Saturday or a Sunday."""
        return self.day % 7 in (6, 0)

    @property
    def user_deviation(self) -> float:
        """Deviation of user means within a cell, value units."""
        return float(sum(self.spread.within_cells(self.bounds)) / 2.0)


@dataclass(frozen=True, eq=False)
class CellLikelihood(ReadOnlyArrays):
    """Likelihood of each cell's average, in bins.

    Attributes
    ----------
    edges : ndarray of float, shape (n_cells, BINS + 1)
        From bound to bound, value units.
    density : ndarray of float, shape (n_cells, BINS)
        At most 1 in each cell.
    lasting : ndarray of float, shape (n_cells,)
        Standard deviation of the error that recurs every day, value units.
    """

    edges: Floats
    density: Floats
    lasting: Floats


@single_blas_thread()
def likelihood_of(day: DayNumbers) -> CellLikelihood:
    """Return the likelihood of each cell's average under all looks of the day."""
    law = UserMeanLaw.of(day.design, day.spread, day.bounds)
    modes = law.edge_modes(BINS)
    for _ in range(1):
        edges, likelihood = mixed_likelihood(law, day.design, day.looks, modes)
        modes = refine(modes, likelihood / np.sum(likelihood, axis=1, keepdims=True))
    edges, likelihood = mixed_likelihood(law, day.design, day.looks, modes)
    density = np.maximum(likelihood, LEAST)
    return CellLikelihood(edges, density, _lasting(day, law, edges, density))


def _lasting(day: DayNumbers, law: UserMeanLaw, edges: Floats, likelihood: Floats) -> Floats:
    """Return the deviation of what recurs, where the likelihood has its mean."""
    middles = (edges[:, 1:] + edges[:, :-1]) / 2.0
    mass = likelihood * np.diff(edges, axis=1)
    means = np.sum(mass * middles, axis=1, keepdims=True) / np.sum(mass, axis=1, keepdims=True)
    # Without squares of weights nothing is left of the sampling of users.
    recurring = replace(day.design, weight_squares=np.zeros_like(day.design.weight_squares))
    last, mode = last_look(day.looks), law.modes(means)
    whole = law.clipped(mode, *day.bounds)
    seen = model_look(law, recurring, mode, (last.lower, last.upper), whole)
    return np.asarray(np.sqrt(seen.misfit_squares[:, 0]))
