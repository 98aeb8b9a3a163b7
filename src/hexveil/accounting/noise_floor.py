"""Noise floor: a lower bound on the error of every plan without clipping.

Noise floor: publish G cell means, each a public weighted average of user means (weights
non-negative, summing to one) plus independent Laplace noise of scale b_g. A user's loss is
U Σ_g w_gl / b_g. Summed over the L users that is U Σ_g 1/b_g, at most L ε; by the harmonic and
arithmetic mean the average b_g is at least U G / (ε L).
"""

from __future__ import annotations

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
