"""Exact privacy loss of a whole release, per user.

Source: ERRATA 3, which replaces COMP Theorem II.3 (cells counted) by the sum over a user's own
sensitivities.
Neighbours: all values of one user, in all its cells at once, change within the bounds.
Symbols: m a user's samples in a cell, N the cell's samples, U the width of the bounds, b noise
scales, p = m/N.

Proof. Cells and statistics receive independent Laplace noise, so the log-ratio of the densities
of the whole release at two neighbouring data sets is the sum over cells and statistics of
(|y - f(D')| - |y - f(D)|) / b, each term at most |f(D) - f(D')| / b by the triangle inequality,
hence at most s/b with s the *user's own* sensitivity there: only this user's values differ. The
bound is attained jointly over cells because a user's values in different cells are free of each
other, and each cell's outcome y may lie beyond both f(D) and f(D').

Mean and variance of one cell share values. A user of at most ceil(N/2) samples moves both most
at once: its values go from one bound to the other while all others stay at the first, so the
plain sum is exact. For p > 1/2 let z <= p U be how far the mean moves, and shift the bounds to
[0, U]. A variance is never negative, and at most a (U - a) around a mean a.
If z >= U/2, the higher of the two means is at least z and the lower at most U - z; so both
variances are at most z (U - z), and so is their difference. If z < U/2, the variances differ by at
most U²/4 and the loss is below that of z = U/2 in the same formula. So the loss is at most the
largest z/b_mean + z (U - z)/b_var for z up to p U: a concave function, largest at
z = min(p U, (U + b_var/b_mean)/2). The plain sum is charged where that is smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.sensitivity import variance_share
from hexveil.base.errors import InputError
from hexveil.base.rational import sum_upper_bounds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hexveil.model.occupancy import LocalOccupancy


def privacy_loss(
    occupancy: LocalOccupancy,
    mean_scale: ArrayLike | None,
    variance_scale: ArrayLike | None,
    span: float,
    *,
    mean_sensitivity: ArrayLike | None = None,
    variance_sensitivity: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Loss of each user over all cells and statistics, in epsilon, rounded up.

    Sum over a user's cells of s_mean / b_mean + s_var / b_var (ERRATA 3), with the joint formula
    where a user holds more than half of a cell and both statistics are released with the
    sensitivities of unprojected data.

    Parameters
    ----------
    occupancy : Occupancy
        Public counts.
    mean_scale, variance_scale : array_like of float, shape (n_cells,), or None
        Laplace scale per cell, in value units and squared value units; None if the statistic is
        not released, infinity (or 0 sensitivity) where a cell publishes a constant.
    span : float
        Width of the bounds, in value units.
    mean_sensitivity, variance_sensitivity : array_like of float, shape (n_pairs,), optional
        One per (cell, user) pair, in the order of the occupancy, for weights or projections.

    Returns
    -------
    ndarray of float, shape (n_users,)

    Raises
    ------
    InputError
        If a scale is not positive, or an array has the wrong length.

    Examples
    --------
    >>> from hexveil import Occupancy
    >>> privacy_loss(Occupancy.from_dense([[2], [2]]), [1.0], None, 1.0).round(9).tolist()
    [0.5, 0.5]
    """
    total = occupancy.records_per_cell[occupancy.cell]
    mean_s = _per_pair(mean_sensitivity, span * (occupancy.n / total), occupancy)
    var_s = _per_pair(variance_sensitivity, span**2 * variance_share(occupancy.n, total), occupancy)
    mean_b = _scale_per_pair(mean_scale, occupancy, "mean_scale")
    var_b = _scale_per_pair(variance_scale, occupancy, "variance_scale")
    terms = _ratio(mean_s, mean_b) + _ratio(var_s, var_b)
    if mean_sensitivity is None and variance_sensitivity is None:
        large = 2 * occupancy.n > total + 1  # more than ceil(N/2)
        joint = _joint(span * (occupancy.n / total), mean_b, var_b, span)
        terms = np.where(large, np.minimum(terms, joint), terms)
    # Each term was computed by at most a dozen correctly rounded operations. In the joint formula
    # U - z loses digits where z is near U, but only if b_var >= (2 z - U) b_mean: then what is lost
    # is tiny beside z/b_mean.
    return sum_upper_bounds(occupancy.user, terms * (1.0 + 2.0**-48), occupancy.n_users)


def _joint(
    reach: NDArray[np.float64],
    mean_b: NDArray[np.float64],
    var_b: NDArray[np.float64],
    span: float,
) -> NDArray[np.float64]:
    """Return max over z <= reach of z/b_mean + z (U - z)/b_var."""
    with np.errstate(invalid="ignore", divide="ignore"):
        best = (span + var_b / mean_b) / 2
    z = np.minimum(reach, np.where(np.isnan(best), reach, best))
    return _ratio(z, mean_b) + _ratio(z * (span - z), var_b)


def _ratio(s: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return s/b, where nothing moves by nothing."""
    return np.divide(s, b, out=np.zeros_like(s), where=s > 0)


def _per_pair(
    values: ArrayLike | None, default: NDArray[np.float64], occupancy: LocalOccupancy
) -> NDArray[np.float64]:
    if values is None:
        return default
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (occupancy.n_pairs,) or (array < 0).any() or np.isnan(array).any():
        raise InputError(
            f"a sensitivity is needed for each of the {occupancy.n_pairs} (cell, user) pairs, "
            f"none of them negative; got an array of shape {array.shape}."
        )
    return array


def _scale_per_pair(
    scales: ArrayLike | None, occupancy: LocalOccupancy, name: str
) -> NDArray[np.float64]:
    if scales is None:
        return np.full(occupancy.n_pairs, np.inf)
    array = np.asarray(scales, dtype=np.float64)
    if array.shape != (occupancy.n_cells,):
        raise InputError(f"{name} needs one scale per cell ({occupancy.n_cells}).")
    if not (array > 0).all():
        raise InputError(f"{name} must be positive everywhere; use infinity for a constant.")
    return array[occupancy.cell]
