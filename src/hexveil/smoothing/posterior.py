"""Posterior medians and intervals of the cells, by mixtures of normals.

The prior of cell g given all other cells is normal (its effects, without g's contribution to them)
plus the heavy-tailed own deviation; the likelihood is that of its noisy number under Laplace noise,
or under a δ Gaussian noise. Their product is a mixture of normals. The scale of own deviations is
not known: a few scales around the fitted one are weighted by their likelihood, and mixed.
"""

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.smoothing.mixed_model import FittedModel
from hexveil.smoothing.mixed_noise import heavy_tailed, noise_parts

_BISECTIONS = 40
_MAX_SLICE_NUMBERS = 400_000
"""Cells times mixture components held in memory at once."""
_MANY_CELLS = 4_000
"""Number of cells that determine the scale well enough."""
_TAIL, _TAIL_MANY_CELLS = 0.006, 0.0125
"""Share of the posterior, on either side of an interval: less than 2.5%, since group variances are
plugged in as if known, and no real map is drawn from the model. The second one for more than
`_MANY_CELLS` cells: they determine variances well."""
_SCALE_MULTIPLES = np.exp(np.linspace(-2.0, 2.0, 9))
"""Candidate scales, as multiples of the fitted one."""
_MIN_WEIGHT = 1e-5
"""Weight below which a scale is left out."""


def tail_probability(n_cells: int) -> float:
    """Return the share of each cell's posterior on either side of its interval."""
    return _TAIL if n_cells <= _MANY_CELLS else _TAIL_MANY_CELLS


