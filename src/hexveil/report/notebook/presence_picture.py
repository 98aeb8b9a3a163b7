"""Content of a picture of a map with private presence: open cells with numbers, closed ones grey.

Everything comes from the released table: which cells are open was decided by noisy numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.report.manifest_view import column_prefixes
from hexveil.report.notebook.cell_picture import (
    NOISE,
    CellPicture,
    as_bars,
    cell_names,
    outlines_of,
    rows_of,
    select_slot,
    title_of,
)
from hexveil.report.payload import round_ends

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.report.manifest_view import ManifestView


QUALITY = "quality"


def presence_picture(
    table: pa.Table, view: ManifestView, name: str, slot: str | None = None
) -> CellPicture:
    """Return the picture of a column in a slot.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, without outlines.
    view : ManifestView
    name : str
        A column of numbers.
    slot : str, optional
        As in the column `slot`; default the one with the most open cells.

    Raises
    ------
    InputError
        If the column has no numbers, or the release does not have the slot.
    """
    kind = str(table.schema.field(name).type)
    if kind != "double":
        raise InputError(
            f"plot draws numbers, and the column {name!r} has none; name one such as "
            f"{view.statistic!r}."
        )
    value, low, high = (_numbers(table, one) for one in (name, f"{name}_low", f"{name}_high"))
    low, high = (np.where(np.isnan(end), value, end) for end in (low, high))
    has_number = ~np.isnan(value)
    slot = select_slot(table, slot, has_number.astype(np.float64))
    rows = rows_of(table, slot)
    shown, closed = rows[has_number[rows]], rows[~has_number[rows]]
    view, is_statistic = _view_of(name, view)
    # Grades are those of the statistic itself; its other columns have none.
    own = f"{name}_{QUALITY}" if f"{name}_{QUALITY}" in table.column_names else QUALITY
    is_graded = is_statistic and own in table.column_names
    grades = table[own].to_pylist() if is_graded else ["good"] * table.num_rows
    has_unit = bool(view.unit_text) and name.startswith(view.statistic)
    subject = view.heading if is_statistic else name.replace("_", " ").capitalize()
    names = cell_names(table, view)
    is_mapped = "hexagon" in table.column_names
    picture = CellPicture(
        title=_title(table, subject, slot, closed.size),
        label=f"{name} ({view.unit_text})" if has_unit else name,
        names=tuple(names[row] for row in shown),
        value=value[shown],
        low=low[shown],
        high=high[shown],
        quality=tuple(str(grades[row]) for row in shown),
        # Of all slots: equal colours mean equal numbers in each of them.
        scale=round_ends(value[_counted(has_number, grades)]),
        outlines=outlines_of(table, shown)[0] if is_mapped else None,
        others=outlines_of(table, closed)[0] if is_mapped else (),
    )
    if is_mapped:
        return picture
    return as_bars(picture, picture.value, "units" if name == "users" else name)


def _view_of(name: str, view: ManifestView) -> tuple[ManifestView, bool]:
    """Return the view of the statistic of a column, and whether the column is the statistic."""
    known = column_prefixes(view.statistics)
    base = name if name in known else name.rpartition("_")[0]
    return (replace(view, shown=base) if base in known else view), name in known


def _numbers(table: pa.Table, name: str) -> Floats:
    """Return a column, NaN where it has no number or is not there."""
    if name not in table.column_names:
        return np.full(table.num_rows, np.nan)
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _counted(has_number: NDArray[np.bool_], grades: list[str]) -> NDArray[np.bool_]:
    """Return the cells that make the colour scale: noise would stretch it."""
    is_signal = has_number & (np.array(grades) != NOISE)
    return is_signal if is_signal.any() else has_number


def _title(table: pa.Table, subject: str, slot: str | None, n_closed: int) -> str:
    cells = "1 cell" if n_closed == 1 else f"{n_closed:,} cells"
    grey = ": grey" if "hexagon" in table.column_names else ""
    closed = f" ({cells} closed{grey})" if n_closed else ""
    return title_of(table, subject, slot) + closed
