"""Each cell's number against what all other cells say of it: medians and intervals.

What the others say of cell g is a normal law (its effects, with g's own part taken out) plus the
heavy-tailed own deviation; what g says is its noisy number under Laplace noise and a normal bias.
Their product is a mixture of normals. The scale of own deviations is not known: a few scales
around the fitted one are weighed by how well each foretells the cells, and mixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.smoothing.mixtures import heavy_tailed, laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.smoothing.fit import Fit

    Floats = NDArray[np.float64]

_LEVELS = np.array([0.0125, 0.5, 0.9875])
"""A little outside 2.5% and 97.5%: group variances are plugged in as if known, which by itself
covers one to three points too little on maps drawn from the model."""

_STEPS = 26
_NUMBERS = 400_000
"""Cells times parts that are worked on at once."""
_MANY = 4_000
"""Cells that settle the scale by themselves."""
_AROUND = np.exp(np.linspace(-2.0, 2.0, 9))
"""Scales that are weighed, as multiples of the fitted one."""
_UNHEARD = 1e-5
"""Weight below which a scale is left out."""


def quantiles(fit: Fit, y: Floats, scale: Floats, extra: Floats) -> NDArray[np.float64]:
    """Return the points at `_LEVELS` of each cell's posterior, shape (n_cells, 3).

    Parameters
    ----------
    fit : Fit
    y, scale, extra : ndarray of float, shape (n_cells,)
        As fitted.
    """
    mean, variance = _of_others(fit, y)
    said = scale > 0
    own, weight = _scales(fit, np.where(said, y - mean, 0.0), variance, scale, extra)
    step = max(1, _NUMBERS // (own.size * heavy_tailed()[0].size * laplace()[0].size))
    found = np.empty((y.size, 3))
    for start in range(0, y.size, step):
        here = slice(start, start + step)
        parts = _parts(y[here] - mean[here], variance[here], scale[here], extra[here], own, weight)
        found[here] = mean[here, None] + _inverse(*parts)
    return found


def _of_others(fit: Fit, y: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell's effects as the other cells tell them."""
    mean, variance = fit.effects.mean, fit.effects.variance
    # A cell that alone tells of its effects leaves nothing; rounding must not turn that round.
    left = np.maximum(1.0 - fit.precision * variance, 1e-6)
    return (mean - fit.precision * variance * y) / left, variance / left


def _scales(
    fit: Fit, residual: Floats, variance: Floats, scale: Floats, extra: Floats
) -> tuple[Floats, Floats]:
    """Return squared scales of own deviations and their weights."""
    said = scale > 0
    if said.sum() > _MANY:
        return np.array([fit.own]), np.ones(1)
    own = fit.own * _AROUND**2
    (t_share, t_size), (l_share, l_size) = heavy_tailed(), laplace()
    share = t_share[:, None] * l_share
    noise = (scale[said, None] ** 2 * l_size + extra[said, None] + variance[said, None])[:, None]
    likely = []
    for x in own:
        total = x * t_size[:, None] + noise
        density = share * np.exp(-0.5 * residual[said, None, None] ** 2 / total) / np.sqrt(total)
        likely.append(np.sum(np.log(density.sum(axis=(1, 2)) + 1e-300)))
    weight = np.array(likely) + 0.5 * np.log(own) - np.log1p(own)  # half-Cauchy, in the logarithm
    weight = np.exp(weight - weight.max())
    heard = weight > _UNHEARD
    return own[heard], weight[heard] / weight[heard].sum()


def _parts(
    residual: Floats,
    variance: Floats,
    scale: Floats,
    extra: Floats,
    own: Floats,
    weight: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return weights, means and standard deviations of the posterior's parts, a row per cell."""
    (t_share, t_size), (l_share, l_size) = heavy_tailed(), laplace()
    wide = (own[:, None] * t_size).ravel()
    prior = variance[:, None, None] + wide[:, None]
    noise = (scale[:, None] ** 2 * l_size + extra[:, None])[:, None, :]
    noise = np.where(scale[:, None, None] > 0, noise, np.inf)
    silent = np.isinf(noise)
    noise = np.where(silent, 1.0, noise)
    total = prior + noise
    ratio = np.where(silent, 0.0, prior / total)
    share = np.log((weight[:, None] * t_share).ravel())[:, None] + np.log(l_share)
    r = residual[:, None, None]
    told = np.where(silent, 0.0, -0.5 * r**2 / total - 0.5 * np.log(total))
    likely = share + told
    likely = np.exp(likely - likely.max(axis=(1, 2), keepdims=True))
    likely /= likely.sum(axis=(1, 2), keepdims=True)
    rows = residual.size, -1
    means, sd = ratio * r, np.sqrt(np.where(silent, prior, noise * (prior / total)))
    return likely.reshape(rows), means.reshape(rows), sd.reshape(rows)


def _inverse(weight: Floats, mean: Floats, sd: Floats) -> Floats:
    """Return the three quantiles of each row's mixture of normals, by bisection."""
    from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

    found = np.empty((weight.shape[0], _LEVELS.size))
    centre = np.sum(weight * mean, axis=1)
    square = np.sum(weight * (sd**2 + (mean - centre[:, None]) ** 2), axis=1)
    # Cantelli: a point of level q is at most sqrt((1 - q) / q) deviations from the mean.
    reach = np.sqrt(square * (1.0 - _LEVELS[0]) / _LEVELS[0])
    for k, level in enumerate(_LEVELS):
        a, b = centre - reach, centre + reach
        for _ in range(_STEPS):
            middle = (a + b) / 2.0
            below = np.sum(weight * ndtr((middle[:, None] - mean) / sd), axis=1) < level
            a, b = np.where(below, middle, a), np.where(below, b, middle)
        found[:, k] = (a + b) / 2.0
    return found
