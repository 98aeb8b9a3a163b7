"""Each cell's number against what all other cells say of it: medians and intervals.

What the others say of cell g is a normal law (its effects, with g's own part taken out) plus the
heavy-tailed own deviation; what g says is its noisy number under Laplace noise.
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

_STEPS = 20
_NUMBERS = 400_000
"""Cells times parts that are worked on at once."""
_MANY = 4_000
"""Cells that settle the scale by themselves."""
_OUTSIDE, _OUTSIDE_MANY = 0.006, 0.0125
"""Of the posterior, on either side of an interval: less than 2.5%, since group variances are
plugged in as if known, and no real map is drawn from the model. The second one for `_MANY` cells:
they tell variances well."""
_AROUND = np.exp(np.linspace(-2.0, 2.0, 9))
"""Scales that are weighed, as multiples of the fitted one."""
_UNHEARD = 1e-5
"""Weight below which a scale is left out."""


def outside(n_cells: int) -> float:
    """Return the part of each cell's posterior on either side of its interval."""
    return _OUTSIDE if n_cells <= _MANY else _OUTSIDE_MANY


def quantiles(fit: Fit, y: Floats, scale: Floats, wide: Floats) -> NDArray[np.float64]:
    """Return low end, median and high end of each cell's posterior, shape (n_cells, 3).

    Parameters
    ----------
    fit : Fit
    y, scale, wide : ndarray of float, shape (n_cells,)
        As fitted.
    """
    mean, variance = _of_others(fit, y)
    said = scale > 0
    own, weight = _scales(fit, np.where(said, y - mean, 0.0), variance, scale, wide)
    sizes = _merged(own, weight)
    step = max(1, _NUMBERS // (sizes[0].size * laplace()[0].size))
    levels = np.array([outside(y.size), 0.5, 1.0 - outside(y.size)])
    found = np.empty((y.size, 3))
    for start in range(0, y.size, step):
        here = slice(start, start + step)
        facts = variance[here], scale[here], wide[here]
        parts = _parts(y[here] - mean[here], *facts, *sizes)
        found[here] = mean[here, None] + _inverse(*parts, levels)
    return found


def _of_others(fit: Fit, y: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell's effects as the other cells tell them."""
    mean, variance = fit.effects.mean, fit.effects.variance
    # A cell that alone tells of its effects leaves nothing; rounding must not turn that round.
    left = np.maximum(1.0 - fit.precision * variance, 1e-6)
    return (mean - fit.precision * variance * y) / left, variance / left


def _scales(
    fit: Fit, residual: Floats, variance: Floats, scale: Floats, wide: Floats
) -> tuple[Floats, Floats]:
    """Return squared scales of own deviations and their weights."""
    said = scale > 0
    if said.sum() > _MANY:
        return np.array([fit.own]), np.ones(1)
    own = fit.own * _AROUND**2
    (t_share, t_size), (l_share, l_size) = heavy_tailed(), laplace()
    share = t_share[:, None] * l_share
    noise = (scale[said, None] ** 2 * l_size + variance[said, None])[:, None]
    likely = []
    for x in own:
        total = x * wide[said, None, None] * t_size[:, None] + noise
        density = share * np.exp(-0.5 * residual[said, None, None] ** 2 / total) / np.sqrt(total)
        likely.append(np.sum(np.log(density.sum(axis=(1, 2)) + 1e-300)))
    # In the logarithm; Student t with five degrees and a scale of 0.22 of the map's width.
    weight = np.array(likely) + 0.5 * np.log(own) - 3.0 * np.log1p(4.0 * own)
    weight = np.exp(weight - weight.max())
    heard = weight > _UNHEARD
    return own[heard], weight[heard] / weight[heard].sum()


def _merged(own: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return variances of own deviations and their shares: scales times parts of the t law.

    Variances within a factor of e^(1/2) are put together, and their mean is kept.
    """
    shares, sizes = heavy_tailed()
    size, share = (own[:, None] * sizes).ravel(), (weight[:, None] * shares).ravel()
    _, which = np.unique(np.floor(2.0 * np.log(size / size.min()) + 0.5), return_inverse=True)
    total: Floats = np.bincount(which, share).astype(np.float64)
    return np.bincount(which, share * size) / total, total


def _parts(
    residual: Floats,
    variance: Floats,
    scale: Floats,
    wide: Floats,
    size: Floats,
    size_share: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return weights, means and standard deviations of the posterior's parts, a row per cell."""
    l_share, l_size = laplace()
    prior = variance[:, None, None] + wide[:, None, None] * size[:, None]
    noise = (scale[:, None] ** 2 * l_size)[:, None, :]
    noise = np.where(scale[:, None, None] > 0, noise, np.inf)
    silent = np.isinf(noise)
    noise = np.where(silent, 1.0, noise)
    total = prior + noise
    ratio = np.where(silent, 0.0, prior / total)
    share = np.log(size_share)[:, None] + np.log(l_share)
    r = residual[:, None, None]
    told = np.where(silent, 0.0, -0.5 * r**2 / total - 0.5 * np.log(total))
    likely = share + told
    likely = np.exp(likely - likely.max(axis=(1, 2), keepdims=True))
    likely /= likely.sum(axis=(1, 2), keepdims=True)
    rows = residual.size, -1
    means, sd = ratio * r, np.sqrt(np.where(silent, prior, noise * (prior / total)))
    return likely.reshape(rows), means.reshape(rows), sd.reshape(rows)


def _inverse(weight: Floats, mean: Floats, sd: Floats, levels: Floats) -> Floats:
    """Return the three quantiles of each row's mixture of normals, by bisection."""
    from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

    found = np.empty((weight.shape[0], levels.size))
    centre = np.sum(weight * mean, axis=1)
    square = np.sum(weight * (sd**2 + (mean - centre[:, None]) ** 2), axis=1)
    # Cantelli: a point of level q is at most sqrt((1 - q) / q) deviations from the mean.
    reach = np.sqrt(square * (1.0 - levels[0]) / levels[0])
    for k, level in enumerate(levels):
        a, b = centre - reach, centre + reach
        for _ in range(_STEPS):
            middle = (a + b) / 2.0
            below = np.sum(weight * ndtr((middle[:, None] - mean) / sd), axis=1) < level
            a, b = np.where(below, middle, a), np.where(below, b, middle)
        found[:, k] = (a + b) / 2.0
    return found
