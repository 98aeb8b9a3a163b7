"""Two distributions as mixtures of normals: Student's t with four degrees of freedom, and Laplace.

A t variate is a normal one whose variance is 1/L with L of the gamma law of shape 2 and rate 2; a
Laplace variate of scale b is a normal one whose variance is 2 b² E, with E exponential of mean 1.
Each mixing law is cut into a few bins, and a bin is placed at its mean, so that the variance (2 for
t, 2 b² for Laplace) is kept exactly. With normal parts every posterior is a closed form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PRECISIONS = np.array([0.0, 1e-4, 0.003, 0.02, 0.08, 0.25, 0.6, 1.1, 1.8, np.inf])
_EXPONENTIALS = np.array([0.0, 0.07, 0.3, 0.8, 1.7, 3.2, 5.5, 9.0, np.inf])


def heavy_tailed() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def laplace() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def noise_parts(*, gaussian: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the shares and variances of the normal parts of noise of scale 1, of variance 2.

    Gaussian noise is one normal part; its scale here is its deviation over √2.
    """
    return (np.ones(1), np.full(1, 2.0)) if gaussian else laplace()


def _below(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how likely the gamma law of shape 2 and rate 2 is below `x`."""
    finite = np.where(np.isinf(x), 0.0, x)
    return np.where(np.isinf(x), 1.0, -np.expm1(-2.0 * finite) - 2.0 * finite * np.exp(-2 * finite))
