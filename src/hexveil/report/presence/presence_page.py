"""The page of a map with private presence: the page of the other model, with its own sentences.

Everything on it comes from the released table and the manifest: noisy numbers and declarations.
Closed cells stand in the table without numbers and are not drawn.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report.cell_differences import ComparableNumbers
from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.interval_chart import (
    MAX_CELLS,
    Chart,
    describe_known_ends,
    draw_bars,
    name_cell,
)
from hexveil.report.manifest_view import ManifestView, with_unit
from hexveil.report.origin import describe_origin
from hexveil.report.page import frame_values
from hexveil.report.payload import (
    QUALITIES,
    describe_numbers,
    extra_column,
    frame_data,
    label_texts,
    round_numbers,
)
from hexveil.report.promise_wording import delta_in_words
from hexveil.report.statistic_choice import StatisticChoice
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from hexveil.base.arrays import Floats


WORDS = "presence"
"""Folder of the templates with the sentences of this model."""
CLOSED = "closed"


def render_presence(
    table: pa.Table,
    manifest: Mapping[str, Any],
    *,
    context: dict[str, Any] | None = None,
    geography: bool = True,
    description: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the report of a release with private presence as the text of one HTML file.

    Parameters
    ----------
    table, manifest, context, geography, description, files
        See `hexveil.report.page.render`.
    """
    choice = StatisticChoice.of(ManifestView.from_manifest(manifest), table.num_rows)
    first = choice.views[0]
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    data = _payload(table, first, context, geography=geography) | {"text": labels}
    values = _sentence_values(table, first) | {"words": WORDS}
    if len(choice.views) > 1:
        data |= choice.data(
            lambda view: _described(table, view),
            lambda view: cell_grades(table, view),
            QUALITIES,
        )
        values |= choice.sentence_values()
    origin, chart = describe_origin(table, manifest), draw_chart(table, first)
    values |= frame_values(origin, manifest, data, chart, context, description, files)
    return render_template("report.html", values)


def cell_numbers(table: pa.Table, view: ManifestView) -> tuple[Floats, Floats, Floats, Floats]:
    """Return number, half of the interval and its ends of each cell, NaN where it is closed."""
    name = view.statistic
    value, low, high = (_floats(table, f"{name}{end}") for end in ("", "_low", "_high"))
    return value, np.maximum(value - low, high - value), low, high


def cell_grades(table: pa.Table, view: ManifestView) -> list[str]:
    """Return the quality of the statistic of a view: one that stands alone has no other."""
    own = f"{view.statistic}_quality"
    return [str(one) for one in table[own if own in table.column_names else "quality"].to_pylist()]


def draw_chart(table: pa.Table, view: ManifestView) -> Chart | None:
    """Return the chart of open cells, or None where there are hexagons, none or too many."""
    value, _, low, high = cell_numbers(table, view)
    rows = np.flatnonzero(np.isfinite(value))
    if "hexagon" in table.column_names or not 1 <= rows.size <= MAX_CELLS:
        return None
    grades, said = cell_grades(table, view), describe_known_ends(table, view)
    return draw_bars(
        [name_cell(table, view, row) for row in rows.tolist()],
        (value[rows], low[rows], high[rows]),
        [grades[row] for row in rows.tolist()],
        view.amount,
        view.interval,
        {number: said[row] for number, row in enumerate(rows.tolist()) if row in said},
    )


def _floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _payload(
    table: pa.Table, view: ManifestView, context: dict[str, Any] | None, *, geography: bool
) -> dict[str, Any]:
    """Return everything that the page's scripts need."""
    described = _described(table, view)
    return {
        **described,
        "columns": {**label_texts(table, view), **described["columns"], **weight_columns(table)},
        **weight_words(table),
        **frame_data(table, view, described["columns"]["quality"], context, geography=geography),
    }


def _described(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return everything that the page's scripts need of the statistic of a view."""
    compared = ComparableNumbers.of(table, view) if "hexagon" in table.column_names else None
    return describe_numbers(view, cell_numbers(table, view), cell_grades(table, view), compared)


def weight_columns(table: pa.Table) -> dict[str, list[float | None]]:
    """Return weights and their intervals, rounded outwards; None where a cell is closed."""
    if "weight" not in table.column_names:
        return {}
    rules = {"weight": np.rint, "weight_low": np.floor, "weight_high": np.ceil}
    return {name: round_numbers(_floats(table, name), 0, rule) for name, rule in rules.items()}


def weight_words(table: pa.Table) -> dict[str, Any]:
    """Return the columns of weights, and the line of the card that names them."""
    if "weight" not in table.column_names:
        return {"extras": [], "lines": []}
    names = {"weight": "Weight", "weight_low": "", "weight_high": ""}
    extras = [extra_column(key, name) for key, name in names.items()]
    return {"extras": extras, "lines": ["weight_line"]}


def _sentence_values(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return everything that the sentences of the page name."""
    manifest, grades = view.manifest, cell_grades(table, view)
    n_open = sum(grade != CLOSED for grade in grades)
    half = cell_numbers(table, view)[1]
    half = half[np.isfinite(half)]
    prediction = manifest["plan"]["prediction"]
    mapped = "hexagon" in table.column_names
    return {
        "view": view,
        **{name: defaultdict(str, manifest[name]) for name in ("guarantee", "bounds", "dataset")},
        "plan": manifest["plan"],
        "grid": manifest["grid"],
        "software": manifest["software"],
        "meaning_of_delta": delta_in_words(manifest),
        "has_weights": "weight" in table.column_names,
        "has_shapes": "bins" in manifest["plan"],
        "cells": table.num_rows,
        "open_cells": n_open,
        "closed_cells": table.num_rows - n_open,
        "hexagons": len(set(table["hexagon"].to_pylist())) if mapped else 0,
        "median_bound": view.amount_up(float(np.median(half))) if half.size else "",
        "expected_error": _expected(prediction, view),
        "weight_error": f"{prediction.get('weight_error', prediction.get('count_error')):.3g}",
        "qualities": [
            {"name": name, "number": number, "cells": grades.count(name)}
            for number, name in enumerate(QUALITIES)
            if name != CUT_OFF or CUT_OFF in grades
        ],
        "by_map": n_open >= 3,
    }


def _expected(prediction: Mapping[str, float], view: ManifestView) -> str:
    """Return the predicted error of averages or medians; "" where only units are counted."""
    error = prediction.get("mean_error", prediction.get("quantile_error"))
    return "" if error is None else with_unit(f"{error:.2g}", view.value_unit)
