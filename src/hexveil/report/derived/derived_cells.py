"""Cells of a roll-up or a comparison, as a page shows them: numbers, grades, names, timeslots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.cells import slot_seconds
from hexveil.report.derived.derived_text import TEXTS
from hexveil.report.payload import (
    GRADES,
    code_texts,
    column_texts,
    extra_column,
    round_numbers,
    slot_text,
)
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from hexveil.base.arrays import Floats


_NAMES = ("cell", "hexagon", "slot", "slot_end", "starts_at_utc", "slot_before", "slot_after")
"""Columns that name a cell beside its labels."""
_SIDES = ("before", "after")
_WEIGHTS: dict[str, list[tuple[str, str]]] = {
    "records": [("records", "Records")],
    "weight": [("weight", "Weight")],
    "": [],
}
"""Columns of what cells are weighted by, with their headings."""
_AVERAGED = {"records": "averaged_cells", "weight": "averaged_open_cells", "": "added_cells"}
"""Lines of the card of a roll-up."""


@dataclass(frozen=True, eq=False)
class DerivedCells(ReadOnlyArrays):
    """Cells of a derived table.

    Attributes
    ----------
    value, low, high : ndarray of float, shape (n_cells,)
        Number shown, and its 95 percent interval.
    grade : list of str
        Verdicts of a comparison, quality grades of a roll-up.
    hexagons : list of str or None
    labels : mapping of str to list of str
        Columns that name a cell without a hexagon.
    further : mapping of str to ndarray
        Columns that the card and the table show beside the number.
    counted : str
        What cells are weighted by: "records", "weight" under private presence, "" of numbers of
        units.
    """

    value: Floats
    low: Floats
    high: Floats
    grade: list[str]
    hexagons: list[str] | None
    labels: Mapping[str, list[str]]
    further: Mapping[str, Floats]
    counted: str

    @property
    def half_width(self) -> Floats:
        """Largest distance of each number from the ends of its interval."""
        return np.maximum(self.value - self.low, self.high - self.value)

    @property
    def is_change(self) -> bool:
        """Whether the numbers are changes."""
        return "p_value" in self.further

    def names(self) -> list[str]:
        """Return the labels of each cell as one text; none without labels."""
        return [" \u00b7 ".join(parts) for parts in zip(*self.labels.values(), strict=True)]

    def columns(self, decimals: int) -> dict[str, list[Any]]:
        """Return the columns of the page's data, intervals rounded outwards."""
        digits = {extra["key"]: extra["decimals"] for extra in self.extras(decimals)}
        return {
            **{f"label:{name}": texts for name, texts in self.labels.items()},
            "value": round_numbers(self.value, decimals, np.rint),
            "bound": round_numbers(self.half_width, decimals, np.ceil),
            "low": round_numbers(self.low, decimals, np.floor),
            "high": round_numbers(self.high, decimals, np.ceil),
            "quality": [GRADES.index(grade) for grade in self.grade],
            **{
                key: [float(f"{number:.2g}") for number in numbers]
                if digits[key] is None
                else round_numbers(numbers, digits[key], np.rint)
                for key, numbers in self.further.items()
            },
        }

    def extras(self, decimals: int) -> list[dict[str, Any]]:
        """Return the description of the further columns."""
        weights = _WEIGHTS[self.counted]
        if not self.is_change:
            heading = "Open cells" if self.counted != "records" else "Released cells"
            counts = [extra_column(name, text, spare=True) for name, text in weights]
            return [extra_column("cells", heading, spare=True), *counts]
        return [
            extra_column("before", "Before", decimals, spare=True),
            extra_column("after", "After", decimals, spare=True),
            extra_column("p_value", "p-value", None, spare=True),
            *(
                extra_column(f"{name}_{side}", "")
                for name, _ in weights
                for side in ("before", "after")
            ),
        ]

    def lines(self) -> list[str]:
        """Return the names of the lines that the card has."""
        if not self.is_change:
            return [_AVERAGED[self.counted]]
        return ["sides", *(f"{name}_of_sides" for name, _ in _WEIGHTS[self.counted])]


