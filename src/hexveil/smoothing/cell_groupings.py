"""Random effects of the two kinds of cells: hexagons in timeslots, and public labels.

Hexagons: parents one and two resolutions up, the same hexagon, the same slot, the same hour of
day, the parent in the same slot, neighbours over edges, slots near in time. Labels: one effect
per column, a correlated one where the labels are numbers, and one per pair of columns where there
are three or more.
An effect with one label explains nothing and is left out, and so is one with a label per cell,
unless it is correlated.

Random effects of cells, some of them correlated along an axis or over edges.

A random effect gives every cell a label; cells of one label share a value of the effect. The values
are independent, unless the effect has a correlation: then near labels have similar values.
Everything here is public: places, times and names of cells.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hexveil.base import hexagons
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError

_DAY, _HOUR = 86_400, 3_600
_CORRELATION_STEPS = 2.0
"""Steps of an axis over which the correlation falls to 1/e."""
_CORRELATION_DOUBLINGS = 5.0
"""Doublings of the number of users over which it falls to 1/e: nearly linear over most maps."""


def group_hexagons(hexagon: ArrayLike, slot: ArrayLike | None = None) -> "tuple[RandomEffect, ...]":
    """Return the random effects of hexagons, in timeslots or not.

    Parameters
    ----------
    hexagon : array_like of uint64, shape (n_cells,)
        H3 indexes of one resolution.
    slot : array_like of int, shape (n_cells,), optional
        Local start of each cell's slot in seconds: since midnight where all are below a day
        (hours then form a circle), else since the start of 1970.
    """
    index = np.asarray(hexagon, dtype=np.uint64)
    ups = _parents(index)
    same = _codes(index)
    effects: list[RandomEffect | None] = [RandomEffect("same hexagon", same)]
    effects += [RandomEffect(name, _codes(parent)) for name, parent in ups]
    if slot is not None:
        start = np.asarray(slot, dtype=np.int64)
        hour = start % _DAY // _HOUR
        effects += [RandomEffect("same slot", start), RandomEffect("same hour of day", hour)]
        effects += [RandomEffect(f"{name}, same slot", _pairs(up, start)) for name, up in ups[:1]]
        period = float(_DAY) if start.size and start.min() >= 0 and start.max() < _DAY else None
        effects.append(_smooth_axis("near in time", start.astype(np.float64), period))
    # Neighbours are hexagons; effects are labelled by their index among those of the map.
    labels = np.searchsorted(np.unique(index), hexagons.neighbours(index))
    effects.append(correlate_across_edges("neighbouring hexagons", same, labels))
    return drop_uninformative(effects)


def group_labels(columns: Mapping[str, Sequence[str]]) -> "tuple[RandomEffect, ...]":
    """Return the random effects of cells that are combinations of labels.

    Parameters
    ----------
    columns : mapping of str to sequence of str
        A column's name, and the label of each cell.

    Examples
    --------
    >>> hours = ["05", "06", "07", "05", "06", "07"]
    >>> cells = {"airport": ["JFK"] * 3 + ["LGA"] * 3, "hour": hours}
    >>> [effect.name for effect in group_labels(cells)]
    ['same airport', 'same hour', 'near in hour']
    """
    codes = {name: _codes(np.asarray(labels, dtype=str)) for name, labels in columns.items()}
    effects: list[RandomEffect | None] = [
        RandomEffect(f"same {name}", code) for name, code in codes.items()
    ]
    # With two columns a pair of labels is the cell itself, and explains nothing.
    if len(codes) > 2:
        effects += [
            RandomEffect(f"same {column} and {partner}", _pairs(codes[column], codes[partner]))
            for column, partner in combinations(codes, 2)
        ]
    for name, labels in columns.items():
        place = _numbers(labels)
        if place is not None:
            # Hours of a day form a circle: 23 is next to 0.
            clock = "hour" in name.lower() and place.min() >= 0 and place.max() < 24
            effects.append(_smooth_axis(f"near in {name}", place, 24.0 if clock else None))
    return drop_uninformative(effects)


def group_user_counts(effective_users: ArrayLike) -> "tuple[RandomEffect, ...]":
    """Return the effect that cells with similar numbers of users share, if numbers differ.

    Parameters
    ----------
    effective_users : array_like of float, shape (n_cells,)
        Users of each cell, above 0; those with few records may count less.

    Examples
    --------
    >>> [e.name for e in group_user_counts([10.0, 20.0, 80.0])], group_user_counts([7.0, 7.0])
    (['near in number of users'], ())
    """
    # In quarters of a doubling, so that labels stay few.
    place = np.round(4.0 * np.log2(np.asarray(effective_users, dtype=np.float64))) / 4.0
    return drop_uninformative(
        [correlate_along_axis("near in number of users", place, _CORRELATION_DOUBLINGS)]
    )


def _parents(index: NDArray[np.uint64]) -> list[tuple[str, NDArray[np.uint64]]]:
    """Return the hexagons one and two resolutions up, named, as far as there are any."""
    # The resolution is four bits of an H3 index; see its specification.
    resolution = int(index[0] >> np.uint64(52)) & 15 if index.size else 0
    above = [r for r in (resolution - 1, resolution - 2) if r >= 0]
    try:
        return [(f"same hexagon at resolution {r}", hexagons.parents(index, r)) for r in above]
    except (ValueError, RuntimeError):
        raise InputError("a cell has no parent hexagon: its index is no H3 cell.") from None


def _smooth_axis(name: str, place: Floats, period: float | None) -> "RandomEffect | None":
    """Return the correlated effect along an axis of at least three places, if it fits."""
    steps = np.diff(np.unique(place))
    if steps.size < 2:
        return None
    return correlate_along_axis(name, place, _CORRELATION_STEPS * float(np.median(steps)), period)


def _numbers(labels: Sequence[str]) -> Floats | None:
    """Return labels as numbers, or None where one is not a plain number."""
    try:
        place = np.array([float(label) for label in labels])
    except ValueError:
        return None
    return place if place.size and np.isfinite(place).all() else None


def _codes(label: NDArray[np.generic]) -> Ints:
    """Return each label's place among the distinct ones."""
    return np.asarray(np.unique(label, return_inverse=True)[1], dtype=np.int64)


def _pairs(label: NDArray[np.generic], partner: NDArray[np.generic]) -> Ints:
    """Return one code per pair of labels."""
    return _codes(_codes(label) * (np.unique(partner).size + 1) + _codes(partner))


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
    label: Ints
    correlation: Floats | None = None

    @property
    def informative(self) -> bool:
        """Whether some cells share a label and others do not, or labels are near and far."""
        n = np.unique(self.label).size
        return n > 1 and (n < self.label.size or self.correlation is not None)


def drop_uninformative(effects: Iterable[RandomEffect | None]) -> tuple[RandomEffect, ...]:
    """Return the effects with several labels, fewer than cells or correlated; None is no effect.

    Of independent effects that split the cells alike only the first stays.
    """
    informative: list[RandomEffect] = []
    splits: set[bytes] = set()
    for effect in filter(None, effects):
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


def _split(label: Ints) -> Ints:
    """Return labels renamed by first appearance: equal splits become equal arrays."""
    _, position, index = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(position))[index], dtype=np.int64)
