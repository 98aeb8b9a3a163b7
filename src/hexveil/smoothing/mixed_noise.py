"""Densities and tails of the sum of a Laplace and a normal number, in logarithms.

Symbols: b the scale of the Laplace number, s the standard deviation of the normal one, both above
0. With u = (s/b - r/s) / √2, v = (s/b + r/s) / √2 and r at least 0, the density is

    exp(s²/(2 b²)) (exp(-r/b) erfc(u) + exp(r/b) erfc(v)) / (4 b).

Factors that could underflow are taken out, and what remains is written in scaled complementary
error functions: no digits are lost where one of both numbers is much the larger.

Two distributions as mixtures of normals: Student's t with four degrees of freedom, and Laplace.

A t variate is a normal one whose variance is 1/L with L of the gamma law of shape 2 and rate 2; a
Laplace variate of scale b is a normal one whose variance is 2 b² E, with E exponential of mean 1.
Each mixing law is cut into a few bins, and a bin is placed at its mean, so that the variance (2 for
t, 2 b² for Laplace) is kept exactly. With normal parts every posterior is a closed form.
"""

import math

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.normal_law import erfcx

_PRECISIONS = np.array([0.0, 1e-4, 0.003, 0.02, 0.08, 0.25, 0.6, 1.1, 1.8, np.inf])
_EXPONENTIALS = np.array([0.0, 0.07, 0.3, 0.8, 1.7, 3.2, 5.5, 9.0, np.inf])
NARROW = 0.1
"""Width in noises up to which the density is taken at the middle of an interval."""


def log_mean_density(low: Floats, high: Floats, scale: Floats, sd: Floats) -> Floats:
    """Return the log of the mean density of Laplace plus normal noise, from `low` to `high`.

    Parameters
    ----------
    low, high : ndarray of float
        Ends of an interval of the noise, the former at most the latter.
    scale, sd : ndarray of float
        Scale of the Laplace number and standard deviation of the normal one, above 0.
    """
    width, noise = high - low, np.hypot(scale, sd)
    at_middle = log_noise_density((low + high) / 2.0, scale, sd)
    straddles = (low < 0.0) & (high > 0.0)
    near, far = (f(np.abs(low), np.abs(high)) for f in (np.minimum, np.maximum))
    log_near, log_far = log_noise_tail(near, scale, sd), log_noise_tail(far, scale, sd)
    # Ends on one side of 0: the difference of two tails; on either side: all but both.
    one_side = log_near + np.log(-np.expm1(np.minimum(log_far - log_near, -1e-300)))
    across = np.log1p(-np.minimum(np.exp(log_far) + np.exp(log_near), 1.0 - 1e-16))
    log_share = np.where(straddles, across, one_side)
    averaged = log_share - np.log(np.maximum(width, 1e-300))
    # From one form to the other without a jump: a narrow interval would be a difference of equals.
    blend = np.clip(width / (NARROW * noise) - 1.0, 0.0, 1.0)
    return np.where(blend > 0.0, at_middle + blend * (averaged - at_middle), at_middle)


def log_noise_tail(residual: Floats, scale: Floats, sd: Floats) -> Floats:
    """Return the log probability that Laplace plus normal noise exceeds a number of 0 or more."""
    r, ratio = residual / sd, sd / scale
    near, far = (ratio - r) / math.sqrt(2.0), (ratio + r) / math.sqrt(2.0)
    gauss, scaled = 2.0 * erfcx(r / math.sqrt(2.0)) - erfcx(far), erfcx(np.abs(near))
    centre = -0.5 * r * r + np.log(gauss + scaled)
    # Below 0 the complement is 2 less that of the size.
    excess = np.exp(-near * near) * np.where(near > 0.0, 0.0, gauss - scaled)
    tail = 0.5 * ratio**2 - ratio * r + np.log(2.0 + excess)
    return np.asarray(np.where(near > 0.0, centre, tail) - math.log(4.0))


def log_noise_density(residual: Floats, scale: Floats, sd: Floats) -> Floats:
    """Return the log density of the sum of a Laplace and a normal number.

    Parameters
    ----------
    residual, scale, sd : ndarray of float
        Place, scale of the Laplace number and standard deviation of the normal one, above 0.

    Examples
    --------
    >>> residual, scale = np.array([3.0]), np.array([2.0])
    >>> log_noise_density(residual, scale, np.array([1e-6])).round(6)  # as good as Laplace
    array([-2.886294])
    """
    r, ratio = np.abs(residual), sd / scale
    near, far = (ratio - r / sd) / math.sqrt(2.0), (ratio + r / sd) / math.sqrt(2.0)
    # Scaled complementary error functions, since both factors of either term may underflow.
    beyond, scaled = erfcx(far), erfcx(np.abs(near))
    centre = -0.5 * (r / sd) ** 2 + np.log(scaled + beyond)
    # Below 0 the complement is 2 less that of the size.
    excess = np.exp(-near * near) * np.where(near > 0.0, 0.0, beyond - scaled)
    tail = 0.5 * ratio**2 - r / scale + np.log(2.0 + excess)
    return np.asarray(np.where(near > 0.0, centre, tail) - np.log(4.0 * scale))


def heavy_tailed() -> tuple[Floats, Floats]:
    """Return the shares and variances of the normal parts of a t law of scale 1, four degrees.

    Examples
    --------
    >>> shares, variances = heavy_tailed()
    >>> round(float(shares @ variances), 12)
    2.0
    """
    low, high = _PRECISIONS[:-1], _PRECISIONS[1:]
    below = _below(low), _below(high)
    shares = below[1] - below[0]
    # E[1/L; bin] has the density 4 exp(-2 L).
    variances = 2.0 * (np.exp(-2.0 * low) - np.exp(-2.0 * high)) / shares
    return shares, variances


def laplace() -> tuple[Floats, Floats]:
    """Return the shares and variances of the normal parts of a Laplace law of scale 1.

    Examples
    --------
    >>> shares, variances = laplace()
    >>> round(float(shares @ variances), 12)
    2.0
    """
    low, high = _EXPONENTIALS[:-1], np.where(np.isinf(_EXPONENTIALS[1:]), 1e3, _EXPONENTIALS[1:])
    shares = np.exp(-low) - np.exp(-high)
    means = ((1.0 + low) * np.exp(-low) - (1.0 + high) * np.exp(-high)) / shares
    return shares, 2.0 * means


def noise_parts(*, gaussian: bool) -> tuple[Floats, Floats]:
    """Return the shares and variances of the normal parts of noise of scale 1, of variance 2.

    Gaussian noise is one normal part; its scale here is its deviation over √2.
    """
    return (np.ones(1), np.full(1, 2.0)) if gaussian else laplace()


def _below(x: Floats) -> Floats:
    """Return how likely the gamma law of shape 2 and rate 2 is below `x`."""
    finite = np.where(np.isinf(x), 0.0, x)
    return np.where(np.isinf(x), 1.0, -np.expm1(-2.0 * finite) - 2.0 * finite * np.exp(-2 * finite))
