"""Random effects of the two kinds of cells: hexagons in timeslots, and public labels.

Hexagons: parents one and two resolutions up, the same hexagon, the same slot, the same hour of
day, the parent in the same slot, neighbours over edges, slots near in time. Labels: one effect
per column, a correlated one where the labels are numbers, and one per pair of columns where there
are three or more.
An effect with one label explains nothing and is left out, and so is one with a label per cell,
unless it is correlated.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import hexagons
from hexveil.base.errors import InputError
from hexveil.smoothing.random_effects import (
    RandomEffect,
    correlate_across_edges,
    correlate_along_axis,
    drop_uninformative,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from hexveil.base.arrays import Ints


_DAY, _HOUR = 86_400, 3_600
_CORRELATION_STEPS = 2.0
"""Steps of an axis over which the correlation falls to 1/e."""
_CORRELATION_DOUBLINGS = 5.0
"""Doublings of the number of users over which it falls to 1/e: nearly linear over most maps."""


def group_hexagons(hexagon: ArrayLike, slot: ArrayLike | None = None) -> tuple[RandomEffect, ...]:
    """Return the random effects of hexagons, in timeslots or not.

    Parameters
    ----------
    hexagon : array_like of uint64, shape (n_cells,)
        H3 indexes of one resolution.
    slot : array_like of int, shape (n_cells,), optional
        Local start of each cell's slot in seconds: since midnight where all are below a day
        (hours then form a circle), else since the start of 1970.

    Raises
    ------
    InputError
        If an index is no hexagon, or the hexagons are of several resolutions.
    """
    index = np.asarray(hexagon, dtype=np.uint64)
    ups = _parents(index)
    same = _codes(index)
    effects = [RandomEffect("same hexagon", same)]
    effects += [RandomEffect(name, _codes(parent)) for name, parent in ups]
    if slot is not None:
        start = np.asarray(slot, dtype=np.int64)
        if start.shape != index.shape:
            raise InputError(f"slot must be one start per cell: {index.size} cells, {start.size}.")
        effects += _in_time(start)
        effects += [
            RandomEffect(f"{name}, same slot", _pairs(_codes(up), start)) for name, up in ups[:1]
        ]
        period = float(_DAY) if start.size and start.min() >= 0 and start.max() < _DAY else None
        effects += _smooth_axis("near in time", start.astype(np.float64), period)
    # Neighbours are hexagons; effects are labelled by their index among those of the map.
    labels = np.searchsorted(np.unique(index), hexagons.neighbours(index))
    edges = correlate_across_edges("neighbouring hexagons", same, labels)
    return drop_uninformative([*effects, *([edges] if edges else [])])


def group_labels(columns: Mapping[str, Sequence[str]]) -> tuple[RandomEffect, ...]:
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
    sizes = {len(labels) for labels in columns.values()}
    if len(sizes) != 1:
        raise InputError("every column of labels must have one label per cell.")
    codes = {name: _codes(np.asarray(labels, dtype=str)) for name, labels in columns.items()}
    effects = [RandomEffect(f"same {name}", code) for name, code in codes.items()]
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
            effects += _smooth_axis(f"near in {name}", place, 24.0 if clock else None)
    return drop_uninformative(effects)


def group_user_counts(effective_users: ArrayLike) -> tuple[RandomEffect, ...]:
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
    smooth = correlate_along_axis("near in number of users", place, _CORRELATION_DOUBLINGS)
    return drop_uninformative([smooth] if smooth else [])


def _parents(index: NDArray[np.uint64]) -> list[tuple[str, NDArray[np.uint64]]]:
    """Return the hexagons one and two resolutions up, named, as far as there are any."""
    # Resolution and mode are bits of an H3 index; see its specification.
    level = (index >> np.uint64(52)) & np.uint64(15)
    mode = index >> np.uint64(59)
    if index.ndim != 1 or np.any(mode != 1):
        raise InputError("hexagon must be one H3 cell index per cell; some are not.")
    if np.unique(level).size > 1:
        raise InputError("the hexagons of a map must be of one resolution, and these are of more.")
    resolution = int(level[0]) if level.size else 0
    try:
        ups = [(r, hexagons.parents(index, r)) for r in (resolution - 1, resolution - 2) if r >= 0]
    except (ValueError, RuntimeError):
        raise InputError("a cell has no parent hexagon: its index is no H3 cell.") from None
    return [(f"same hexagon at resolution {r}", parent) for r, parent in ups]


def _in_time(start: Ints) -> list[RandomEffect]:
    """Return the effects of slot and of hour of the day."""
    hour = start % _DAY // _HOUR
    return [RandomEffect("same slot", start), RandomEffect("same hour of day", hour)]


def _smooth_axis(name: str, place: NDArray[np.float64], period: float | None) -> list[RandomEffect]:
    """Return the correlated effect along an axis of at least three places, if it fits."""
    steps = np.diff(np.unique(place))
    if steps.size < 2:
        return []
    smooth = correlate_along_axis(name, place, _CORRELATION_STEPS * float(np.median(steps)), period)
    return [] if smooth is None else [smooth]


def _numbers(labels: Sequence[str]) -> NDArray[np.float64] | None:
    """Return labels as numbers, or None where one is not a plain number."""
    try:
        place = np.array([float(label) for label in labels])
    except ValueError:
        return None
    return place if place.size and np.isfinite(place).all() else None


def _codes(label: NDArray[np.generic]) -> Ints:
    """Return each label's place among the distinct ones."""
    return np.asarray(np.unique(label, return_inverse=True)[1], dtype=np.int64)


def _pairs(codes: Ints, partner_codes: Ints) -> Ints:
    """Return one code per pair of codes."""
    return _codes(_codes(codes) * (np.unique(partner_codes).size + 1) + _codes(partner_codes))
