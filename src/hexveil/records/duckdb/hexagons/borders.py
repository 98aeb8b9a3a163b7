"""Borders between hexagons as lines in degrees: the tangent of an edge in its middle.

An edge is an arc of a great circle between two corners, as H3 draws it on the icosahedron.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import hexagons

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats

    Names = NDArray[np.uint64]

CORNERS = 6


def tangents(pairs: Names, per_degree: float, close: float) -> Floats:
    """Return the tangent of the edge between each two hexagons; NaN where they share none.

    Parameters
    ----------
    pairs : ndarray of uint64, shape (2, n)
    per_degree : float
        Pixels in a degree, in which distances from a tangent are.
    close : float
        Pixels within which two corners are one.

    Returns
    -------
    ndarray of float, shape (3, n)
    """
    names, place = np.unique(pairs, return_inverse=True)
    rings = _rings(names)
    ring_a, ring_b = (rings[row] for row in place.reshape(pairs.shape))
    # Per corner of the first hexagon its distance to the nearest corner of the second.
    distance = np.abs(ring_a[:, :, None] - ring_b[:, None]).max(axis=3).min(axis=2)
    shared = distance * per_degree < close
    usable = shared.sum(axis=1) == 2
    # The two shared corners sort to the front; where there are not two, the result is not used.
    ends = np.take_along_axis(ring_a, np.argsort(~shared, kind="stable")[:, :2, None], axis=1)
    normal = np.cross(_vectors(ends[:, 0]), _vectors(ends[:, 1]))
    middle = ends.mean(axis=1)
    # Turned so that the first hexagon is on the positive side.
    normal *= np.sign((normal * _vectors(ring_a.mean(axis=1))).sum(axis=1))[:, None]
    value = (normal * _vectors(middle)).sum(axis=1)
    slope = _slopes(normal, middle)
    constant = value - slope[0] * middle[:, 1] - slope[1] * middle[:, 0]
    # NaN compares as false with every margin: such an edge decides no place.
    pixel = np.where(usable, np.hypot(*slope) / per_degree, np.nan)
    return np.asarray(np.stack((constant, *slope)) / pixel)


def _rings(names: Names) -> Floats:
    """Return the corners of hexagons, longitude and latitude; shape (n, 6, 2).

    NaN for a hexagon with more or fewer corners.
    """
    rings = np.full((names.size, CORNERS, 2), np.nan)
    for i, name in enumerate(names.tolist()):
        ring = hexagons.outline(name)
        if len(ring) == CORNERS:
            rings[i] = ring
    return rings


def _vectors(places: Floats) -> Floats:
    """Return places, longitude and latitude, as unit vectors, a row each."""
    b, a = np.radians(places.T)
    return np.stack((np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)), axis=-1)


def _slopes(normal: Floats, places: Floats) -> Floats:
    """Return how normal @ place grows with a degree of latitude, and with one of longitude."""
    b, a = np.radians(places.T)
    north = np.stack((-np.sin(a) * np.cos(b), -np.sin(a) * np.sin(b), np.cos(a)), axis=-1)
    east = np.stack((-np.cos(a) * np.sin(b), np.cos(a) * np.cos(b), np.zeros_like(a)), axis=-1)
    return np.stack([(normal * direction).sum(axis=1) for direction in (north, east)]) * (
        math.pi / 180.0
    )
