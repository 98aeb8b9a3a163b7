"""Hierarchical shrinkage of a map of noisy numbers: each cell borrows strength from similar cells.

Model: number = T + bias + noise of known scale, Laplace or under a δ Gaussian; T = mu + random
effects (one variance per effect) + own deviation, of a variance in inverse proportion to the
cell's users. Deviations and independent effects are Student t with four degrees, so that a cell
or group that differs hugely from all others keeps its number; effects correlated along an axis or
over edges are normal. Variances come from the numbers, intervals from each cell's
posterior. Bias cannot be separated from signal: estimates are fitted as if there
were none, and intervals are then widened for it.
Post-processing: a function of what is public already, without randomness; it costs no privacy.
The intervals are the model's: their coverage holds on average over cells of maps like the model,
not for every dataset and not for each cell.

Posterior. The prior of cell g given all other cells is normal (its effects, without g's
contribution to them) plus the heavy-tailed own deviation; the likelihood is that of its noisy
number under Laplace noise, or under a δ Gaussian noise. Their product is a mixture of normals. The
scale of own deviations is not known: a few scales around the fitted one are weighted by their
likelihood, and mixed.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Floats
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.errors import InputError
from hexveil.base.normal_law import ndtr
from hexveil.smoothing.cell_groupings import RandomEffect, drop_uninformative
from hexveil.smoothing.mixed_model import Design, FittedModel, fit_model
from hexveil.smoothing.mixed_noise import heavy_tailed, noise_parts

TYPICAL_BIAS_SHARE = 1.0 / 3.0
"""Standard deviation of a bias as a share of its worst case, where nothing better is given."""
BIAS_SDS = 2.4
"""Standard deviations of the bias that intervals are widened by: it is a prior's, so not 1.96."""
LAPLACE95, GAUSSIAN95 = math.log(20.0), 1.959964 * math.sqrt(2.0)
"""95 percent bound of noise of variance 2, by its law."""


@dataclass(frozen=True)
class Smoothed:
    """A smoothed map, and by which model.

    Attributes
    ----------
    estimate : ndarray of float, shape (n_cells,)
        Posterior medians, within the bounds.
    low, high : ndarray of float, shape (n_cells,)
        Ends of the model-based 95% intervals, within the bounds.
    effects : tuple of str or None
        Names of the fitted effects; None where fewer than two cells carry information and nothing
        was smoothed.
    left_out : tuple of str
        Names of effects that were too large to fit.
    widened : bool
        Whether the intervals are widened for bias.
    """

    estimate: Floats
    low: Floats
    high: Floats
    effects: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    widened: bool = False


