"""The grids beside a data set's own: other resolutions, timeslots, and levels of labels.

Where cells are combinations of labels, a level is some of the columns: all of `origin` and `hour`,
or `origin` alone, or `hour` alone. Records that are at hand are counted again on each level; sums
that were made elsewhere have no records, and there the cells of the data set are merged.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.model.cells import Cells, CellTable, Labels, OneCell, slot_seconds
from hexveil.model.occupancy import LocalOccupancy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexveil.model.public_metadata import PublicMetadata, Unit

OTHER_GRIDS = "Planning on other grids"
"""The activity whose completed share is told, where it is shown."""
OFFERED_SLOTS = ("1h", "3h", "6h", "1d")
"""Timeslots that are offered beside the data set's own."""
MOST_LEVELS = 63
"""Levels that are offered, those of most columns first: all of six columns."""
RECOUNT_SHARE = 0.3
"""Share of a comparison of grids that reading the records again takes, about."""


def grids_to_try(
    facts: PublicMetadata,
    resolutions: Sequence[int] | None = None,
    timeslots: Sequence[str | None] | None = None,
    levels: Sequence[Sequence[str]] | None = None,
) -> tuple[Cells | Labels, ...]:
    """Return the grids that are compared; by default those around the data set's own.

    Raises
    ------
    InputError
        If the data set has no such grids.
    """
    grid = facts.cells.grid
    if isinstance(grid, Labels):
        if resolutions is not None or timeslots is not None:
            raise InputError(
                "resolutions and timeslots go with cells of places; these cells are combinations "
                f"of {', '.join(grid.columns)}: give levels, some of these columns each."
            )
        if isinstance(grid, OneCell):
            # All records are the coarsest level already; there is no column to read a finer one by.
            return (grid,)
        return label_levels(grid, levels)
    if levels is not None:
        raise InputError(
            "levels go with cells of labels; these cells are hexagons: give resolutions and "
            "timeslots."
        )
    if facts.recount is None:
        raise InputError(
            "what a fleet can support is counted on other grids, which needs records with places; "
            "this data set has none at hand."
        )
    return _around(grid, resolutions, timeslots)


def label_levels(grid: Labels, levels: Sequence[Sequence[str]] | None = None) -> tuple[Labels, ...]:
    """Return the levels of labels: those requested, or each choice of columns, most first.

    Examples
    --------
    >>> [one.columns for one in label_levels(Labels("origin", "hour"))]
    [('origin', 'hour'), ('origin',), ('hour',)]
    """
    if levels is None:
        sizes = range(len(grid.columns), 0, -1)
        chosen = (subset for size in sizes for subset in combinations(grid.columns, size))
        # Choices of columns double with each column.
        return tuple(Labels(*subset) for subset, _ in zip(chosen, range(MOST_LEVELS), strict=False))
    return tuple(_level(grid, (level,) if isinstance(level, str) else level) for level in levels)


def _level(grid: Labels, columns: Iterable[str]) -> Labels:
    level = Labels(*columns)
    unknown = [name for name in level.columns if name not in grid.columns]
    if unknown:
        raise InputError(
            f"levels: {unknown[0]!r} is not one of the columns that make a cell here, "
            f"{', '.join(grid.columns)}; read the records with it as a label first."
        )
    # In the grid's order, so that one level has one name however it was written.
    return Labels(*(name for name in grid.columns if name in level.columns))


def _around(
    grid: Cells,
    resolutions: Sequence[int] | None,
    timeslots: Sequence[str | None] | None,
) -> tuple[Cells, ...]:
    if resolutions is None:
        # One finer shows how far the fleet is from it; each coarser one has a seventh of the cells.
        resolutions = range(max(grid.resolution - 3, 0), min(grid.resolution + 1, 15) + 1)
    if timeslots is None:
        timeslots = [grid.timeslot, *coarser_slots(grid)]
    return tuple(replace(grid, resolution=r, timeslot=t) for r in resolutions for t in timeslots)


def coarser_slots(grid: Cells) -> tuple[str, ...]:
    """Return the offered timeslots that are longer than the grid's."""
    current = grid.seconds
    return tuple(s for s in OFFERED_SLOTS if current is not None and slot_seconds(s) > current)


def share_of_grid(number: int, n_grids: int) -> tuple[float, float]:
    """Return the begin and end of one grid's share in a comparison of grids.

    With the first grid the records are read again.
    """
    end = RECOUNT_SHARE + (1.0 - RECOUNT_SHARE) * (number + 1) / n_grids
    return (0.0 if number == 0 else end - (1.0 - RECOUNT_SHARE) / n_grids), end


def counted(
    facts: PublicMetadata, grids: tuple[Cells | Labels, ...], unit: Unit
) -> Iterator[PublicMetadata | None]:
    """Return the public facts on each grid, one after another; None where no cell is left.

    Raises
    ------
    InputError
        If another privacy unit is asked for and there are no records to count.
    """
    if facts.recount is None and unit != facts.privacy_unit:
        raise InputError(
            f"what a fleet can support per {unit} is counted from records; this data set holds "
            f"sums per {facts.privacy_unit} alone."
        )
    if facts.recount is None:
        return (merged(facts, grid) for grid in grids if isinstance(grid, Labels))
    own = facts.cells.grid if unit == facts.privacy_unit else None
    others = facts.recount(tuple(grid for grid in grids if grid != own), unit)
    return _with_own(facts, grids, own, iter(others))


def _with_own(
    facts: PublicMetadata,
    grids: tuple[Cells | Labels, ...],
    own: Cells | Labels | None,
    others: Iterator[PublicMetadata | None],
) -> Iterator[PublicMetadata | None]:
    """Yield the facts on each grid: those at hand on the data set's own, counted on the others."""
    for grid in grids:
        yield replace(facts, recount=None) if grid == own else next(others)


def merged(facts: PublicMetadata, level: Labels) -> PublicMetadata:
    """Return the public facts with all cells of the same labels of a level made one.

    Records of cells that were left out by selection stay out. A merged cell has at least the users
    of each of its cells, and there are no more of them than before: what was asked of the number of
    users and of cells still holds.
    """
    table = np.array([facts.cells.labels[name] for name in level.columns], dtype=object).T
    rows = [tuple(row) for row in table]
    # By bytes, as records are sorted.
    names = sorted(set(rows), key=lambda row: [label.encode() for label in row])
    place = {name: number for number, name in enumerate(names)}
    number = np.array([place[row] for row in rows], dtype=np.int64)
    occupancy = facts.occupancy.local()
    merged = LocalOccupancy.from_coo(number[occupancy.cell], occupancy.user, occupancy.n)
    labels = {name: tuple(row[i] for row in names) for i, name in enumerate(level.columns)}
    return replace(facts, occupancy=merged, cells=CellTable(level, labels=labels), recount=None)