def derived_cells(table: pa.Table, width: float | None, number: str) -> DerivedCells:
    """Return the cells of a roll-up or a comparison.

    Parameters
    ----------
    table : pyarrow.Table
    width : float or None
        Of the statistic's range, for grades; None of numbers of units, which have none.
    number : str
        Column of the numbers: "change" of a comparison, else the prefix of the statistic.
    """
    is_change = number == "change"
    value, low, high = (
        _floats(table, name) for name in (number, f"{number}_low", f"{number}_high")
    )
    present = [name.removesuffix("_before") for name in table.column_names]
    counted = next((name for name in ("records", "weight") if name in present), "")
    weights = [name for name, _ in _WEIGHTS[counted]]
    further = (
        ["before", "after", "p_value", *(f"{w}_{side}" for w in weights for side in _SIDES)]
        if is_change
        else ["cells", *weights]
    )
    first = [*further, number]
    half_width = np.maximum(value - low, high - value)
    return DerivedCells(
        value,
        low,
        high,
        table["verdict"].to_pylist() if is_change else _grades(half_width, width, value),
        column_texts(table, "hexagon"),
        _labels(table, min(first, key=table.column_names.index)),
        {name: _floats(table, name) for name in further},
        counted,
    )


def _grades(half_width: Floats, width: float | None, value: Floats) -> list[str]:
    """Return the grades of intervals, as those of releases within public bounds.

    Those of numbers of units, which have no range, are relative to the number.
    """
    limits = (value / 4, value) if width is None else (width / 10, width / 4)
    conditions = [half_width <= limit for limit in limits]
    return [str(grade) for grade in np.select(conditions, ["good", "caution"], "noise")]


def _labels(table: pa.Table, first: str) -> dict[str, list[str]]:
    """Return the columns before the first number that name a cell without a hexagon."""
    if "hexagon" in table.column_names:
        return {}
    before = table.column_names[: table.column_names.index(first)]
    names = [name for name in before if name not in _NAMES]
    if not names and "cell" in before and "slot" not in before:
        names = ["cell"]
    return {name: column_texts(table, name) or [] for name in names}


def derived_slots(
    table: pa.Table, timeslot: str | None
) -> tuple[list[str], list[str], list[int] | None]:
    """Return start and text of each timeslot, and the timeslot of each cell.

    Parameters
    ----------
    table : pyarrow.Table
    timeslot : str or None
        Length of the slots.

    Returns
    -------
    starts, texts : list of str
        Of the first release in a comparison; texts have both.
    slot : list of int or None
    """
    sides = [name for name in ("slot", "slot_before", "slot_after") if name in table.column_names]
    if not sides or timeslot is None:
        return [], [], None
    seconds = slot_seconds(timeslot)
    starts, slot = code_texts(column_texts(table, sides[0]), in_order=True)
    # Slots pair one to one.
    other = dict(zip(*(table[name].to_pylist() for name in (sides[0], sides[-1])), strict=True))
    texts = [
        _slot_change(*(slot_text(name, _slot_end(name, seconds)) for name in (start, other[start])))
        for start in starts
    ]
    return starts, texts, slot


def _slot_end(start: str, seconds: int) -> str:
    """Return the end of a slot on its own clock.

    Examples
    --------
    >>> _slot_end("2024-02-19T23:00", 3600), _slot_end("06:00", 3600)
    ('2024-02-20T00:00', '07:00')
    """
    pooled = "T" not in start
    moment = datetime.fromisoformat(f"2001-01-01T{start}" if pooled else start)
    return (moment + timedelta(seconds=seconds)).strftime("%H:%M" if pooled else "%Y-%m-%dT%H:%M")


def _slot_change(before: str, after: str) -> str:
    return render_sentence(TEXTS, "slot_change", before=before, after=after)


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