def posterior_quantiles(
    model: FittedModel, y: Floats, scale: Floats, prior_width: Floats
) -> Floats:
    """Return low end, median and high end of each cell's posterior, shape (n_cells, 3).

    Parameters
    ----------
    model : FittedModel
    y, scale, prior_width : ndarray of float, shape (n_cells,)
        As fitted.
    """
    mean, variance = _leave_one_out(model, y)
    has_noise = scale > 0
    own_variances, weight = _scales(
        model, np.where(has_noise, y - mean, 0.0), variance, scale, prior_width
    )
    sizes = _merge_variances(own_variances, weight)
    pieces = noise_parts(gaussian=model.gaussian)
    step = max(1, _MAX_SLICE_NUMBERS // (sizes[0].size * pieces[0].size))
    levels = np.array([tail_probability(y.size), 0.5, 1.0 - tail_probability(y.size)])
    quantiles = np.empty((y.size, 3))
    for start in range(0, y.size, step):
        rows = slice(start, start + step)
        cells = variance[rows], scale[rows], prior_width[rows]
        mixture = _mixture_parts(y[rows] - mean[rows], *cells, *sizes, pieces)
        quantiles[rows] = mean[rows, None] + _invert_mixture(*mixture, levels)
    return quantiles


def _leave_one_out(model: FittedModel, y: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell's effects, given all other cells."""
    mean, variance = model.effects.mean, model.effects.variance
    # Without a cell that alone determines its effects no precision is left: rounding must not make
    # it negative.
    remaining_precision = np.maximum(1.0 - model.precision * variance, 1e-6)
    return (
        mean - model.precision * variance * y
    ) / remaining_precision, variance / remaining_precision


def _scales(
    model: FittedModel, residual: Floats, variance: Floats, scale: Floats, prior_width: Floats
) -> tuple[Floats, Floats]:
    """Return squared scales of own deviations and their weights."""
    has_noise = scale > 0
    if has_noise.sum() > _MANY_CELLS:
        return np.array([model.own_variance]), np.ones(1)
    own_variances = model.own_variance * _SCALE_MULTIPLES**2
    (t_share, t_size), (l_share, l_size) = heavy_tailed(), noise_parts(gaussian=model.gaussian)
    share = t_share[:, None] * l_share
    noise = (scale[has_noise, None] ** 2 * l_size + variance[has_noise, None])[:, None]
    log_likelihood = []
    for x in own_variances:
        total = x * prior_width[has_noise, None, None] * t_size[:, None] + noise
        density = (
            share * np.exp(-0.5 * residual[has_noise, None, None] ** 2 / total) / np.sqrt(total)
        )
        log_likelihood.append(np.sum(np.log(density.sum(axis=(1, 2)) + 1e-300)))
    # In the logarithm; Student t with five degrees and a scale of 0.22 of the map's width.
    weight = (
        np.array(log_likelihood) + 0.5 * np.log(own_variances) - 3.0 * np.log1p(4.0 * own_variances)
    )
    weight = np.exp(weight - weight.max())
    is_used = weight > _MIN_WEIGHT
    return own_variances[is_used], weight[is_used] / weight[is_used].sum()


def _merge_variances(own_variances: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return variances of own deviations and their shares: scales times components of the t law.

    Variances within a factor of e^(1/2) are merged, which keeps their mean.
    """
    shares, sizes = heavy_tailed()
    size, share = (own_variances[:, None] * sizes).ravel(), (weight[:, None] * shares).ravel()
    _, bin_index = np.unique(np.floor(2.0 * np.log(size / size.min()) + 0.5), return_inverse=True)
    total: Floats = np.bincount(bin_index, share).astype(np.float64)
    return np.bincount(bin_index, share * size) / total, total


def _mixture_parts(
    residual: Floats,
    variance: Floats,
    scale: Floats,
    prior_width: Floats,
    size: Floats,
    size_share: Floats,
    noise_parts: tuple[Floats, Floats],
) -> tuple[Floats, Floats, Floats]:
    """Return weights, means and deviations of the posterior's components, a row per cell."""
    l_share, l_size = noise_parts
    prior = variance[:, None, None] + prior_width[:, None, None] * size[:, None]
    noise = (scale[:, None] ** 2 * l_size)[:, None, :]
    noise = np.where(scale[:, None, None] > 0, noise, np.inf)
    silent = np.isinf(noise)
    noise = np.where(silent, 1.0, noise)
    total = prior + noise
    ratio = np.where(silent, 0.0, prior / total)
    share = np.log(size_share)[:, None] + np.log(l_share)
    r = residual[:, None, None]
    log_likelihood = np.where(silent, 0.0, -0.5 * r**2 / total - 0.5 * np.log(total))
    weight = share + log_likelihood
    weight = np.exp(weight - weight.max(axis=(1, 2), keepdims=True))
    weight /= weight.sum(axis=(1, 2), keepdims=True)
    shape = residual.size, -1
    means, sd = ratio * r, np.sqrt(np.where(silent, prior, noise * (prior / total)))
    return weight.reshape(shape), means.reshape(shape), sd.reshape(shape)


def _invert_mixture(weight: Floats, mean: Floats, sd: Floats, levels: Floats) -> Floats:
    """Return the three quantiles of each row's mixture of normals, by bisection."""
    from scipy.special import ndtr  # noqa: PLC0415  importing hexveil must stay light

    quantiles = np.empty((weight.shape[0], levels.size))
    centre = np.sum(weight * mean, axis=1)
    square = np.sum(weight * (sd**2 + (mean - centre[:, None]) ** 2), axis=1)
    # Cantelli: a point of level q is at most sqrt((1 - q) / q) deviations from the mean.
    half_width = np.sqrt(square * (1.0 - levels[0]) / levels[0])
    for k, level in enumerate(levels):
        a, b = centre - half_width, centre + half_width
        for _ in range(_BISECTIONS):
            middle = (a + b) / 2.0
            below = np.sum(weight * ndtr((middle[:, None] - mean) / sd), axis=1) < level
            a, b = np.where(below, middle, a), np.where(below, b, middle)
        quantiles[:, k] = (a + b) / 2.0
    return quantiles
