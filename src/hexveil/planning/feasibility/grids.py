"""The grids that a data set is looked at on: resolutions, timeslots, and levels of labels.

Resolutions follow from where the records are, and from the size of the fleet, whatever resolution
they were read with: from the coarsest with a map of hexagons (`MIN_HEXAGONS`; a step finer has some
seven times as many) to one beyond the finest that may be usable. Noise is about span G / (ε L) in G
cells of L units, and a range is at best `NARROWEST` times as narrow as the bounds.

Where cells are combinations of labels, a level is some of the columns: all of `origin` and `hour`,
or `origin` alone, or `hour` alone. Records are counted again on each level; sums that were made
elsewhere have no records, so that their own cells alone are looked at.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, islice
from typing import Any, TypeVar

import numpy as np

from hexveil.base import hexagons
from hexveil.base.errors import InputError
from hexveil.model.cells import Cells, Labels, OneCell, slot_seconds
from hexveil.model.occupancy import LocalOccupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.moment_component import MomentComponent

T = TypeVar("T")


OTHER_GRIDS = "Planning on other grids"
"""The activity whose completed share is told, where it is shown."""
OFFERED_SLOTS = ("1h", "3h", "6h", "1d")
"""Timeslots that are offered beside the data set's own."""
MOST_LEVELS = 63
"""Levels that are offered, those of most columns first: all of six columns."""
MIN_CELLS = 3
"""Cells of a map."""
MIN_HEXAGONS = 3
"""Hexagons of a map: with fewer, one number describes the area, or a slot."""
NARROWEST = 4.0
"""How many times narrower than the bounds a range is that users' averages allow, about."""
PROBED = 3
"""Resolutions by which a grid is refined that has too few hexagons to show where records are."""
MOST_RESOLUTIONS = 6
FINEST = 15


def grids_to_try(facts: PublicMetadata, most_cells: float) -> tuple[Cells | Labels, ...]:
    """Return the grids that fit the records and the fleet, and the data set's own.

    Parameters
    ----------
    facts : PublicMetadata
    most_cells : float
        Cells that the fleet may support at most, about: see `most_cells_of`.

    Raises
    ------
    InputError
        If the data set has no places to count again.
    """
    grid = facts.cells.grid
    # Of one cell there is no column to read a finer one by; other sums' records are not at hand.
    if isinstance(grid, OneCell) or (isinstance(grid, Labels) and facts.recount is None):
        return (grid,)
    if isinstance(grid, Labels):
        return label_levels(grid)
    if facts.recount is None:
        raise InputError(
            "what a fleet can support is counted on other grids, which needs records with places "
            "or labels; this data set has none at hand."
        )
    slots = [grid.timeslot, *coarser_slots(grid)]
    resolutions = resolutions_to_try(facts, grid, most_cells)
    return tuple(replace(grid, resolution=r, timeslot=t) for r in resolutions for t in slots)


def most_cells_of(plan: MomentComponent) -> float:
    """Return with how many cells a map of a plan's request may be usable at most, about."""
    baseline_share = plan.baseline_error / float(plan.upper.max() - plan.lower.min())
    return NARROWEST * float(plan.requested_epsilon) * plan.occupancy.n_users * baseline_share


def resolutions_to_try(facts: PublicMetadata, grid: Cells, most_cells: float) -> list[int]:
    """Return the resolutions from a map of few hexagons to one beyond the finest usable."""
    counts = _hexagons_by_resolution(facts, grid)
    finest_known = max(counts)
    coarsest = min((r for r in counts if counts[r] >= MIN_HEXAGONS), default=finest_known)
    growth = counts[finest_known] / counts.get(finest_known - 1, counts[finest_known])
    growth = min(max(growth, 2.0), 7.0)
    finest = coarsest
    while finest < min(FINEST, coarsest + MOST_RESOLUTIONS - 1):
        cells = counts.get(finest, counts[finest_known] * growth ** (finest - finest_known))
        if cells > most_cells:
            break
        finest += 1
    return sorted({grid.resolution, *range(coarsest, min(max(finest, coarsest + 1), FINEST) + 1)})


def _hexagons_by_resolution(facts: PublicMetadata, grid: Cells) -> dict[int, int]:
    """Return how many hexagons have records at each resolution, up to one that shows where."""
    assert facts.cells.hexagon is not None  # noqa: S101  of a grid of hexagons
    cells, resolution = np.unique(facts.cells.hexagon), grid.resolution
    while cells.size < MIN_HEXAGONS and resolution < FINEST and facts.recount is not None:
        resolution = min(resolution + PROBED, FINEST)
        finer = replace(grid, resolution=resolution, timeslot=None)
        (counts,) = facts.recount((finer,), facts.privacy_unit)
        # So fine that every cell is left out by selection: what is known has to do.
        if counts is None or counts.cells.hexagon is None:
            break
        cells = np.unique(counts.cells.hexagon)
    finest = hexagons.resolution_of(int(cells[0]))
    return {r: np.unique(hexagons.parents(cells, r)).size for r in range(finest + 1)}


