"""Noise floor: a lower bound on the error of every plan without clipping.

Noise floor: publish G cell means, each a public weighted average of user means (weights
non-negative, summing to one) plus independent Laplace noise of scale b_g. A user's loss is
U Σ_g w_gl / b_g. Summed over the L users that is U Σ_g 1/b_g, at most L ε; by the harmonic and
arithmetic mean the average b_g is at least U G / (ε L).

With Gaussian noise of deviation r_g a user costs U² Σ_g w_gl² / r_g² as a square of μ. The weights
of a cell sum to one over at most L users, so that their squares sum to at least 1 / L. Summed over
users that is at least U² Σ_g 1 / (L r_g²), and at most L M; by the power mean the average r_g is at
least U √G / (L √M).
"""

from __future__ import annotations

import math

from hexveil.accounting.noise_law import GAUSSIAN

PRIOR_SHARE = 20
"""Default prior: cells differ from one constant by span / 20 on average."""


def noise_floor(span: float, n_cells: int, n_users: int, epsilon: float) -> float:
    """Mean |noise| below which no unclipped map can fall, in value units: U G / (ε L).

    Examples
    --------
    >>> round(noise_floor(90.0, 26, 1565, 1.0), 3)
    1.495
    """
    return span * n_cells / (epsilon * n_users)


def gaussian_noise_floor(span: float, n_cells: int, n_users: int, square: float) -> float:
    """Mean |noise| below which no unclipped map can fall under (ε, δ), in value units.

    Parameters
    ----------
    span : float
    n_cells, n_users : int
    square : float
        M, the square of μ that no user exceeds.

    Examples
    --------
    >>> round(gaussian_noise_floor(90.0, 26, 1565, 0.056), 3)
    0.989
    """
    deviation = span * math.sqrt(n_cells) / (n_users * math.sqrt(square))
    return GAUSSIAN.mean_absolute * deviation
