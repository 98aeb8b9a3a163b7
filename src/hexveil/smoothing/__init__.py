"""Smoothing: estimates of released maps, in which cells borrow strength. Post-processing only.

`smooth` takes plain arrays of released numbers and noise scales, and effects of cells;
`group_hexagons` and `group_labels` build the effects of the two kinds of cells, `group_user_counts`
that of cells with similar numbers of users, `correlate_along_axis` and `correlate_across_edges`
correlated ones of any other kind.
"""

from hexveil.smoothing.cell_groupings import (
    RandomEffect,
    correlate_across_edges,
    correlate_along_axis,
    group_hexagons,
    group_labels,
    group_user_counts,
)
from hexveil.smoothing.shrinkage import Smoothed, smooth

__all__ = [
    "RandomEffect",
    "Smoothed",
    "correlate_across_edges",
    "correlate_along_axis",
    "group_hexagons",
    "group_labels",
    "group_user_counts",
    "smooth",
]
