"""The grids that a data set is looked at on: resolutions, timeslots, and levels of labels.

Resolutions follow from where the records are, and from the size of the fleet, whatever resolution
they were read with: from the coarsest with a map of hexagons (`MIN_HEXAGONS`; a step finer has some
seven times as many) to one beyond the finest that may be usable. Noise is about span G / (ε L) in G
cells of L units, and a range is at best `NARROWEST` times as narrow as the bounds.

Where cells are combinations of labels, a level is some of the columns: all of `origin` and `hour`,
or `origin` alone, or `hour` alone. Records that are at hand are counted again on each level; sums
that were made elsewhere have no records, and there the cells of the data set are merged.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hexveil.base import hexagons
from hexveil.base import scratch as scratch_folder
from hexveil.base.errors import InputError
from hexveil.base.scratch import ColumnFile
from hexveil.base.work_share import COUNTING, share_of_work
from hexveil.model.cells import Cells, CellTable, Labels, OneCell, slot_seconds
from hexveil.model.occupancy import LocalOccupancy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hexveil.model.public_metadata import PublicMetadata, Recount, Unit
    from hexveil.planning.plan_data import MomentFigures

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
RECOUNT_SHARE = 0.3
"""Share of a comparison of grids that reading the records again takes, about."""


def grids_to_try(
    facts: PublicMetadata,
    resolutions: Sequence[int] | None = None,
    timeslots: Sequence[str | None] | None = None,
    levels: Sequence[Sequence[str]] | None = None,
    *,
    most_cells: float = 0.0,
) -> tuple[Cells | Labels, ...]:
    """Return the grids that are compared; by default those that fit the records, and the own.

    Parameters
    ----------
    facts : PublicMetadata
    resolutions, timeslots, levels
        As for `hexveil.capacity`.
    most_cells : float
        Cells that the fleet may support at most, about: see `most_cells_of`.

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
    if resolutions is None:
        resolutions = resolutions_to_try(facts, grid, most_cells)
    if timeslots is None:
        timeslots = [grid.timeslot, *coarser_slots(grid)]
    return tuple(replace(grid, resolution=r, timeslot=t) for r in resolutions for t in timeslots)


def most_cells_of(plan: MomentFigures) -> float:
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
    return {r: np.unique(hexagons.parents(cells, r)).size for r in range(finest)} | {
        finest: cells.size
    }


def label_levels(grid: Labels, levels: Sequence[Sequence[str]] | None = None) -> tuple[Labels, ...]:
    """Return the levels of labels: those requested, or each choice of columns, most first.

    Examples
    --------
    >>> [one.columns for one in label_levels(Labels("origin", "hour"))]
    [('origin', 'hour'), ('origin',), ('hour',)]
    """
    if levels is None:
        sizes = range(len(grid.columns), 0, -1)
        selection = (subset for size in sizes for subset in combinations(grid.columns, size))
        # Choices of columns double with each column.
        return tuple(
            Labels(*subset) for subset, _ in zip(selection, range(MOST_LEVELS), strict=False)
        )
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


def coarser_slots(grid: Cells) -> tuple[str, ...]:
    """Return the offered timeslots that are longer than the grid's."""
    current = grid.seconds
    return tuple(s for s in OFFERED_SLOTS if current is not None and slot_seconds(s) > current)


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


def on_each_grid(
    facts: PublicMetadata,
    grids: tuple[Cells | Labels, ...],
    unit: Unit,
    work: Callable[[Cells | Labels, PublicMetadata | None], T],
    *,
    every: bool,
    part: tuple[float, float] = (0.0, 1.0),
    activity: str = OTHER_GRIDS,
) -> Iterator[T]:
    """Yield the result of some work on the public facts of each grid: the one loop over grids.

    With the first grid the records are read again. Pairs of a grid are freed before the next. Facts
    are None where no cell is left. Without `every`, grids are left out that are the same map as the
    data set's own, or as one before them: places far apart have as many hexagons at several
    resolutions. `part` is the begin and the end of this work in the activity that is shown.
    """
    own_grid = facts.cells.grid if unit == facts.privacy_unit else None
    map_names = set() if every or own_grid is None else {_map_of(facts)}
    one_by_one = counted(facts, grids, unit)
    shares = RECOUNT_SHARE + (1.0 - RECOUNT_SHARE) * np.arange(len(grids) + 1) / max(len(grids), 1)
    shares[0] = 0.0
    ends = part[0] + (part[1] - part[0]) * shares
    for number, grid in enumerate(grids):
        with share_of_work(activity, float(ends[number]), float(ends[number + 1]), COUNTING):
            metadata = next(one_by_one)
            name = None if metadata is None or every else _map_of(metadata)
            is_new = name is None or grid == own_grid or name not in map_names
            if name is not None:
                map_names.add(name)
            result = [work(grid, metadata)] if is_new else []
            del metadata
        yield from result


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
        declared = [own for own in plans if own is not None]
        yield from declared
        n_tried += 1
        is_usable = is_usable and any(own.refusal is None for own in declared)


