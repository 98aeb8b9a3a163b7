"""Noisy averages of clipped user means, and their likelihood for each mean of a cell.

Model of a cell: user means follow a two-piece normal law of mode M, deviations s- below and s+
above it, censored at the bounds of the values. T is its mean, and of a range [a, b] a look shows

    m(T; a, b) + Laplace(scale) + N(0, misfit²),    m the mean after clipping to [a, b].

Both T and m rise with M, so that M is the coordinate of all grids: evenly spaced in M, points crowd
together where T comes close to a bound. T is the mean of the very users of the cell, weighted by
their shares p of the records; around it these vary less than around the mean of their law, by
1 - Σp² in the variance. The misfit is the sum, in squares, of

- sampling: the variance of clipped user means that T does not explain, times Σw²;
- weights w that differ from p: (s² Σ(w - p)²), and a systematic part of Σ|w - p|;
- a within-cell deviation that differs from the pooled one;
- tails heavier than normal: beyond a cut at distance d an exponential law has s exp(-1 - d/s) more.

The law and its moments: user_mean_law.py; what is known of a cell: cell_looks.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.smoothing.mixed_noise import log_mean_density

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil.base.arrays import Floats
    from hexveil.smoothing.clipping_model.cell_looks import CellDesign, ClippedLook
    from hexveil.smoothing.clipping_model.user_mean_law import ClippedMoments, UserMeanLaw


WEIGHT_DRIFT = 0.25
"""Deviations by which users whose weight rises may differ from those whose weight falls."""
SPREAD_MULTIPLES = ((1.0, 0.5), (0.5, 0.25), (2.0, 0.25))
"""Multiples of the within-cell deviation that a cell may have, with their prior probabilities."""
LOG_SPREAD_SD = 0.2
"""Standard deviation of the logarithm of the within-cell deviation around these multiples."""
TAIL_EXCESS = 1.2
"""Multiple of the exponential tail that is allowed for beyond each cut."""
SMALLEST_INSIDE = 1e-9
"""Smallest probability that a user mean is within the bounds."""
SMALLEST_NOISE = 2.0**-24
"""Smallest misfit and scale, as parts of the span."""


@dataclass(frozen=True, eq=False)
class LookModel:
    """Expected look and misfit of each mode of each cell.

    Attributes
    ----------
    expected, misfit_squares : ndarray of float, shape (n_cells, n_points)
    slope : ndarray of float, shape (n_cells, n_points)
        Of the expected look in T, between 0 and 1.
    """

    expected: Floats
    misfit_squares: Floats
    slope: Floats


def model_look(
    law: UserMeanLaw,
    design: CellDesign,
    mode: Floats,
    ends: tuple[Floats, Floats],
    whole: ClippedMoments,
) -> LookModel:
    """Return the expected look of each mode of each cell, and the variance of the misfit.

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    mode : ndarray of float, shape (n_cells, n_points)
    ends : pair of ndarray of float, shape (n_cells,)
        Clipping range.
    whole : ClippedMoments
        Of the bounds of the values, for the same modes.
    """
    low, high = ends[0][:, None], ends[1][:, None]
    own = law.clipped(mode, low, high)
    slope = np.minimum(own.inside / np.maximum(whole.inside, SMALLEST_INSIDE), 1.0)
    sampling = np.maximum(own.variance - slope**2 * whole.variance, 0.0)
    weights = design.difference_squares + (WEIGHT_DRIFT * design.difference) ** 2
    misfit = (
        sampling * design.weight_squares[:, None]
        + law.deviation**2 * weights[:, None]
        + (LOG_SPREAD_SD * (own.log_slope - slope * whole.log_slope)) ** 2
        + _tails(law, mode, own.mean, low, high)
    )
    return LookModel(own.mean, misfit, slope)


def _tails(law: UserMeanLaw, mode: Floats, expected: Floats, low: Floats, high: Floats) -> Floats:
    """Return the variance that is allowed for tails beyond both cuts."""
    total = np.zeros_like(mode)
    bottom, top = law.bounds
    for distance, room, end, sd in (
        (mode - low, low - bottom, expected - low, law.below),
        (high - mode, top - high, high - expected, law.above),
    ):
        excess = sd * np.exp(np.minimum(-1.0 - distance / sd, 0.0))
        # A cut moves nobody further than to the bound, and the average no further than the end.
        allowed = np.minimum(np.minimum(excess, end), np.maximum(room, 0.0))
        total += (TAIL_EXCESS * np.maximum(allowed, 0.0)) ** 2
    return total


def mixed_likelihood(
    law: UserMeanLaw, design: CellDesign, looks: Sequence[ClippedLook], edges: Floats
) -> tuple[Floats, Floats]:
    """Return the edges of bins as means, and the likelihood of all looks in each bin.

    It is averaged over the within-cell deviations that a cell may have, and at most 1 in a cell.

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    looks : sequence of ClippedLook
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins, as modes of the law.
    """
    own = law.clipped(edges, *law.bounds)
    means = own.mean.copy()
    means[:, 0], means[:, -1] = law.bounds
    total = np.full((edges.shape[0], edges.shape[1] - 1), -np.inf)
    for multiple, share in SPREAD_MULTIPLES:
        as_laid = multiple == 1.0
        scaled = law if as_laid else law.scaled(multiple)
        modes = edges if as_laid else scaled.modes(means)
        whole = own if as_laid else scaled.clipped(modes, *scaled.bounds)
        log_density = np.full(total.shape, math.log(share))
        for look in looks:
            log_density += log_likelihood(scaled, design, look, modes, whole)
        total = np.logaddexp(total, log_density)
    return means, np.exp(total - np.max(total, axis=1, keepdims=True))


def log_likelihood(
    law: UserMeanLaw, design: CellDesign, look: ClippedLook, edges: Floats, whole: ClippedMoments
) -> Floats:
    """Return the log likelihood of a look in each bin of the grid, shape (n_cells, n_bins).

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    look : ClippedLook
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins of M.
    whole : ClippedMoments
        Of the bounds of the values, at these edges.
    """
    span = law.bounds[1] - law.bounds[0]
    modelled = model_look(law, design, edges, (look.lower, look.upper), whole)
    m, v = modelled.expected, modelled.misfit_squares
    misfit = (v[:, 1:] + v[:, :-1]) / 2.0
    silent = np.isinf(look.scale)
    # An average of clipped values lies within the range, so that noise alone leads beyond it:
    # further out all means are as likely, relative to each other, as at the end.
    noisy = np.clip(np.where(silent, look.lower, look.noisy), look.lower, look.upper)[:, None]
    scale = np.maximum(np.where(silent, span, look.scale), SMALLEST_NOISE * span)[:, None]
    normal = np.sqrt(misfit + (SMALLEST_NOISE * span) ** 2)
    if look.is_gaussian:
        # Gaussian noise and misfit are one normal number; the Laplace part is next to nothing.
        normal, scale = np.hypot(normal, scale), np.full_like(scale, SMALLEST_NOISE * span)
    density = log_mean_density(noisy - m[:, 1:], noisy - m[:, :-1], scale, normal)
    return np.where(silent[:, None], 0.0, density)
