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
from hexveil.report.interval_chart import interval_chart
from hexveil.report.manifest_view import ManifestView, format_rounded_up
from hexveil.report.page import frame_values
from hexveil.report.payload import (
    ABSENT,
    QUALITIES,
    count_columns,
    describe_numbers,
    frame_data,
    label_texts,
)
from hexveil.report.promise import exact_counts, in_common, presence
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
    """A value column on the page.

    Attributes
    ----------
    table : pyarrow.Table
        Its own released table.
    manifest : mapping
    choice : StatisticChoice
    rows : ndarray of int64, shape (n_cells of the page,)
        Row of each cell in its table; -1 where it has none.
    """

    table: pa.Table
    manifest: Mapping[str, Any]
    choice: StatisticChoice
    rows: np.ndarray[Any, np.dtype[np.int64]]

    def describe(self, view: ManifestView) -> Json:
        """Return the numbers, digits and colours of a statistic."""
        released = (
            view.shown_numbers(self.table),
            view.half_widths(self.table),
            *view.shown_limits(self.table),
        )
        # The last row of the padded numbers is that of absent cells.
        padded = [np.append(numbers, np.nan)[self.rows] for numbers in released]
        return describe_numbers(view, padded, self.grades(view))

    def grades(self, view: ManifestView) -> list[str]:
        """Return the quality of each cell."""
        grades = [*self.table[f"{view.statistic}_quality"].to_pylist(), ABSENT]
        return [grades[row] for row in self.rows.tolist()]

    def counts(self) -> Json:
        """Return the exact counts of each cell; None where the column has no such cell."""
        padded = {name: [*self.table[name].to_pylist(), None] for name in ("users", "records")}
        return {
            name: [numbers[row] for row in self.rows.tolist()] for name, numbers in padded.items()
        }


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
    shown_columns = _shown_columns(table, columns)
    leading = shown_columns[0].choice.views[0]
    graded = _graded(shown_columns)
    data, choices = _choice_data(shown_columns, graded)
    frame = frame_data(table, leading, data["columns"]["quality"], context, geography=geography)
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    data |= frame | count_columns(leading) | {"text": labels}
    data["columns"] |= label_texts(table, leading)
    values = _sentence_values(table, manifest, shown_columns, graded) | {
        "choices": choices,
        "statistics_of_column": len(shown_columns[0].choice.views),
        "bins_from": shown_columns[0].choice.bins_from,
        "words": WORDS,
    }
    # Bars of one column among several: the map, or the table, shows the others.
    chart = interval_chart(shown_columns[0].table, leading)
    values |= frame_values(manifest, data, chart, context, description, files)
    return render_template("report.html", values)


def _shown_columns(
    table: pa.Table, columns: Mapping[str, tuple[pa.Table, Mapping[str, Any]]]
) -> list[_ShownColumn]:
    cells = table["cell"].to_pylist()
    shown_columns = []
    for column, manifest in columns.values():
        row_of = {cell: row for row, cell in enumerate(column["cell"].to_pylist())}
        view = ManifestView.from_manifest(manifest)
        # All columns share one page, so that they share its room for bins.
        choice = StatisticChoice.of(view, len(cells) * len(columns))
        rows = np.array([row_of.get(cell, -1) for cell in cells], dtype=np.int64)
        shown_columns.append(_ShownColumn(column, manifest, choice, rows))
    return shown_columns


def _graded(shown_columns: Sequence[_ShownColumn]) -> list[str]:
    """Return the grades that the legend explains: ends of a range only where a cell is at one."""
    grades = {
        grade
        for column in shown_columns
        for view in column.choice.views
        for grade in column.grades(view)
    }
    return [name for name in QUALITIES if name != "cut off" or name in grades]


def _choice_data(
    shown_columns: Sequence[_ShownColumn], graded: Sequence[str]
) -> tuple[Json, list[str]]:
    """Return the scripts' data of all columns and statistics, and the heading of each choice."""
    choices: list[Json] = []
    columns: list[Json] = []
    for column in shown_columns:
        data = column.choice.data(column.describe, column.grades, graded)
        if data["bins"] is not None:
            data["bins"]["first"] += len(choices)
        columns.append({"counts": column.counts(), "bins": data["bins"]})
        choices += data["choices"]
    leading = choices[0]
    data = {name: leading[name] for name in ("value", "colour")} | {
        "columns": leading["columns"] | columns[0]["counts"],
        "choices": choices,
        "bins": columns[0]["bins"],
        "value_columns": columns,
    }
    return data, [heading_of(view) for view in shown_columns[0].choice.views]


def _sentence_values(
    table: pa.Table,
    manifest: Mapping[str, Any],
    shown_columns: Sequence[_ShownColumn],
    graded: Sequence[str],
) -> Json:
    """Return everything that the sentences of the page name."""
    view = shown_columns[0].choice.views[0]
    grades = shown_columns[0].grades(view)
    mapped = "hexagon" in table.column_names
    facts = zip(manifest["columns"], shown_columns, strict=True)
    return {
        "view": view,
        **{name: defaultdict(str, manifest[name]) for name in ("guarantee", "dataset")},
        "grid": shown_columns[0].manifest["grid"],
        "software": manifest["software"],
        "statistics": view.statistics,
        "whole_heading": manifest["heading"],
        "has_all_statistics": all(column.choice.has_all for column in shown_columns),
        "has_absent": any((column.rows < 0).any() for column in shown_columns),
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
        **page_text.loss_values(manifest["losses"]),
    }


def _column_values(stated: Mapping[str, Any], column: _ShownColumn) -> Json:
    """Return the facts about a value column, with its numbers formatted."""
    return {
        "name": stated["column"],
        "unit": stated["value_unit"],
        "folder": stated["folder"],
        "cells": stated["cells"],
        "users": f"{stated['users']:,}",
        "records": f"{stated['records']:,}",
        "epsilon": format_rounded_up(float(stated["epsilon"]), 4),
        "bounds": column.manifest["bounds"],
    }
