"""The page of several value columns: one map and one table, a choice of column and statistic.

The cells are those of all columns. A cell that one of them does not have stands in the table
without numbers, and is not drawn. Everything comes from released tables and manifests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report import page_text
from hexveil.report.accuracy_text import describe_one_number
from hexveil.report.cell_differences import ComparableNumbers
from hexveil.report.interval_chart import interval_chart
from hexveil.report.manifest_view import ManifestView, format_rounded_up
from hexveil.report.origin import describe_origin
from hexveil.report.page import frame_values
from hexveil.report.payload import (
    ABSENT,
    QUALITIES,
    count_columns,
    describe_numbers,
    frame_data,
    label_texts,
)
from hexveil.report.presence import presence_page
from hexveil.report.promise_wording import exact_counts, in_common, presence
from hexveil.report.statistic_choice import StatisticChoice, heading_of
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    Json = dict[str, Any]

WORDS = "columns"
"""Folder of the templates with the sentences of this page."""


@dataclass(frozen=True, eq=False)
class _ShownColumn:
    """A value column on the page."""

    table: pa.Table
    manifest: Mapping[str, Any]
    choice: StatisticChoice
    rows: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def is_private(self) -> bool:
        """Whether presence is protected: cells are declared, and may be closed."""
        return self.manifest.get("model") == "presence"

    def describe(self, view: ManifestView) -> Json:
        """Return the numbers, digits and colours of a statistic."""
        # The last row of the padded numbers is that of absent cells.
        padded = [np.append(numbers, np.nan)[self.rows] for numbers in self._numbers(view)]
        compared = None
        if "hexagon" in self.table.column_names:
            compared = ComparableNumbers.of(self.table, view).at_rows(self.rows)
        return describe_numbers(view, padded, self.grades(view), compared)

    def _numbers(self, view: ManifestView) -> Sequence[np.ndarray[Any, np.dtype[np.float64]]]:
        if self.is_private:
            return presence_page.cell_numbers(self.table, view)
        numbers, half = view.shown_numbers(self.table), view.half_widths(self.table)
        return (numbers, half, *view.shown_limits(self.table))

    def grades(self, view: ManifestView) -> list[str]:
        """Return the quality of each cell."""
        if self.is_private:
            grades = presence_page.cell_grades(self.table, view)
        else:
            grades = self.table[f"{view.statistic}_quality"].to_pylist()
        return [[*grades, ABSENT][row] for row in self.rows.tolist()]

    def counts(self) -> Json:
        """Return the counts of each cell, or its noisy weights; None where there are none."""
        if self.is_private:
            counts = presence_page.weight_columns(self.table)
        else:
            counts = {name: self.table[name].to_pylist() for name in ("users", "records")}
        return {
            name: [[*numbers, None][row] for row in self.rows.tolist()]
            for name, numbers in counts.items()
        }

    def count_words(self) -> Json:
        """Return the columns of these counts, and the line of the card that names them."""
        if self.is_private:
            return presence_page.weight_words(self.table)
        return count_columns(self.choice.views[0])


def render_columns(
    table: pa.Table,
    manifest: Mapping[str, Any],
    columns: Mapping[str, tuple[pa.Table, Mapping[str, Any]]],
    *,
    context: dict[str, Any] | None = None,
    geography: bool = True,
    description: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the report of several value columns as the text of one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        The cells of all value columns.
    manifest : mapping
        Of the whole, with the facts about its cells.
    columns : mapping of str to (pyarrow.Table, mapping)
        Released table and manifest of each value column.
    context, geography, description, files
        See `hexveil.report.page.render`.
    """
    page_columns = _shown_columns(table, columns)
    leading_view = page_columns[0].choice.views[0]
    graded = _graded(page_columns)
    data, choices = _choice_data(page_columns, graded)
    frame = frame_data(
        table, leading_view, data["columns"]["quality"], context, geography=geography
    )
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    if page_columns[0].is_private:
        labels["absent_cell"] = labels["closed_cell"]
    data |= frame | page_columns[0].count_words() | {"text": labels}
    data["columns"] |= label_texts(table, leading_view)
    values = _sentence_values(table, manifest, page_columns, graded) | {
        "choices": choices,
        "statistics_of_column": len(page_columns[0].choice.views),
        "bins_from": page_columns[0].choice.bins_from,
        "words": WORDS,
    }
    # Bars of one column among several: the map, or the table, shows the others.
    draw = presence_page.draw_chart if page_columns[0].is_private else interval_chart
    chart = draw(page_columns[0].table, leading_view)
    origin = describe_origin(table, manifest)
    values |= frame_values(origin, manifest, data, chart, context, description, files)
    values["one_number"] = [
        f"{column}: {text}"
        for column, (_, column_view) in columns.items()
        for text in describe_one_number(column_view)
    ]
    return render_template("report.html", values)


