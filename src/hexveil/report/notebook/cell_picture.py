"""Content of a picture of released cells, whichever library draws it.

A picture shows one column in one slot: hexagons as outlines on one projection, which is the same
for all slots; labels as numbers with intervals. The colour scale is that of all slots, so that
pictures of two slots can be compared. Everything comes from the released table and its manifest.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.geography.projection import centred_projection, unwrapped_rings
from hexveil.report.payload import round_ends, slot_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.report.manifest_view import ManifestView


MAX_BARS = 40
"""Cells of labels that a picture has; with more, those with the most records are shown."""
MAX_LISTED = 12
"""Names that a message lists."""
NOISE = "noise"
GRADES = ("caution", CUT_OFF, NOISE)
"""Grades that a legend explains."""
_GRADED = ("noisy", "raw", "estimate", "smoothed")
"""Keys of columns whose cells have a quality."""


@dataclass(frozen=True)
class PlottedColumn:
    """Column of a release, and the statistic that it belongs to.

    Attributes
    ----------
    name : str
        Name in the table.
    statistic, key : str
        "mean" and "raw" of `mean_raw`; two empty texts for public counts.
    """

    name: str
    statistic: str = ""
    key: str = ""


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
    def lies_above(self) -> NDArray[np.bool_]:
        """Whether the longer side of each cell's interval is above its number, for cells cut off.

        Shape (n_cells,).
        """
        return np.asarray(self.high - self.value >= self.value - self.low)


def picture_of(
    table: pa.Table, view: ManifestView, column: PlottedColumn, slot: str | None = None
) -> CellPicture:
    """Return the picture of a column in a slot.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    view : ManifestView
    column : PlottedColumn
        With numbers.
    slot : str, optional
        As in the column `slot`; default the one with the most records.

    Raises
    ------
    InputError
        If the column has no numbers, or the release does not have the slot.
    """
    kind = table.schema.field(column.name).type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise InputError(
            f"plot draws numbers, and the column {column.name!r} has none; name a statistic or a "
            "column such as 'records'."
        )
    if column.statistic:
        view = replace(view, shown=column.statistic)
    slot = select_slot(table, slot)
    rows = rows_of(table, slot)
    value, low, high = _numbers(table, view, column)
    quality = _quality(table, column)
    names = cell_names(table, view)
    is_mapped = "hexagon" in table.column_names
    outlines, others = outlines_of(table, rows) if is_mapped else (None, ())
    picture = CellPicture(
        title=_title(table, view, column, slot),
        label=_label(view, column),
        names=tuple(names[row] for row in rows),
        value=value[rows],
        low=low[rows],
        high=high[rows],
        quality=tuple(quality[row] for row in rows),
        # Of all slots: equal colours mean equal numbers in each of them.
        scale=round_ends(value[_counted(value, quality)]),
        outlines=outlines,
        others=others,
    )
    return picture if is_mapped else as_bars(picture, table["records"].to_numpy()[rows])


def select_slot(table: pa.Table, slot: str | None, weights: Floats | None = None) -> str | None:
    """Return the slot to draw: the one named, else the one with the most records, or weights.

    None where the release has no slots; InputError if it does not have this one.
    """
    if "slot" not in table.column_names:
        if slot is not None:
            raise InputError("the release has no timeslots; leave slot out.")
        return None
    slots = np.array(table["slot"].to_pylist())
    names, position = np.unique(slots, return_inverse=True)
    if slot is None:
        weights = table["records"].to_numpy() if weights is None else weights
        return str(names[np.argmax(np.bincount(position, weights))])
    if slot not in names:
        raise InputError(f"the release has no slot {slot!r}; {_suggest(str(slot), names.tolist())}")
    return slot


def _suggest(name: str, names: Sequence[str]) -> str:
    similar = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    listed = ", ".join(map(repr, names[:MAX_LISTED]))
    if len(names) > MAX_LISTED:
        listed += f" and {len(names) - MAX_LISTED} more"
    return f"did you mean {similar[0]!r}?" if similar else f"it has {listed}."


def rows_of(table: pa.Table, slot: str | None) -> NDArray[np.int64]:
    """Return the rows of a slot, all rows without slots."""
    if slot is None:
        return np.arange(table.num_rows)
    return np.flatnonzero(np.array(table["slot"].to_pylist()) == slot)


def _numbers(
    table: pa.Table, view: ManifestView, column: PlottedColumn
) -> tuple[Floats, Floats, Floats]:
    """Return a column and the ends of its intervals, which are the column where it has none."""
    value = np.asarray(table[column.name].to_numpy(), dtype=np.float64)
    match column.key:
        case "raw":
            # Where estimates were smoothed, the ends in the table are not about the raw number.
            low, high = view.bound_limits(table)
        case "estimate" | "smoothed":
            low, high = (
                np.asarray(table[f"{column.statistic}_{end}"].to_numpy(), dtype=np.float64)
                for end in ("low", "high")
            )
        case _:
            low = high = value
    return value, low, high


def _quality(table: pa.Table, column: PlottedColumn) -> list[str]:
    if column.key not in _GRADED:
        return ["good"] * table.num_rows
    return [str(grade) for grade in table[f"{column.statistic}_quality"].to_pylist()]


def _counted(value: Floats, quality: list[str]) -> NDArray[np.bool_]:
    """Return the cells that make the colour scale: noise would stretch it."""
    is_signal = np.array(quality) != NOISE
    return is_signal if is_signal.any() else np.ones(value.shape, dtype=np.bool_)


def cell_names(table: pa.Table, view: ManifestView) -> list[str]:
    """Return the hexagon or the labels of each row."""
    columns = ("hexagon",) if "hexagon" in table.column_names else view.label_columns or ("cell",)
    texts = [[str(text) for text in table[name].to_pylist()] for name in columns]
    return [" \u00b7 ".join(parts) for parts in zip(*texts, strict=True)]


def outlines_of(
    table: pa.Table, rows: NDArray[np.int64]
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the outlines of these rows, and those of hexagons in other rows alone."""
    hexagons = table["hexagon"].to_pylist()
    # Of all slots: a projection of some hexagons would move the others.
    distinct = list(dict.fromkeys(hexagons))
    rings = unwrapped_rings(distinct)
    projection = centred_projection(rings)
    corners = {
        name: np.multiply(projection.steps(*np.array(ring).T), projection.unit, dtype=np.float64)
        for name, ring in zip(distinct, rings, strict=True)
    }
    present = [hexagons[row] for row in rows]
    absent = [name for name in distinct if name not in set(present)]
    return tuple(corners[name] for name in present), tuple(corners[name] for name in absent)


