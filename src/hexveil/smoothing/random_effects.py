"""Random effects of cells, some of them correlated along an axis or over edges.

A random effect gives every cell a label; cells of one label share a value of the effect. The values
are independent, unless the effect has a correlation: then near labels have similar values.
Everything here is public: places, times and names of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MAX_CORRELATED_LABELS = 800
"""A correlated effect of more labels is left out: its matrix is dense."""


@dataclass(frozen=True)
class RandomEffect:
    """Cells that share the values of an effect, by a label.

    Attributes
    ----------
    name : str
        For readers: "same hexagon".
    label : ndarray of int, shape (n_cells,)
        Label of each cell. Any integers: only equality matters.
    correlation : ndarray of float, shape (n_labels, n_labels), or None
        Correlation of the values of the distinct labels, in ascending order; 1 on the diagonal,
        positive definite. None: the values are independent.
    """

    name: str
    label: NDArray[np.int64]
    correlation: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Refuse labels that are not one integer per cell, or a matrix of another size."""
        if self.label.ndim != 1 or not np.issubdtype(self.label.dtype, np.integer):
            raise InputError(f"the effect {self.name!r} needs one integer label per cell.")
        n = np.unique(self.label).size
        if self.correlation is not None and self.correlation.shape != (n, n):
            raise InputError(
                f"the effect {self.name!r} has {n} labels, so its correlation must be {n} by {n}."
            )

    @property
    def informative(self) -> bool:
        """Whether some cells share a label and others do not, or labels are near and far."""
        n = np.unique(self.label).size
        return n > 1 and (n < self.label.size or self.correlation is not None)


def drop_uninformative(effects: list[RandomEffect]) -> tuple[RandomEffect, ...]:
    """Return the effects with several labels, fewer than cells or correlated.

    Of independent effects that split the cells alike only the first stays.
    """
    informative: list[RandomEffect] = []
    splits: set[bytes] = set()
    for effect in effects:
        # Equal splits explain the same: their variances could not be told apart.
        split = _split(effect.label).tobytes()
        smooth = effect.correlation is not None
        if effect.informative and (smooth or split not in splits):
            informative.append(effect)
            splits |= set() if smooth else {split}
    return tuple(informative)


def correlate_along_axis(
    name: str, place: ArrayLike, correlation_length: float, period: float | None = None
) -> RandomEffect | None:
    """Return an effect of the place on an axis, with correlated values of near places.

    The correlation of two places at distance d is exp(-d / correlation_length).

    Parameters
    ----------
    name : str
    place : array_like of float, shape (n_cells,)
        Place of each cell: the number of its slot, its hour.
    correlation_length : float
        Distance over which the correlation falls to 1/e, in the unit of `place`.
    period : float, optional
        Length of the circle, if the axis is one: 24 for hours of the day.

    Returns
    -------
    RandomEffect or None
        None where there are more than `MAX_CORRELATED_LABELS` places.
    """
    places, label = np.unique(np.asarray(place, dtype=np.float64), return_inverse=True)
    if places.size > MAX_CORRELATED_LABELS:
        return None
    distance = np.abs(places[:, None] - places[None, :])
    # On a circle the shorter way counts.
    if period is not None:
        distance = np.minimum(distance, period - distance)
    return RandomEffect(name, label.astype(np.int64), np.exp(-distance / correlation_length))


def correlate_across_edges(name: str, label: ArrayLike, pairs: ArrayLike) -> RandomEffect | None:
    """Return an effect by label, with correlated values of neighbours.

    The precision is the identity plus the edges' Laplacian, scaled to unit variances: a value is
    normal around the mean of its neighbours' values.

    Parameters
    ----------
    name : str
    label : array_like of int, shape (n_cells,)
    pairs : array_like of int, shape (n_edges, 2)
        Neighbouring labels. Pairs with a label that no cell has are left out.

    Returns
    -------
    RandomEffect or None
        None where there are more than `MAX_CORRELATED_LABELS` labels, or no edge.
    """
    labels, index = np.unique(np.asarray(label), return_inverse=True)
    ends = np.asarray(pairs).reshape(-1, 2)
    ends = ends[np.isin(ends, labels).all(axis=1) & (ends[:, 0] != ends[:, 1])]
    if labels.size > MAX_CORRELATED_LABELS or not ends.size:
        return None
    row, column = np.searchsorted(labels, ends).T
    adjacency = np.zeros((labels.size, labels.size))
    adjacency[row, column] = adjacency[column, row] = 1.0
    # The identity keeps the precision invertible, also where the map falls apart.
    precision = np.diag(1.0 + adjacency.sum(axis=1)) - adjacency
    covariance = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(covariance))
    # Scaled to unit variances, so that one fitted variance fits the whole effect.
    return RandomEffect(name, index.astype(np.int64), covariance / np.outer(sd, sd))


def _split(label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return labels renamed by first appearance: equal splits become equal arrays."""
    _, position, index = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(position))[index], dtype=np.int64)