def _shown_columns(
    table: pa.Table, columns: Mapping[str, tuple[pa.Table, Mapping[str, Any]]]
) -> list[_ShownColumn]:
    cells = table["cell"].to_pylist()
    page_columns = []
    for column_table, manifest in columns.values():
        row_of = {cell: row for row, cell in enumerate(column_table["cell"].to_pylist())}
        view = ManifestView.from_manifest(manifest)
        # All columns share one page, so that they share its room for bins.
        choice = StatisticChoice.of(view, len(cells) * len(columns))
        rows = np.array([row_of.get(cell, -1) for cell in cells], dtype=np.int64)
        page_columns.append(_ShownColumn(column_table, manifest, choice, rows))
    return page_columns


def _graded(page_columns: Sequence[_ShownColumn]) -> list[str]:
    """Return the grades that the legend explains: ends of a range only where a cell is at one."""
    grades = {
        grade
        for column in page_columns
        for view in column.choice.views
        for grade in column.grades(view)
    }
    return [name for name in QUALITIES if name != "cut off" or name in grades]


def _choice_data(
    page_columns: Sequence[_ShownColumn], graded: Sequence[str]
) -> tuple[Json, list[str]]:
    """Return the scripts' data of all columns and statistics, and the heading of each choice."""
    choices: list[Json] = []
    columns: list[Json] = []
    for column in page_columns:
        column_data = column.choice.data(column.describe, column.grades, graded)
        if column_data["bins"] is not None:
            column_data["bins"]["first"] += len(choices)
        columns.append({"counts": column.counts(), "bins": column_data["bins"]})
        choices += column_data["choices"]
    default_choice = choices[0]
    data = {name: default_choice[name] for name in ("value", "colour")} | {
        "columns": default_choice["columns"] | columns[0]["counts"],
        "choices": choices,
        "bins": columns[0]["bins"],
        "value_columns": columns,
    }
    return data, [heading_of(view) for view in page_columns[0].choice.views]


def _sentence_values(
    table: pa.Table,
    manifest: Mapping[str, Any],
    page_columns: Sequence[_ShownColumn],
    graded: Sequence[str],
) -> Json:
    """Return everything that the sentences of the page name."""
    leading_column = page_columns[0]
    view, leading = leading_column.choice.views[0], leading_column.manifest
    grades = leading_column.grades(view)
    mapped = "hexagon" in table.column_names
    facts = zip(manifest["columns"], page_columns, strict=True)
    return {
        "view": view,
        **{name: defaultdict(str, manifest[name]) for name in ("guarantee", "dataset")},
        "grid": leading["grid"],
        "software": manifest["software"],
        "statistics": view.statistics,
        "whole_heading": manifest["heading"],
        "has_all_statistics": all(column.choice.has_all for column in page_columns),
        "has_absent": any((column.rows < 0).any() for column in page_columns),
        "is_private": leading_column.is_private,
        "closed_cells": presence_page.CLOSED in grades,
        "presence": presence(),
        "exact_counts": exact_counts(),
        "in_common": in_common(),
        "cells": table.num_rows,
        "hexagons": len(set(table["hexagon"].to_pylist())) if mapped else 0,
        "value_columns": [_column_values(stated, column) for stated, column in facts],
        "qualities": [
            {"name": name, "number": number, "cells": grades.count(name)}
            for number, name in enumerate(graded)
        ],
        **page_text.loss_values(manifest.get("losses") or {}),
    }


def _column_values(stated: Mapping[str, Any], column: _ShownColumn) -> Json:
    """Return the facts about a value column, with its numbers formatted."""
    return {
        "name": stated["column"],
        "unit": stated["value_unit"],
        "folder": stated["folder"],
        "cells": stated["cells"],
        # Counted facts: declared ones have no such numbers.
        **{name: f"{stated[name]:,}" for name in ("users", "records") if name in stated},
        "epsilon": format_rounded_up(float(stated["epsilon"]), 4),
        "bounds": column.manifest["bounds"],
    }
