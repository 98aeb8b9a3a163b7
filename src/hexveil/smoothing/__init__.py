"""Smoothing: what a released map says once cells borrow from each other. Post-processing only.

`smooth` takes plain arrays of released numbers and noise scales, and groupings of cells;
`of_hexagons` and `of_labels` build the groupings of the two kinds of cells, `along_axis` and
`across_edges` smooth ones of any other kind.
"""

from hexveil.smoothing.cells import of_hexagons, of_labels
from hexveil.smoothing.shrinkage import Smoothed, smooth
from hexveil.smoothing.structure import Grouping, across_edges, along_axis

__all__ = [
    "Grouping",
    "Smoothed",
    "across_edges",
    "along_axis",
    "of_hexagons",
    "of_labels",
    "smooth",
]
