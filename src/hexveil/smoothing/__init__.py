"""Smoothing: what a released map says once cells borrow from each other. Post-processing only.

`smooth` takes plain arrays of released numbers and noise scales, and groupings of cells;
`of_hexagons` and `of_labels` build the groupings of the two kinds of cells, `of_crowds` that of
cells with about as many users, `along_axis` and `across_edges` smooth ones of any other kind.
`Cut` and `skewed` say what clipping hides from the numbers.
"""

from hexveil.smoothing.bias import Cut, skewed
from hexveil.smoothing.cells import of_crowds, of_hexagons, of_labels
from hexveil.smoothing.shrinkage import Smoothed, smooth
from hexveil.smoothing.structure import Grouping, across_edges, along_axis

__all__ = [
    "Cut",
    "Grouping",
    "Smoothed",
    "across_edges",
    "along_axis",
    "of_crowds",
    "of_hexagons",
    "of_labels",
    "skewed",
    "smooth",
]
