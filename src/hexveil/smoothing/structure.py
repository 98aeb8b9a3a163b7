"""Who borrows from whom: groupings of cells, some of them smooth along an axis or over edges.

A grouping gives every cell a label; cells of one label share an effect. Effects of a grouping are
independent, unless it carries a correlation: then near labels have similar effects. Everything
here is public: places, times and names of cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST_CORRELATED = 800
"""Labels of a correlated grouping at most: its matrix is dense."""


@dataclass(frozen=True)
class Grouping:
    """Cells put together by a label.

    Attributes
    ----------
    name : str
        For people: "same hexagon".
    label : ndarray of int, shape (n_cells,)
        Of each cell. Any integers: only which are equal matters.
    correlation : ndarray of float, shape (n_labels, n_labels), or None
        Of the effects of the distinct labels, in ascending order; 1 on the diagonal, positive
        definite. None: they are independent.
    """

    name: str
    label: NDArray[np.int64]
    correlation: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Refuse labels that are not one integer per cell, or a matrix of another size."""
        if self.label.ndim != 1 or not np.issubdtype(self.label.dtype, np.integer):
            raise InputError(f"grouping {self.name!r} needs one integer label per cell.")
        n = np.unique(self.label).size
        if self.correlation is not None and self.correlation.shape != (n, n):
            raise InputError(
                f"grouping {self.name!r} has {n} labels, so its correlation must be {n} by {n}."
            )

    @property
    def informative(self) -> bool:
        """Whether some cells are together and some apart, or labels are near and far."""
        n = np.unique(self.label).size
        return n > 1 and (n < self.label.size or self.correlation is not None)


def kept(groupings: list[Grouping]) -> tuple[Grouping, ...]:
    """Return the groupings that say something: several labels, fewer than cells or correlated.

    Of independent groupings that split the cells alike only the first stays.
    """
    found: list[Grouping] = []
    seen: set[bytes] = set()
    for grouping in groupings:
        split = _split(grouping.label).tobytes()
        smooth = grouping.correlation is not None
        if grouping.informative and (smooth or split not in seen):
            found.append(grouping)
            seen |= set() if smooth else {split}
    return tuple(found)


def along_axis(
    name: str, place: ArrayLike, reach: float, period: float | None = None
) -> Grouping | None:
    """Return a grouping by place on an axis, whose effects are the more alike the nearer.

    The correlation of two places at distance d is exp(-d / reach).

    Parameters
    ----------
    name : str
    place : array_like of float, shape (n_cells,)
        Of each cell: the number of its slot, its hour.
    reach : float
        Distance over which the correlation falls to 1/e, in the unit of `place`.
    period : float, optional
        Length of the circle, if the axis is one: 24 for hours of the day.

    Returns
    -------
    Grouping or None
        None where there are more than `MOST_CORRELATED` places.
    """
    places, label = np.unique(np.asarray(place, dtype=np.float64), return_inverse=True)
    if places.size > MOST_CORRELATED:
        return None
    apart = np.abs(places[:, None] - places[None, :])
    if period is not None:
        apart = np.minimum(apart, period - apart)
    return Grouping(name, label.astype(np.int64), np.exp(-apart / reach))


def across_edges(name: str, label: ArrayLike, pairs: ArrayLike) -> Grouping | None:
    """Return a grouping by label whose effects are alike between neighbours.

    The precision is the identity plus the edges' Laplacian, scaled to unit variances: an effect
    is a normal one around the mean of its neighbours'.

    Parameters
    ----------
    name : str
    label : array_like of int, shape (n_cells,)
    pairs : array_like of int, shape (n_edges, 2)
        Labels that are neighbours. Pairs with a label that no cell has are left out.

    Returns
    -------
    Grouping or None
        None where there are more than `MOST_CORRELATED` labels, or no edge.
    """
    labels, index = np.unique(np.asarray(label), return_inverse=True)
    ends = np.asarray(pairs).reshape(-1, 2)
    ends = ends[np.isin(ends, labels).all(axis=1) & (ends[:, 0] != ends[:, 1])]
    if labels.size > MOST_CORRELATED or not ends.size:
        return None
    one, other = np.searchsorted(labels, ends).T
    near = np.zeros((labels.size, labels.size))
    near[one, other] = near[other, one] = 1.0
    precision = np.diag(1.0 + near.sum(axis=1)) - near
    covariance = np.linalg.inv(precision)
    size = np.sqrt(np.diag(covariance))
    return Grouping(name, index.astype(np.int64), covariance / np.outer(size, size))


def _split(label: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return labels renamed by first appearance: equal splits become equal arrays."""
    _, first, index = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[index], dtype=np.int64)
