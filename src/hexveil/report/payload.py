"""Data of the page's scripts: every outline once, and one compact column per released number.

A few thousand hexagons in tens of slots make a hundred thousand rows, so rows hold indexes
instead of names, and numbers keep only the digits that are shown. Bounds are rounded outwards, so
that the page never shows a narrower interval than the released one.

A value column has several statistics, each with columns, digits, colours and grades of its own, and
one heading. The bins of a histogram can be chosen too, each a map of the share of records in it,
and the card draws all bins of its hexagon. A page is one file for a browser's memory, so bins are
left out where all columns together would have more than `MAX_NUMBERS` rows: the other statistics
stay, and the tables have everything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrays import Floats, Ints
from hexveil.model.statistic_terms import Histogram, term_of
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.cell_differences import ComparableNumbers
from hexveil.report.manifest_view import ManifestView, column_prefixes, count_heading, numbers_of
from hexveil.report.templates import localized, render_sentence

Json = dict[str, Any]
Timeslots = tuple[list[str], list[str], list[int] | None]
"""Start and text of each timeslot, and the timeslot of each cell."""
QUALITIES = ("good", "caution", CUT_OFF, "noise")
ABSENT = "not published"
"""Of a cell that another value column of the page has."""
GRADES = (*QUALITIES, "closed", "higher", "lower", "cannot be told", ABSENT)
"""All that a cell of some page can be, in the order in which the scripts number it."""
UNSURE = ("noise", "cannot be told")


def script_json(value: object) -> str:
    """Return JSON that can stand inside a script element whatever text it holds."""
    # Escapes of JSON for what could end the script element, or a line in old readers.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def timeslots_of(table: pa.Table) -> Timeslots:
    """Return start and text of each timeslot of a release, and the timeslot of each cell."""
    starts, slot = code_texts(column_texts(table, "slot"), in_order=True)
    ends = column_texts(table, "slot_end")
    end_of = dict(zip(column_texts(table, "slot") or [], ends, strict=True)) if ends else {}
    return starts, [slot_text(start, end_of.get(start, "")) for start in starts], slot


def opening_slot(slot: Sequence[int] | None, quality: Sequence[int]) -> int:
    """Return the slot with the most good cells; of equals the one with the most that are no noise.

    Of equals again it is the one with the most that are not closed.

    Examples
    --------
    >>> opening_slot([0, 0, 1, 1, 2], [3, 1, 0, 3, 1])
    1
    """
    if slot is None:
        return 0
    merits = [[0, 0, 0] for _ in range(max(slot) + 1)]
    for number, grade in zip(slot, quality, strict=True):
        name = GRADES[grade]
        merits[number][0] += name in ("good", "higher", "lower")
        merits[number][1] += name not in ("closed", ABSENT, *UNSURE)
        merits[number][2] += name not in ("closed", ABSENT)
    return merits.index(max(merits))


def colour_ends(value: NDArray[np.float64], grades: Sequence[str]) -> tuple[float, float]:
    """Return the ends of the colour scale: of the values that are not noise."""
    usable = np.isfinite(value)
    # Noise is drawn faintly and would stretch the scale; with nothing but noise, all cells count.
    is_shown = usable & ~np.isin(grades, UNSURE)
    return round_ends(value[is_shown if is_shown.any() else usable])


def round_ends(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """Return round ends of a scale that holds these numbers; 0 and 1 without any."""
    if not numbers.size:
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    # A difference too small for the twelve places of the ends is none.
    step = _nice_step(max((high - low) / 10, 1e-9) if high > low else max(abs(high) / 10, 1e-9))
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return round(low, 12), round(high if high > low else low + step, 12)


def ticks(low: float, high: float) -> list[float]:
    """Return three to seven round numbers from `low` to `high`."""
    step = _nice_step((high - low) / 4)
    start = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(start, math.floor(high / step + 1e-9) + 1)]


def scale_marks(low: float, high: float, *, signed: bool = False) -> list[tuple[float, str]]:
    """Return round numbers on the colour scale, each with its place in per cent.

    Parameters
    ----------
    low, high : float
        Ends of the scale.
    signed : bool
        Whether positive numbers have a sign too, as changes have.

    Examples
    --------
    >>> scale_marks(10, 30)
    [(0.0, '10'), (25.0, '15'), (50.0, '20'), (75.0, '25'), (100.0, '30')]
    """
    numbers = ticks(low, high)
    digits = max(len(f"{number:.9f}".rstrip("0").split(".")[1]) for number in numbers)

    def text(number: float) -> str:
        sign = "+" if signed and number else ""
        return localized(f"{number:{sign},.{digits}f}".replace("-", "\u2212"))

    return [(round(100 * (number - low) / (high - low), 2), text(number)) for number in numbers]


def slot_text(start: str, end: str) -> str:
    """Return a slot for people: "19 Feb 2024, 15:00-16:00", or "15:00-16:00" if pooled."""
    date, _, clock = start.rpartition("T")
    end_date, _, end_clock = end.rpartition("T")
    year, month, day = date.split("-") if date else ("", "0", "0")
    if date and clock == end_clock == "00:00":
        clock = ""
    # The end of a day is read as 24:00 of that day, not as the next morning.
    elif end and (end_date != date or end_clock == "00:00"):
        end_clock = "24:00"
    facts = {"day": int(day), "month": int(month), "year": year, "start": clock, "end": end_clock}
    return render_sentence("page/slot.txt", "slot", **facts)


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(m for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999) * power)


def column_texts(table: pa.Table, column: str) -> list[str] | None:
    """Return a column as texts; None if there is none."""
    if column not in table.column_names:
        return None
    return [str(text) for text in table[column].to_pylist()]


def code_texts(
    texts: list[str] | None, *, in_order: bool = False
) -> tuple[list[str], list[int] | None]:
    """Return the distinct texts and, per row, the index of its text."""
    if texts is None:
        return [], None
    # Slots in order of time; hexagons in order of the table.
    distinct = sorted(set(texts)) if in_order else list(dict.fromkeys(texts))
    index = {text: i for i, text in enumerate(distinct)}
    return distinct, [index[text] for text in texts]


def label_columns(table: pa.Table, view: ManifestView) -> dict[str, list[str]]:
    """Return the columns that name a cell without a hexagon; none where slots alone do."""
    columns = table.column_names
    if "hexagon" in columns:
        return {}
    names = [name for name in view.label_columns if name in columns]
    if not names and "slot" not in columns and "slot_before" not in columns:
        names = ["cell"] if "cell" in columns else []
    return {f"label:{name}": column_texts(table, name) or [] for name in names}


def extra_column(
    key: str, name: str, decimals: int | None = 0, *, spare: bool = False
) -> dict[str, Any]:
    """Return the description of a further column that the card can name.

    Parameters
    ----------
    key : str
        In `columns`.
    name : str
        Its heading in the table; "" for a column that the table leaves out.
    decimals : int or None
        Digits after the point; None for two significant digits.
    spare : bool
        Whether narrow screens leave it out.
    """
    return {"key": key, "name": name, "decimals": decimals, "spare": spare}


def round_numbers(
    numbers: NDArray[np.float64], decimals: int | None, rule: np.ufunc
) -> list[float | None]:
    """Return numbers rounded by a rule to so many digits; None where they are not finite.

    Without a number of digits they have two significant ones.
    """
    if decimals is None:
        return [float(f"{number:.2g}") if math.isfinite(number) else None for number in numbers]
    # A hair's tolerance, or 0.3 * 10 = 3.0000000000000004 would be shown as 0.4.
    steps = numbers * 10.0**decimals
    rounded = np.where(np.abs(steps - np.rint(steps)) < 1e-6, np.rint(steps), rule(steps))
    if not decimals:
        return [int(number) if math.isfinite(number) else None for number in rounded]
    return [
        round(float(w) / 10.0**decimals, decimals) + 0.0 if math.isfinite(w) else None
        for w in rounded
    ]


MAX_NUMBERS = 300_000
"""Cells times statistics from which on a page has no bins."""
_WEIGHTS = {"weight": np.rint, "weight_low": np.floor, "weight_high": np.ceil}
"""Columns of weights and of their intervals, which are rounded outwards."""


@dataclass(frozen=True, eq=False)
class ShownColumn:
    """A value column on the page.

    Attributes
    ----------
    table : pyarrow.Table
        Its released table.
    manifest : mapping
    views : tuple of ManifestView
        One for each statistic that can be shown, the first one first.
    bins_from : int or None
        Number of the first bin of the histogram among them; None without one.
    has_all : bool
        Whether no statistic was left out.
    rows : ndarray of int64
        Its row for each cell of the page; -1 for a cell that it does not have.
    """

    table: pa.Table
    manifest: Mapping[str, Any]
    views: tuple[ManifestView, ...]
    bins_from: int | None
    has_all: bool
    rows: Ints
    compares: ClassVar[bool] = True
    """Whether two cells can be compared, if the page has a map."""

    @classmethod
    def of(
        cls, table: pa.Table, manifest: Mapping[str, Any], cells: list[str], n_columns: int = 1
    ) -> ShownColumn:
        """Return a column on a page with these cells, and with so many value columns."""
        row_of = {cell: row for row, cell in enumerate(table["cell"].to_pylist())}
        rows = np.array([row_of.get(cell, -1) for cell in cells], dtype=np.int64)
        every = ManifestView.from_manifest(manifest)
        histograms = [name for name in every.statistics if isinstance(term_of(name), Histogram)]
        others = [name for name in every.statistics if name not in histograms]
        # Bins are last, wherever the histogram was asked for.
        prefixes, n_others = column_prefixes((*others, *histograms)), len(column_prefixes(others))
        views = tuple(replace(every, shown=name) for name in prefixes)
        # All columns share one page, so that they share its room for bins.
        if others and len(prefixes) * len(cells) * n_columns > MAX_NUMBERS:
            return cls(table, manifest, views[:n_others], None, n_others == len(views), rows)
        bins_from = n_others if n_others < len(views) else None
        return cls(table, manifest, views, bins_from, has_all=True, rows=rows)

    @property
    def is_private(self) -> bool:
        """Whether presence is protected: cells are declared, and may be closed."""
        return self.manifest.get("model") == "presence"

    def describe(self, view: ManifestView) -> Json:
        """Return everything that the page's scripts need of the statistic of a view."""
        table, decimals = self.table, view.decimals
        compared = None
        if self.compares and "hexagon" in table.column_names:
            compared = ComparableNumbers.of(table, view).at_rows(self.rows)
        value, half, low, high = self.numbers(view)
        grades = self.grades(view)
        ends = colour_ends(value, grades)
        if view.is_change:
            # 0 is the middle of the scale, and a release that changed nowhere still has one.
            largest = max(-ends[0], ends[1], 10.0**-decimals)
            ends = -largest, largest
        return {
            "columns": {
                "value": round_numbers(value, decimals, np.rint),
                "bound": round_numbers(half, decimals, np.ceil),
                "low": round_numbers(low, decimals, np.floor),
                "high": round_numbers(high, decimals, np.ceil),
                "quality": [GRADES.index(grade) for grade in grades],
                **({} if compared is None else compared.columns()),
            },
            "value": {
                "name": view.noun[:1].upper() + view.noun[1:],
                "unit": view.unit_text,
                "decimals": decimals,
                "limits": [limit if math.isfinite(limit) else None for limit in view.limits],
                "signed": view.is_change,
                "largest": None if view.statistic == "users" else view.range,
            },
            "colour": {"low": ends[0], "high": ends[1]},
            "heading": f"{view.heading}{f' ({view.unit_text})' if view.unit_text else ''}",
            "marks": scale_marks(*ends, signed=view.is_change),
            "grades": [grades.count(name) for name in QUALITIES],
        }

    def numbers(self, view: ManifestView) -> tuple[Floats, ...]:
        """Return number, half of the interval and its ends of each cell; NaN where it has none."""
        table = self.table
        columns = (
            view.shown_numbers(table), view.half_widths(table), *view.shown_limits(table)
        )  # fmt: skip
        return tuple(np.append(column, np.nan)[self.rows] for column in columns)

    def grades(self, view: ManifestView) -> list[str]:
        """Return the quality of each cell."""
        grades = [*view.grades(self.table), ABSENT]
        return [grades[row] for row in self.rows]

    def counts(self) -> Json:
        """Return the exact counts of each cell, or its noisy weights; None where it has none."""
        columns = {}
        for key, decimals, rule in self.counted():
            numbers = np.append(numbers_of(self.table, key), np.nan)[self.rows]
            columns[key] = round_numbers(numbers, decimals, rule)
        return columns

    def counted(self) -> list[tuple[str, int | None, np.ufunc]]:
        """Return the columns of counts or weights, their digits and how they are rounded."""
        names = self.table.column_names
        if "records" in names:
            return [("users", 0, np.rint), ("records", 0, np.rint)]
        return [(name, 0, rule) for name, rule in _WEIGHTS.items() if name in names]

    def count_words(self) -> Json:
        """Return the columns of these counts, and the line of the card that names them."""
        unit, names = self.views[0].unit, [key for key, *_ in self.counted()]
        extras = [
            extra_column(key, count_heading(key, unit), spare=key == "records") for key in names
        ]
        line = "counts" if "records" in names else "weight_line"
        return {"extras": extras, "lines": [line] if names else []}

    def bins(self, offset: int) -> Json | None:
        """Return which choices are bins, after so many of other columns, and their ends."""
        if self.bins_from is None:
            return None
        ends = [ends for view in self.views[self.bins_from :] if (ends := view.bin_ends)]
        return {
            "first": offset + self.bins_from,
            "ends": [ends[0][0], *(upper for _, upper in ends)],
            "unit": self.views[0].value_unit,
        }