def _title(table: pa.Table, view: ManifestView, column: PlottedColumn, slot: str | None) -> str:
    return title_of(table, view.heading if column.statistic else column.name.capitalize(), slot)


def title_of(table: pa.Table, subject: str, slot: str | None) -> str:
    """Return the title of a picture: its statistic and its slot."""
    if slot is None:
        return subject
    row = table["slot"].to_pylist().index(slot)
    end = str(table["slot_end"][row].as_py()) if "slot_end" in table.column_names else ""
    return f"{subject}, {slot_text(slot, end)}"


def _label(view: ManifestView, column: PlottedColumn) -> str:
    if not column.statistic:
        return column.name
    unit = f" ({view.unit_text})" if view.unit_text else ""
    return f"{column.name}{unit}"


def as_bars(
    picture: CellPicture, records: NDArray[np.int64] | Floats, most: str = "records"
) -> CellPicture:
    """Return the picture with its largest numbers first, and with no more cells than are read.

    Kept are the cells with the most records, or the most of what `most` names.
    """
    n_cells = picture.value.size
    title = picture.title
    # Stable, so that equal input gives an equal picture.
    rows = np.sort(np.argsort(-records, kind="stable")[:MAX_BARS])
    rows = rows[np.argsort(-picture.value[rows], kind="stable")]
    if n_cells > MAX_BARS:
        title += f" ({MAX_BARS} of {n_cells:,} cells, those with most {most})"
    return replace(
        picture,
        title=title,
        names=tuple(picture.names[row] for row in rows),
        value=picture.value[rows],
        low=picture.low[rows],
        high=picture.high[rows],
        quality=tuple(picture.quality[row] for row in rows),
    )
