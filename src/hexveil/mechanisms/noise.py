"""The door: the only way a value leaves, and the only module that imports the noise library.

OpenDP's discrete Laplace on integers is used: exact sampling, no floating point. There is no
seed, no switch and no scale of zero. Its measurement of scale R releases an integer vector at L1
distance d with a loss of at most d / R; here every call is one cell (or cells of equal scale),
so a user's loss over a release is the sum over its cells of its own integer sensitivity over R.
Its noisy max on integer scores is permute-and-flip, exact as well. The library's `monotonic`
distance is never asked for: it halves the booked loss of scores that all move one way, which
scores of ranks do not (ERRATA 12).
Its discrete Gaussian on integers is exact too. Maps with private presence, and means where
occupancy is public, ask for it where their holder states a δ, and nothing else does.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import max_divergence
from opendp.metrics import l1_distance, l2_distance, linf_distance
from opendp.mod import Domain, Measurement, Metric, enable_features

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import HexveilError
from hexveil.base.work_share import DRAWS, tell_share
from hexveil.mechanisms.stage_data import TAIL

enable_features("contrib")

ROOM = float(2**62)
"""Values plus noise must stay below this; the library would clamp at 2**63 without a word."""


def add_laplace(values: Ints, scales: Floats) -> Ints:
    """Return integers plus independent discrete Laplace noise, one positive scale each.

    Privacy
    -------
    Neighbours: decided by the caller. Sensitivity: a user who moves entry g by at most d_g
    (integers). Loss: Σ_g d_g / scales[g], exactly rational in the given doubles. Relies on the
    caller for the sensitivities, for having booked the loss, and for calling once.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Private.
    scales : ndarray of float64, shape (n,)
        In the same integer units. Public.

    Raises
    ------
    HexveilError
        If a scale is not positive and finite, or values or noise could leave the integer type;
        nothing has been drawn then.
    """
    return _add_noise(values, scales, _measurement)


def add_gaussian(values: Ints, deviations: Floats) -> Ints:
    """Return integers plus independent discrete Gaussian noise, one positive parameter each.

    Privacy
    -------
    Neighbours: decided by the caller. Sensitivity: a user who moves entry g by at most d_g
    (integers). Loss: zCDP of rho = Σ d_g² / (2 deviations[g]²), and the (ε, δ) of
    `gaussian_composition`; never a pure epsilon. Relies on the caller for the sensitivities,
    for having booked the loss, and for calling once.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Private.
    deviations : ndarray of float64, shape (n,)
        Parameter of the law, in the same integer units: its standard deviation but for the lattice.
        Public.

    Raises
    ------
    HexveilError
        If a parameter is not positive and finite, or values or noise could leave the integer type;
        nothing has been drawn then.
    """
    return _add_noise(values, deviations, _gaussian)


def _add_noise(values: Ints, scales: Floats, measurement: Callable[[float], Measurement]) -> Ints:
    """Return integers with the noise of a measurement for each distinct scale."""
    _check(values, scales)
    # Everything was checked before the first draw: what is drawn and then dropped by an error would
    # have been paid for all the same.
    noisy = np.empty(values.size, dtype=np.int64)
    # One call per distinct scale: the library takes longer to make a measurement than to draw.
    distinct, count = np.unique(scales, return_counts=True)
    order, end = np.argsort(scales, kind="stable"), np.cumsum(count)
    for scale, begin, stop in zip(distinct, end - count, end, strict=True):
        rows = order[begin:stop]
        noisy[rows] = measurement(float(scale))(values[rows])
        tell_share(DRAWS, float(stop) / values.size)
    return noisy


def noisy_max(scores: Ints, scale: float) -> int:
    """Return the position of the largest score, or of a lower one with falling odds.

    Privacy
    -------
    Neighbours: decided by the caller. Sensitivity: a user who moves every score by at most d (an
    integer). Loss: 2 d / scale (permute-and-flip, McKenna and Sheldon). Relies on the caller for
    the sensitivity, for having booked the loss, and for calling once.

    Parameters
    ----------
    scores : ndarray of int64, shape (n,)
        Private; at least one.
    scale : float
        In the same integer units. Public.

    Raises
    ------
    HexveilError
        If the scale is not positive and finite, there is no score, or scores are not integers
        below 2**62 in size; nothing has been drawn then.
    """
    if scores.dtype != np.int64 or scores.ndim != 1 or not scores.size:
        raise HexveilError("the noise door takes at least one int64 score.")
    if not (math.isfinite(scale) and scale > 0):
        raise HexveilError("a noise scale must be positive and finite.")
    # As doubles: the absolute value of the smallest int64 is negative.
    if not (np.abs(scores.astype(np.float64)) < ROOM).all():
        raise HexveilError("a score could leave the range of 64-bit integers.")
    return int(_selection(float(scale))(scores))


def _check(values: Ints, scales: Floats) -> None:
    if values.dtype != np.int64 or values.shape != scales.shape or values.ndim != 1:
        raise HexveilError("the noise door takes int64 values and one scale for each.")
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise HexveilError("a noise scale must be positive and finite.")
    if values.size and not (np.abs(values.astype(np.float64)) + TAIL * scales < ROOM).all():
        raise HexveilError(
            "a sum or its noise could leave the range of 64-bit integers; use a coarser quantum."
        )


@lru_cache(maxsize=1)
def _space() -> tuple[Domain, Metric]:
    """Return integer vectors under their L1 distance: made once, since making takes long."""
    return vector_domain(atom_domain(T="i64")), l1_distance(T="i64")


def _measurement(scale: float) -> Measurement:
    return make_laplace(*_space(), scale=scale)


def _gaussian(deviation: float) -> Measurement:
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return make_gaussian(*space, scale=deviation)


@lru_cache(maxsize=64)
def _selection(scale: float) -> Measurement:
    space = vector_domain(atom_domain(T="i64")), linf_distance(T="i64")
    return make_noisy_max(*space, max_divergence(), scale=scale)


class VettedNoise:
    """The noise door as the source of a release: the only one that a release is given."""

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise, shape (1, entries): see `add_laplace`."""
        flat = np.broadcast_to(np.asarray(scales, dtype=np.float64), values.shape)
        return add_laplace(values.ravel(), flat.ravel()).reshape(values.shape)

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus discrete Gaussian noise, shape (1, entries): see `add_gaussian`."""
        flat = np.broadcast_to(np.asarray(deviations, dtype=np.float64), values.shape)
        return add_gaussian(values.ravel(), flat.ravel()).reshape(values.shape)

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate chosen among each row's runs: see the function `noisy_max`."""
        rows = zip(*np.broadcast_arrays(scores, sizes), strict=True)
        selected = [noisy_max(np.repeat(score, size), scale) for score, size in rows]
        return np.array(selected, dtype=np.int64)
