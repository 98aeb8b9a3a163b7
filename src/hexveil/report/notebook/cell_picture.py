"""Content of a picture of released cells: one column in one slot, of either privacy model.

Hexagons are outlines on one projection, which is the same for all slots; labels are numbers with
intervals. The colour scale is that of all slots, so that pictures of two slots can be compared.
Everything comes from the released table and its manifest: which cells of a map with private
presence are open was decided by noisy numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError, suggest
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.geography.projection import projected_rings
from hexveil.report.manifest_view import RANGE, ManifestView, column_prefixes, numbers_of
from hexveil.report.payload import colour_ends, slot_text

MAX_BARS = 40
"""Cells of labels that a picture has; with more, those with the most records are shown."""
NOISE = "noise"
GRADES = ("caution", CUT_OFF, NOISE)
"""Grades that a legend explains."""
_GRADED = ("noisy", "raw", "estimate", "smoothed")
"""Keys of columns whose cells have a quality."""


@dataclass(frozen=True, eq=False)
class CellPicture(ReadOnlyArrays):
    """Cells of one slot with a number each, as they are drawn.

    Attributes
    ----------
    title, label : str
        Title of the picture; name of the number with its unit of measure.
    names : tuple of str
        Hexagon or labels of each cell.
    value : ndarray of float, shape (n_cells,)
    low, high : ndarray of float, shape (n_cells,)
        Ends of the intervals; the value itself where the column has none.
    quality : tuple of str
        Grade of each cell: "good", "caution", "cut off" or "noise".
    scale : tuple of float
        Ends of the colour scale.
    outlines : tuple of ndarray of float, shape (n_corners, 2), or None
        Corners of each cell in metres east and north of the map's middle; None for labels.
    others : tuple of ndarray of float
        Outlines of hexagons without a number: those that the release has in other slots alone, or
        closed ones.
    """

    title: str
    label: str
    names: tuple[str, ...]
    value: Floats
    low: Floats
    high: Floats
    quality: tuple[str, ...]
    scale: tuple[float, float]
    outlines: tuple[Floats, ...] | None = None
    others: tuple[Floats, ...] = ()

    @property
    def has_intervals(self) -> bool:
        """Whether any cell has an interval."""
        return bool((self.low < self.high).any())

    @property
    def lies_above(self) -> Bools:
        """Whether the longer side of each cell's interval is above its number, for cells cut off.

        Shape (n_cells,).
        """
        return np.asarray(self.high - self.value >= self.value - self.low)


def picture_of(
    table: pa.Table, view: ManifestView, name: str, slot: str | None = None
) -> CellPicture:
    """Return the picture of a column in a slot.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    view : ManifestView
    name : str
        Of a column of numbers.
    slot : str, optional
        As in the column `slot`; default the one with the most records, or the most open cells.

    Raises
    ------
    InputError
        If the column has no numbers, or the release does not have the slot.
    """
    kind = table.schema.field(name).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise InputError(
            f"plot draws numbers, and the column {name!r} has none; name a statistic, such as "
            f"{view.statistic!r}."
        )
    statistic = _statistic_of(name, view)
    view = replace(view, shown=statistic) if statistic else view
    value, low, high = _intervals(table, view, name, statistic)
    grades = _grades(table, view, name, statistic)
    has_number = ~np.isnan(value)
    counts = "records" if "records" in table.column_names else ""
    weights = table[counts].to_numpy() if counts else has_number.astype(np.float64)
    slot = select_slot(table, slot, weights)
    rows = _rows_of(table, slot)
    visible = rows[has_number[rows]]
    is_mapped = "hexagon" in table.column_names
    subject = view.heading if statistic else name.replace("_", " ").capitalize()
    title = _title(table, subject, slot, rows.size - visible.size)
    if not is_mapped:
        unit = counts or ("units" if name == "users" else name)
        if visible.size > MAX_BARS:
            title += f" ({MAX_BARS} of {visible.size:,} cells, those with most {unit})"
        # Stable, so that equal input gives an equal picture; the largest numbers come first.
        most = np.argsort(-(weights if counts else value)[visible], kind="stable")[:MAX_BARS]
        visible = visible[np.sort(most)]
        visible = visible[np.argsort(-value[visible], kind="stable")]
    outlines, others = _outlines_of(table, visible) if is_mapped else (None, ())
    names = view.cell_names(table)
    return CellPicture(
        title=title,
        label=f"{name} ({view.unit_text})" if statistic and view.unit_text else name,
        names=tuple(names[row] for row in visible),
        value=value[visible],
        low=low[visible],
        high=high[visible],
        quality=tuple(grades[row] for row in visible),
        # Of all slots: equal colours mean equal numbers in each of them.
        scale=colour_ends(value, grades),
        outlines=outlines,
        others=others,
    )


def _statistic_of(name: str, view: ManifestView) -> str:
    """Return the prefix of the statistic that a column belongs to; "" for counts and weights."""
    known = (*column_prefixes(view.statistics), *RANGE)
    return next((entry for entry in known if name == entry or name.startswith(f"{entry}_")), "")


def select_slot(table: pa.Table, slot: str | None, weights: Floats) -> str | None:
    """Return the slot to draw: the one named, else the one with the largest sum of weights.

    None where the release has no slots; InputError if it does not have this one.
    """
    if "slot" not in table.column_names:
        if slot is not None:
            raise InputError("the release has no timeslots; leave slot out.")
        return None
    names, position = np.unique(np.array(table["slot"].to_pylist()), return_inverse=True)
    if slot is None:
        return str(names[np.argmax(np.bincount(position, weights))])
    if slot not in names:
        raise InputError(f"the release has no slot {slot!r}; {suggest(str(slot), names.tolist())}")
    return slot


def _rows_of(table: pa.Table, slot: str | None) -> Ints:
    """Return the rows of a slot, all rows without slots."""
    if slot is None:
        return np.arange(table.num_rows)
    return np.flatnonzero(np.array(table["slot"].to_pylist()) == slot)


def _intervals(
    table: pa.Table, view: ManifestView, name: str, statistic: str
) -> tuple[Floats, Floats, Floats]:
    """Return a column and the ends of its intervals, which are the column where it has none."""
    value, key = numbers_of(table, name), name.removeprefix(f"{statistic}_")
    low = high = value
    if f"{name}_low" in table.column_names:
        low, high = numbers_of(table, f"{name}_low"), numbers_of(table, f"{name}_high")
    elif statistic and key == "raw":
        # Where estimates were smoothed, the ends in the table are not about the raw number.
        low, high = view.bound_limits(table)
    elif statistic and key in ("estimate", "smoothed") and view.estimator(table):
        low, high = numbers_of(table, f"{statistic}_low"), numbers_of(table, f"{statistic}_high")
    return value, np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)


def _grades(table: pa.Table, view: ManifestView, name: str, statistic: str) -> list[str]:
    """Return the quality of each cell: "good" of columns that do not estimate the statistic."""
    is_graded = name == statistic
    if statistic and view.estimator(table):
        is_graded = name.removeprefix(f"{statistic}_") in _GRADED
    return view.grades(table) if is_graded else ["good"] * table.num_rows


def _outlines_of(table: pa.Table, rows: Ints) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the outlines of these rows, and those of hexagons in other rows alone."""
    hexagons = table["hexagon"].to_pylist()
    # Of all slots: a projection of some hexagons would move the others.
    distinct = list(dict.fromkeys(hexagons))
    projection, rings = projected_rings(distinct)
    corners = {
        name: np.multiply(ring, projection.unit, dtype=np.float64)
        for name, ring in zip(distinct, rings, strict=True)
    }
    present = [hexagons[row] for row in rows]
    absent = [name for name in distinct if name not in set(present)]
    return tuple(corners[name] for name in present), tuple(corners[name] for name in absent)


def _title(table: pa.Table, subject: str, slot: str | None, n_closed: int) -> str:
    """Return the title of a picture: its statistic, its slot and the number of closed cells."""
    title = subject
    if slot is not None:
        row = table["slot"].to_pylist().index(slot)
        end = str(table["slot_end"][row].as_py()) if "slot_end" in table.column_names else ""
        title += f", {slot_text(slot, end)}"
    cells = "1 cell" if n_closed == 1 else f"{n_closed:,} cells"
    grey = ": grey" if "hexagon" in table.column_names else ""
    return f"{title} ({cells} closed{grey})" if n_closed else title
