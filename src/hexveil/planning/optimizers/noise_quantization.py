"""Few noise scales: a release of many cells draws its noise in groups of equal scale.

A draw of a scale of its own costs the noise library about fifteen times one of many of a scale.
So where a plan would have very many scales its noise is rounded to eight binary digits, before
factors and noise are fitted to the loss that was asked: what the plan states, what is booked and
what is drawn are then one number. A noise moves by at most a 256th of itself where it is rounded to
the nearest, by less than a 128th where it is rounded to one side. Times one factor they are as few
as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats


MAX_DISTINCT_SCALES = 1_000
"""Scales that are drawn apart without much ado."""
SIGNIFICANT_BITS = 8
"""Binary digits that are kept of more: at most 128 scales between a scale and its double."""


def quantize_noise_scales(noise: Floats, rounding: np.ufunc = np.rint) -> Floats:
    """Return noise of few different sizes: as it is, or rounded to eight binary digits.

    Parameters
    ----------
    noise : ndarray of float, shape (n,)
        Zero or above; zeros stay.
    rounding : np.rint, np.floor or np.ceil
        Whether it may become a little larger and smaller, smaller only, or larger only.

    Examples
    --------
    >>> np.unique(quantize_noise_scales(np.linspace(1.0, 2.0, 5000))).size
    129
    >>> quantize_noise_scales(np.array([0.0, 1.001]))
    array([0.   , 1.001])
    """
    if np.unique(noise).size <= MAX_DISTINCT_SCALES:
        return noise
    mantissa, power = np.frexp(noise)
    # Only the rounding itself rounds: the other steps move the binary point.
    return np.asarray(
        np.ldexp(rounding(np.ldexp(mantissa, SIGNIFICANT_BITS)), power - SIGNIFICANT_BITS),
        dtype=np.float64,
    )
