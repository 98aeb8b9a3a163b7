"""Hierarchical shrinkage of a map of noisy numbers: each cell borrows strength from similar cells.

Model: number = T + bias + noise of known scale, Laplace or under a δ Gaussian; T = mu + random
effects (one variance per effect) + own deviation, of a variance in inverse proportion to the
cell's users. Deviations and independent effects are Student t with four degrees, so that a cell
or group that differs hugely from all others keeps its number; effects correlated along an axis or
over edges are normal. Variances come from the numbers (`fit`), intervals from each cell's
posterior (`posterior`). Bias cannot be separated from signal: estimates are fitted as if there
were none, and intervals are then widened for it.
Post-processing: a function of what is public already, without randomness; it costs no privacy.
The intervals are the model's: their coverage holds on average over cells of maps like the model,
not for every dataset and not for each cell.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Floats
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.errors import InputError
from hexveil.smoothing.cell_groupings import RandomEffect, drop_uninformative
from hexveil.smoothing.mixed_model import Design, FittedModel, fit_model
from hexveil.smoothing.posterior import posterior_quantiles

TYPICAL_BIAS_SHARE = 1.0 / 3.0
"""Standard deviation of a bias as a share of its worst case, where nothing better is given."""
BIAS_SDS = 2.4
"""Standard deviations of the bias that intervals are widened by: it is a prior's, so not 1.96."""
LAPLACE95, GAUSSIAN95 = math.log(20.0), 1.959964 * math.sqrt(2.0)
"""95 percent bound of noise of variance 2, by its law."""
OWN_DEVIATION = "own"
"""Name of the deviation that a cell shares with no other."""


@dataclass(frozen=True)
class Smoothed:
    """A smoothed map, and how much of it is signal.

    Attributes
    ----------
    estimate : ndarray of float, shape (n_cells,)
        Posterior medians, within the bounds.
    low, high : ndarray of float, shape (n_cells,)
        Ends of the model-based 95% intervals, within the bounds.
    signal_share : float
        Share of the variance of the noisy numbers that is variation between cells, 0 to 1.
    distinguishable : int
        Cells whose interval excludes the mean of all estimates.
    deviations : mapping of str to float
        Fitted standard deviations in value units: "own" and one per fitted effect. Empty where
        fewer than two cells carry information and nothing was smoothed.
    left_out : tuple of str
        Names of effects that were too large to fit.
    widened : bool
        Whether the intervals are widened for bias.
    """

    estimate: Floats
    low: Floats
    high: Floats
    signal_share: float
    distinguishable: int
    deviations: Mapping[str, float]
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
    effects = drop_uninformative(list(groupings))
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
    fitted_names = [effects[k].name for k in design.fits]
    left_out = [effect.name for k, effect in enumerate(effects) if k not in design.fits]
    deviations = _deviations(design, fitted, fitted_names, unit)
    return Smoothed(
        estimate=points[:, 1],
        low=points[:, 0],
        high=points[:, 2],
        signal_share=_signal_share(deviations, b),
        distinguishable=_count_distinguishable(points),
        deviations=deviations,
        left_out=tuple(left_out),
        widened=bool(t.any()),
    )


def _widen_for_bias(points: Floats, bias_sd: Floats) -> Floats:
    """Return low, middle and high of each cell, widened for a bias of a standard deviation."""
    low, middle, high = points.T
    bias_half_width = BIAS_SDS * bias_sd
    ends = (
        middle - np.hypot(middle - low, bias_half_width),
        middle + np.hypot(high - middle, bias_half_width),
    )
    return np.stack((ends[0], middle, ends[1]), axis=1)


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
        signal_share=0.0,
        distinguishable=0,
        deviations={},
    )


def _deviations(
    design: Design, fitted: FittedModel, names: list[str], unit: float
) -> dict[str, float]:
    """Return the standard deviations by name, in value units."""
    own_deviation = {OWN_DEVIATION: float(unit * np.sqrt(2.0 * fitted.own_variance))}
    sizes = [np.sqrt(fitted.effects.squares[k].mean()) for k in design.fits]
    return own_deviation | {name: float(unit * s) for name, s in zip(names, sizes, strict=True)}


def _signal_share(deviations: Mapping[str, float], b: Floats) -> float:
    """Return the signal's share of the variance of the numbers; the remainder is noise."""
    signal = sum(s**2 for s in deviations.values())
    return float(signal / (signal + np.mean(2.0 * b[b > 0] ** 2)))


def _count_distinguishable(points: Floats) -> int:
    """Return how many intervals exclude the mean of all estimates."""
    overall = points[:, 1].mean()
    return int(np.count_nonzero((points[:, 0] > overall) | (points[:, 2] < overall)))
