"""Likelihoods of the averages of a published day, in bins.

The likelihood of a cell's average T is that of `smoothing.clipped_posterior`: noise, what the
clipping range cuts off, weights that are not shares of records. A part of the misfit is the same
every day, since ranges and users resemble those of the day before: `lasting` is its standard
deviation, and the likelihood has the other part. Numbers are rounded to 32 bits, as they are
published: who reads them computes the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.learning.joint_law import log_masses
from hexveil.smoothing.clipped_posterior import last_look, log_likelihood, model_look
from hexveil.smoothing.user_mean_law import (
    CellDesign,
    ClippedLook,
    UserMeanLaw,
    UserMeanSpread,
    refine,
)

Where = tuple[int, np.typing.NDArray[np.str_], Ints]
"""Ordinal of a day; place and slot of each cell."""
BINS = 64
MERGED = 4
"""Bins in one where likelihoods are compared alone: numbers move by a hundredth of their error."""
LASTING_PRIOR = 0.55
"""Part of `lasting` that is the same on all days; the rest of its square is drawn every day."""
FACTORS: Floats = np.sqrt(2.0) ** np.arange(-1, 4)
"""Factors of deviations of forecasts; numbers agree too well where all of them hide the same."""
LEAST = 1e-30
"""Least likelihood of a bin, against the largest one of its cell: no number is impossible."""


@dataclass(frozen=True, eq=False)
class PublishedDay(ReadOnlyArrays):
    """The published numbers of a day, as likelihoods of its cells' averages.

    Attributes
    ----------
    day : int
        Ordinal of the local date.
    place : ndarray of str, shape (n_cells,)
        Hexagon or labels of each cell.
    slot : ndarray of int64, shape (n_cells,)
        Start of its slot, in seconds of the day; 0 without slots.
    bounds : pair of float
        Of the values.
    user_deviation : float
        Of user means within a cell, value units.
    share_squares : ndarray of float, shape (n_cells,)
        Σp², p the shares of users in the cell's records.
    edges : ndarray of float, shape (n_cells, BINS + 1)
        Of bins of the average, from bound to bound.
    density : ndarray of float, shape (n_cells, BINS)
        Likelihood of each bin, at most 1 in each cell.
    lasting : ndarray of float, shape (n_cells,)
        Standard deviation of the error that recurs every day, value units.
    """

    day: int
    place: np.typing.NDArray[np.str_]
    slot: Ints
    bounds: tuple[float, float]
    user_deviation: float
    share_squares: Floats
    edges: Floats
    density: Floats
    lasting: Floats

    @property
    def is_weekend(self) -> bool:
        """Whether the day is a Saturday or a Sunday."""
        return self.day % 7 in (6, 0)

    def log_factors(self, mean: Floats, variance: Floats) -> Floats:
        """Return the log likelihood of all cells under each factor of their forecasts."""
        return np.asarray(self.log_masses(mean, FACTORS[:, None] ** 2 * variance).sum(axis=1))

    def log_masses(self, mean: Floats, variance: Floats) -> Floats:
        """Return the log likelihood of each cell under a normal forecast, perhaps under many."""
        return log_masses(mean, variance, *self._merged)

    @cached_property
    def _merged(self) -> tuple[Floats, Floats]:
        """Edges and likelihoods of merged bins."""
        widths = np.diff(self.edges, axis=1) + 1e-12
        starts = np.arange(0, widths.shape[1], MERGED)
        mass, width = (np.add.reduceat(one, starts, 1) for one in (widths * self.density, widths))
        return self.edges[:, [*starts, -1]], mass / width


def cell_names(place: np.typing.NDArray[np.str_], slot: Ints) -> np.typing.NDArray[np.str_]:
    """Return a name of each cell, by place and slot."""
    return np.char.add(np.char.add(place, "|"), slot.astype(str))


@single_blas_thread()
def summarize_day(
    when: Where,
    looks: Sequence[ClippedLook],
    design: CellDesign,
    spread: UserMeanSpread,
    bounds: tuple[float, float],
) -> PublishedDay:
    """Return a published day by its noisy numbers.

    Parameters
    ----------
    when : tuple
        Ordinal of the day; place and slot of each cell.
    looks : sequence of ClippedLook
    design : CellDesign
    spread : UserMeanSpread
    bounds : pair of float
    """
    law = UserMeanLaw.of(design, spread, bounds)
    modes = law.edge_modes(BINS)
    _, likelihood = _likelihood(law, design, looks, modes)
    modes = refine(modes, likelihood / np.sum(likelihood, axis=1, keepdims=True))
    edges, likelihood = _likelihood(law, design, looks, modes)
    edges, density = _rounded(edges), _rounded(np.maximum(likelihood, LEAST))
    recurring = _recurring(design, law, last_look(looks), bounds, edges, density)
    return PublishedDay(
        *when,
        bounds,
        float(np.float32(sum(spread.within_cells(bounds)) / 2.0)),
        _rounded(design.share_squares),
        edges,
        density,
        _rounded(recurring),
    )


def blank_day(
    when: Where, bounds: tuple[float, float], user: float, share_squares: Floats
) -> PublishedDay:
    """Return a day that has no numbers yet: every average is as likely.

    Parameters
    ----------
    when : tuple
        Ordinal of the day; place and slot of each cell.
    bounds : pair of float
    user : float
        Deviation of user means within a cell, value units.
    share_squares : ndarray of float, shape (n_cells,)
    """
    n_cells = share_squares.size
    edges = np.tile(np.linspace(*bounds, BINS + 1), (n_cells, 1))
    flat, nothing = np.ones((n_cells, BINS)), np.zeros(n_cells)
    return PublishedDay(*when, bounds, user, share_squares, edges, flat, nothing)


def _likelihood(
    law: UserMeanLaw, design: CellDesign, looks: Sequence[ClippedLook], modes: Floats
) -> tuple[Floats, Floats]:
    """Return the edges of bins as means, and the likelihood of a day's looks in each bin."""
    moments = law.clipped(modes, *law.bounds)
    edges, daily = moments.mean.copy(), 1.0 - LASTING_PRIOR**2
    edges[:, 0], edges[:, -1] = law.bounds
    logs = sum(log_likelihood(law, design, look, modes, moments, daily) for look in looks)
    return edges, np.exp(logs - np.max(logs, axis=1, keepdims=True))


def _recurring(
    design: CellDesign,
    law: UserMeanLaw,
    look: ClippedLook,
    bounds: tuple[float, float],
    edges: Floats,
    likelihood: Floats,
) -> Floats:
    """Return the deviation of the recurring error, where the likelihood has its mean."""
    mass = likelihood * np.diff(edges, axis=1)
    middles = (edges[:, 1:] + edges[:, :-1]) / 2.0
    means = np.sum(mass * middles, axis=1, keepdims=True) / np.sum(mass, axis=1, keepdims=True)
    mode = law.modes(means)
    moments = law.clipped(mode, *bounds)
    model = model_look(law, design, mode, (look.lower, look.upper), moments)
    return np.asarray(np.sqrt(model.lasting_squares[:, 0]))


def _rounded(numbers: Floats) -> Floats:
    return numbers.astype(np.float32).astype(np.float64)