def _n_places(facts: Any) -> int:  # noqa: ANN401  declared, of one value column or of several
    return getattr(facts, "leading", facts).cells.n_places or 0


def _map_of(facts: PublicMetadata) -> tuple[str, int | None] | None:
    """Return counts and number of hexagons of a map; None where pairs stay elsewhere."""
    is_known = facts.occupancy.is_local and isinstance(facts.cells.grid, Cells)
    # Cells of other hexagons may have the same users, where each is visited at its own hour.
    return (facts.occupancy.fingerprint, facts.cells.n_places) if is_known else None


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


# ---- counts on other grids that are kept, in memory or in a temporary file ----

MOST_KEPT_PAIRS = 1 << 23
"""Pairs of all grids together that are kept in memory: 200 MB."""
_BLOCK = 1 << 20
"""Pairs that are written at once."""
_NOTHING = LocalOccupancy.from_coo([], [], [])


@dataclass(frozen=True, eq=False)
class KeptCounts:
    """Counts on other grids that are kept: the records are read once for each grid.

    Attributes
    ----------
    recount : Recount
        Counts the records.
    scratch : str or None
        Where pairs go that are too many for memory: see `hexveil.base.scratch`.
    """

    recount: Recount
    scratch: str | None = None
    _counted: dict[tuple[Cells | Labels, Unit], PublicMetadata | _FiledFacts | None] = field(
        default_factory=dict, repr=False
    )

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> Iterator[PublicMetadata | None]:
        """Yield the public facts on each grid: see `Recount`."""
        missing = tuple(
            grid for grid in dict.fromkeys(grids) if (grid, privacy_unit) not in self._counted
        )
        counted = iter(self.recount(missing, privacy_unit) if missing else ())
        for grid in grids:
            key = grid, privacy_unit
            if key not in self._counted:
                self._keep(key, next(counted))
            remaining = self._counted[key]
            yield remaining.load() if isinstance(remaining, _FiledFacts) else remaining

    def _keep(self, key: tuple[Cells | Labels, Unit], facts: PublicMetadata | None) -> None:
        """Keep the facts on a grid; in a file where memory has no room."""
        retained = sum(
            item.occupancy.n_pairs
            for item in self._counted.values()
            # Pairs that stay elsewhere take no memory here.
            if item is not None and not isinstance(item, _FiledFacts) and item.occupancy.is_local
        )
        if (
            facts is None
            or not facts.occupancy.is_local
            or retained + facts.occupancy.n_pairs <= MOST_KEPT_PAIRS
        ):
            self._counted[key] = facts
        else:
            self._counted[key] = _FiledFacts.of(facts, self.scratch)


@dataclass(frozen=True, eq=False, repr=False)
class _FiledFacts:
    """Public facts with their pairs in a temporary file."""

    facts: PublicMetadata
    file: ColumnFile
    sizes: tuple[int, int]
    n_blocks: int

    @classmethod
    def of(cls, facts: PublicMetadata, scratch: str | None) -> _FiledFacts:
        """Write the pairs to a file."""
        occupancy = facts.occupancy.local()
        with ExitStack() as opened:
            # Made private, and checked to be so, as for records; a file without a name outlives it.
            file = ColumnFile(opened.enter_context(scratch_folder.folder(scratch)))
        starts = range(0, occupancy.n_pairs, _BLOCK)
        for start in starts:
            rows = slice(start, start + _BLOCK)
            file.append((occupancy.cell[rows], occupancy.user[rows], occupancy.n[rows]))
        sizes = occupancy.n_cells, occupancy.n_users
        return cls(replace(facts, occupancy=_NOTHING), file, sizes, len(starts))

    def load(self) -> PublicMetadata:
        """Return the facts with their pairs."""
        blocks = [self.file.read(number) for number in range(self.n_blocks)]
        columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
        occupancy = LocalOccupancy(columns[0], columns[1], columns[2], *self.sizes)
        return replace(self.facts, occupancy=occupancy)