@single_blas_thread()
def smooth(  # noqa: PLR0913  most of it by keyword
    noisy: ArrayLike,
    scale: ArrayLike,
    groupings: Iterable[RandomEffect] = (),
    *,
    effective_users: ArrayLike = 1.0,
    worst_bias: ArrayLike = 0.0,
    typical_bias: ArrayLike | None = None,
    lower: ArrayLike = -np.inf,
    upper: ArrayLike = np.inf,
    gaussian: bool = False,
) -> Smoothed:
    """Shrink a map's numbers towards those of similar cells, the more the larger the noise.

    Parameters
    ----------
    noisy : array_like of float, shape (n_cells,)
        Released numbers, before clamping, in value units.
    scale : array_like of float, shape (n_cells,) or scalar
        Scale of their Laplace noise. 0: a constant without information; others predict its cell.
    groupings : iterable of RandomEffect
        Effects that cells share; uninformative ones are left out.
    effective_users : array_like of float
        Users of each cell, those of few records counting less: the variance of own deviations is
        in inverse proportion, since a cell of few users differs more from others.
    worst_bias : array_like of float
        Largest bias in size, in value units.
    typical_bias : array_like of float, optional
        Standard deviation of the bias; `TYPICAL_BIAS_SHARE` of the worst where not given. It
        widens intervals and leaves estimates alone.
    lower, upper : array_like of float
        Limits of the true numbers.
    gaussian : bool
        Whether the noise is Gaussian, and `scale` its standard deviation.

    Raises
    ------
    InputError
        If there are fewer than two cells.

    Examples
    --------
    >>> done = smooth([10.0, 30.0, 20.0, 24.0, 16.0], 100.0)
    >>> float(np.ptp(done.estimate)) < 1.0
    True
    """
    y = np.atleast_1d(np.asarray(noisy, dtype=np.float64))
    if y.size < 2:
        raise InputError(
            f"smoothed needs more than one cell to borrow from, and the map has {y.size}; "
            "ask for raw alone, or for a finer grid."
        )
    if typical_bias is None:
        typical_bias = TYPICAL_BIAS_SHARE * np.asarray(worst_bias)
    per_cell = scale, typical_bias, effective_users, lower, upper
    b, t, users, low, high = (
        np.broadcast_to(np.asarray(column, np.float64), y.shape) for column in per_cell
    )
    # From here on the scale of noise of variance 2 b², whatever its law.
    b = b / np.sqrt(2.0) if gaussian else b
    # The variance of each cell's own deviation, the middle cell's being one.
    prior_width = np.median(users) / users
    effects = drop_uninformative(groupings)
    # Constants carry no information: two noisy numbers are needed to estimate any variance.
    if np.count_nonzero(b) < 2:
        return _without_smoothing(y, b, t, (low, high), GAUSSIAN95 if gaussian else LAPLACE95)
    design = Design(effects, y.size)
    centre, unit = _centre_and_unit(y[b > 0], b[b > 0])
    # Centred and scaled to about one, as the priors of the fit assume.
    z = np.where(b > 0, (y - centre) / unit, 0.0)
    fitted = fit_model(design, z, b / unit, prior_width, gaussian=gaussian)
    points = _widen_for_bias(
        centre + unit * posterior_quantiles(fitted, z, b / unit, prior_width), t
    )
    # True numbers cannot lie beyond the bounds: clamping narrows intervals at no risk.
    points = np.clip(points, low[:, None], high[:, None])
    return Smoothed(
        estimate=points[:, 1],
        low=points[:, 0],
        high=points[:, 2],
        effects=tuple(effects[k].name for k in design.fits),
        left_out=tuple(one.name for k, one in enumerate(effects) if k not in design.fits),
        widened=bool(t.any()),
    )


def _widen_for_bias(points: Floats, bias_sd: Floats) -> Floats:
    """Return low, middle and high of each cell, widened for a bias of a standard deviation."""
    low, middle, high = points.T
    half = BIAS_SDS * bias_sd
    low, high = middle - np.hypot(middle - low, half), middle + np.hypot(high - middle, half)
    return np.stack((low, middle, high), axis=1)


def _centre_and_unit(y: Floats, b: Floats) -> tuple[float, float]:
    """Return the map's centre and unit: its median, and its usual deviation or noise."""
    centre = float(np.median(y))
    # Median deviations, because outliers must not set the scale.
    usual_deviation = 1.5 * float(np.median(np.abs(y - centre))) or float(np.std(y))
    return centre, max(usual_deviation, float(np.median(b)) / 10.0)


def _without_smoothing(
    y: Floats, b: Floats, t: Floats, limits: tuple[Floats, Floats], limit95: float
) -> Smoothed:
    """Return a map in which fewer than two cells carry information: nothing is borrowed."""
    half, (low, high) = np.where(b > 0, b * limit95 + 2.0 * t, np.inf), limits
    return Smoothed(
        estimate=np.clip(y, low, high),
        low=np.clip(y - half, low, high),
        high=np.clip(y + half, low, high),
    )


# ---- posterior of the cells ----

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
    remaining = np.maximum(1.0 - model.precision * variance, 1e-6)
    return (mean - model.precision * variance * y) / remaining, variance / remaining


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
    squares, log_likelihood = residual[has_noise, None, None] ** 2, []
    for x in own_variances:
        total = x * prior_width[has_noise, None, None] * t_size[:, None] + noise
        density = share * np.exp(-0.5 * squares / total) / np.sqrt(total)
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