def label_levels(grid: Labels) -> tuple[Labels, ...]:
    """Return the levels of labels: each choice of columns, most first.

    Examples
    --------
    >>> [one.columns for one in label_levels(Labels("origin", "hour"))]
    [('origin', 'hour'), ('origin',), ('hour',)]
    """
    sizes = range(len(grid.columns), 0, -1)
    selection = (subset for size in sizes for subset in combinations(grid.columns, size))
    # Choices of columns double with each column.
    return tuple(Labels(*subset) for subset in islice(selection, MOST_LEVELS))


def coarser_slots(grid: Cells) -> tuple[str, ...]:
    """Return the offered timeslots that are longer than the grid's."""
    current = grid.seconds
    return tuple(s for s in OFFERED_SLOTS if current is not None and slot_seconds(s) > current)


def counted(
    facts: PublicMetadata, grids: tuple[Cells | Labels, ...]
) -> Iterator[PublicMetadata | None]:
    """Return the public facts on each grid, one after another; None where no cell is left."""
    current = facts.cells.grid
    missing = tuple(grid for grid in grids if grid != current)
    others = iter(() if facts.recount is None else facts.recount(missing, facts.privacy_unit))
    # The facts of the data set's own grid are at hand.
    return (replace(facts, recount=None) if grid == current else next(others) for grid in grids)


def on_declared_grids(
    cells: Cells, declare: Callable[[Cells], Any], plan: Callable[[Any], Any]
) -> Iterator[Any]:
    """Yield the plans of a declared area on other grids, on paper: no record is counted.

    From a map of a few hexagons to the first resolution at which no timeslot is usable, and the
    declared one. A grid that cannot be declared, as it is too fine or too coarse, has no plan.
    """
    slots: list[str | None] = [None]
    if cells.timeslot is not None:
        slots = [*sorted({cells.timeslot, *OFFERED_SLOTS}, key=slot_seconds)]

    def on_grid(grid: Cells, work: Callable[[Any], T]) -> T | None:
        with suppress(InputError):
            return work(declare(grid))
        return None

    n_tried, is_usable = 0, True
    # Names of hexagons have one resolution.
    own_alone = hasattr(cells.area, "names")
    for resolution in [cells.resolution] if own_alone else range(FINEST + 1):
        grid, in_window = replace(cells, resolution=resolution), is_usable
        if resolution != cells.resolution:
            if not in_window or n_tried >= MOST_RESOLUTIONS:
                continue
            if (on_grid(replace(grid, timeslot=None), _n_places) or 0) < MIN_HEXAGONS:
                continue
        plans = [on_grid(replace(grid, timeslot=slot), plan) for slot in slots]
        declared = [built for built in plans if built is not None]
        yield from declared
        n_tried += 1
        is_usable = is_usable and any(built.refusal is None for built in declared)


def _n_places(facts: Any) -> int:  # noqa: ANN401  declared, of one value column or of several
    return getattr(facts, "leading", facts).cells.n_places or 0


def map_of(facts: PublicMetadata) -> tuple[str, int | None] | None:
    """Return counts and number of hexagons of a map; None where pairs stay elsewhere."""
    is_known = facts.occupancy.is_local and isinstance(facts.cells.grid, Cells)
    # Cells of other hexagons may have the same users, where each is visited at its own hour.
    return (facts.occupancy.fingerprint, facts.cells.n_places) if is_known else None


def with_min_users(metadata: PublicMetadata, min_users: int) -> PublicMetadata | None:
    """Return the public metadata of the cells with at least so many users; None without one.

    None, too, where pairs stay elsewhere and some cell has fewer: they are selected as they are
    read, so that a run with this number is another.
    """
    remaining = metadata.occupancy.users_per_cell >= min_users
    if remaining.all():
        return metadata
    if not remaining.any() or not metadata.occupancy.is_local:
        return None
    occupancy = metadata.occupancy.local()
    kept = remaining[occupancy.cell]
    rows, cell = np.unique(occupancy.cell[kept], return_inverse=True)
    user = np.unique(occupancy.user[kept], return_inverse=True)[1]
    smaller = LocalOccupancy.from_coo(cell, user, occupancy.n[kept])
    return replace(metadata, occupancy=smaller, cells=metadata.cells.take(rows), recount=None)
