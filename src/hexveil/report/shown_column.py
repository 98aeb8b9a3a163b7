"""A value column on a page: its statistics, numbers and grades, the same for every release.

Each statistic has columns, digits, colours and grades of its own, and one heading. The bins of a
histogram can be chosen too, each a map of the share of records in it, and the card draws all bins
of its hexagon. A page is one file for a browser's memory, so bins are left out where all columns
together would have more than `MAX_NUMBERS` rows: the other statistics stay, and the tables have
everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Floats, Ints
from hexveil.model.statistic_terms import Histogram, term_of
from hexveil.report.cell_differences import ComparableNumbers
from hexveil.report.manifest_view import (
    ManifestView,
    column_prefixes,
    count_heading,
    numbers_of,
)
from hexveil.report.payload import (
    ABSENT,
    GRADES,
    QUALITIES,
    colour_ends,
    extra_column,
    round_numbers,
    scale_marks,
)

Json = dict[str, Any]

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
        others = [name for name in every.statistics if not isinstance(term_of(name), Histogram)]
        prefixes, n_others = column_prefixes(every.statistics), len(column_prefixes(others))
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
            "heading": heading_of(view),
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


def heading_of(view: ManifestView) -> str:
    """Return the statistic of a view with the value and its unit of measure."""
    return f"{view.heading}{f' ({view.unit_text})' if view.unit_text else ''}"
