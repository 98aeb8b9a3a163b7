"""The street that each hexagon is known by: of the named lines through it, the longest there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base import hexagons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SAMPLES = 8
"""Points that a street has across a hexagon."""
COARSEST = 7
"""Hexagons larger than these are crossed by so many streets that none describes them."""
MAX_SAMPLES = 2_000_000
_METRES = 111_195.0
"""Of a degree of latitude."""


def streets_through(
    names: Sequence[str], lines: Sequence[tuple[str, Sequence[tuple[float, float]]]]
) -> dict[str, str]:
    """Return the street of each hexagon that has one.

    Parameters
    ----------
    names : sequence of str
        H3 indexes of one resolution, as hex text.
    lines : sequence of (str, line)
        Names of streets with longitude and latitude along each; a street may have many lines.

    Returns
    -------
    dict of str to str
        The street with the greatest length in each hexagon; of equals the first of the list.
    """
    if not names or not lines or (level := hexagons.resolution_of(int(names[0], 16))) < COARSEST:
        return {}
    number = {name: row for row, name in enumerate(dict.fromkeys(name for name, _ in lines))}
    width = float(np.ptp([lat for _, lat in hexagons.outline(int(names[0], 16))]))
    wanted = {int(name, 16): name for name in names}
    steps = [_sampled(np.array(line, dtype=np.float64), width / SAMPLES) for _, line in lines]
    place, length = (np.concatenate(parts) for parts in zip(*steps, strict=True))
    street = np.repeat([number[name] for name, _ in lines], [len(one) for one, _ in steps])
    lat, lon = pa.array(place[:, 1]), pa.array((place[:, 0] + 540) % 360 - 180)
    cells = np.asarray(hexagons.of_places(lat, lon, level), dtype=np.uint64)
    inside = np.isin(cells, np.array(list(wanted), dtype=np.uint64))
    # In one type: a mixture would become floats, which do not hold an index.
    keys = np.column_stack([cells, street.astype(np.uint64)])[inside]
    pairs, row = np.unique(keys, axis=0, return_inverse=True)
    total = np.bincount(row.ravel(), length[inside], minlength=len(pairs))
    texts = list(number)
    # The last one wins: by length, and of equals the first street.
    order = np.lexsort((-pairs[:, 1].astype(np.int64), np.round(total, 3)))
    return {wanted[int(cell)]: texts[int(of)] for cell, of in pairs[order]}


def _sampled(
    line: NDArray[np.float64], step: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points along a line, at most `step` degrees apart, and the metres that each has."""
    ends = np.diff(line, axis=0)
    shrink = math.cos(math.radians(float(line[:, 1].mean())))
    metres = np.hypot(ends[:, 0] * shrink, ends[:, 1]) * _METRES
    number = np.maximum(1, np.ceil(metres / (step * _METRES))).astype(np.int64)
    if number.sum() > MAX_SAMPLES:
        return np.empty((0, 2)), np.empty(0)
    segment = np.repeat(np.arange(len(ends)), number)
    # The middle of each part of a segment.
    first = np.repeat(np.cumsum(number) - number, number)
    share = (np.arange(len(segment)) - first + 0.5) / number[segment]
    return line[segment] + share[:, None] * ends[segment], metres[segment] / number[segment]
