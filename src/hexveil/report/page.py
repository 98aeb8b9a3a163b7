"""The whole page of a release, as text: one file, nothing fetched from elsewhere.

The page's policy forbids every request, so even a mistake in it could not reveal that the page was
opened, and every script but the page's own (content_security_policy.py). Templates escape all text;
data are embedded in script elements as JSON.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from hexveil.report import accuracy_text, payload
from hexveil.report.accuracy_text import CAUTION_DEVIATIONS, GOOD_DEVIATIONS
from hexveil.report.figure_style import colour_rules, palette
from hexveil.report.geography.background import draw_map
from hexveil.report.geography.context import Layer
from hexveil.report.manifest_view import (
    ManifestView,
    describe_repeats,
    format_heading,
    noun,
    numbers_of,
)
from hexveil.report.origin import describe_origin
from hexveil.report.payload import ShownColumn, Timeslots, script_json, timeslots_of
from hexveil.report.promise_wording import delta_in_words, limits_of_promise
from hexveil.report.templates import in_language, policy, render_template, unit_name

Json = dict[str, Any]

ColumnTables = Mapping[str, tuple[pa.Table, Mapping[str, Any]]]

_OF_MAP = ("cells", "canvas", "map", "readout", "share")
"""Scripts that a page without a map does not need."""
MOMENTS = "page"
"""Folder of the templates with the sentences of a page of averages and variances, which shows the
first statistic alone."""


def render(
    table: pa.Table,
    manifest: Mapping[str, Any],
    *,
    columns: ColumnTables | None = None,
    context: Layer | None = None,
    geography: bool = True,
    description: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the report of a release as the text of one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, a row per cell: released numbers and public facts only. Of several value
        columns the cells of all of them.
    manifest : mapping
        The manifest of the same release, which may have a title and a subtitle for the page.
    columns : mapping of str to (pyarrow.Table, mapping), optional
        Released table and manifest of each of several value columns.
    context : Layer, optional
        Public lines to draw beneath the map, as `read_context` returns them.
    geography : bool
        Whether to draw coast, rivers and borders, and to name places, from the package's own data.
    description : mapping, optional
        The release as a dataset of schema.org, which search engines read from the page.
    files : sequence of str
        Names of files beside the page, which it offers.

    Notes
    -----
    Equal input gives equal text; there is no time stamp.
    """
    with in_language(manifest):
        manifest = accuracy_text.translate_statements(manifest)
        tables: ColumnTables = {
            name: (numbers, accuracy_text.translate_statements(own))
            for name, (numbers, own) in (columns or {"": (table, manifest)}).items()
        }
        words = _words(manifest, bool(columns))
        cells = table["cell"].to_pylist()
        page_columns = [ShownColumn.of(*pair, cells, len(tables)) for pair in tables.values()]
        if words == MOMENTS:
            page_columns = [replace(column, views=column.views[:1]) for column in page_columns]
        leading, view = page_columns[0], page_columns[0].views[0]
        data = page_data(table, page_columns, timeslots_of(table), context, geography=geography)
        estimator, labels = view.estimator(leading.table), data["text"]
        interval = labels.pop("interval_half_width")
        if words != MOMENTS or estimator != "raw":
            labels["bound"] = interval
        if columns and leading.is_private:
            labels["absent_cell"] = labels["closed_cell"]
        values = _template_values(table, manifest, page_columns) | {
            "words": words,
            "context": context,
            "origin": describe_origin(table, manifest),
            "estimator": estimator,
            "one_number": [
                f"{column}: {text}" if column else text
                for column, (_, stated) in tables.items()
                for text in accuracy_text.describe_one_number(stated)
            ],
            "bins_from": leading.bins_from,
            "has_all_statistics": all(column.has_all for column in page_columns),
        }
        if words == MOMENTS:
            values |= _moment_values(table, view)
        if len(data["choices"]) > 1:
            values["whole_heading"] = manifest.get("heading") or format_heading(
                view.statistics, view.value
            )
        if columns:
            pairs = zip(manifest["columns"], page_columns, strict=True)
            values["value_columns"] = [
                stated | {"bounds": column.manifest["bounds"]} for stated, column in pairs
            ]
        return fill_page(values, data, manifest, description, files)


def _words(manifest: Mapping[str, Any], columns: bool) -> str:
    """Return the folder of the templates with the sentences of a page."""
    if columns:
        return "columns"
    if manifest.get("model") == "presence":
        return "presence"
    return MOMENTS if manifest.get("kind", "moments") == "moments" else "distributions"


def page_data(
    table: pa.Table,
    page_columns: Sequence[ShownColumn],
    timeslots: Timeslots,
    context: Layer | None,
    *,
    geography: bool = True,
) -> Json:
    """Return everything that the page's scripts need: numbers, places, slots and words."""
    leading, view = page_columns[0], page_columns[0].views[0]
    groups = [[column.describe(statistic) for statistic in column.views] for column in page_columns]
    offsets = accumulate((len(group) for group in groups), initial=0)
    places, place = payload.code_texts(payload.column_texts(table, "hexagon"))
    starts, texts, slot = timeslots
    drawn = draw_map(places, context, geography=geography)
    return {
        "choices": [choice for group in groups for choice in group],
        "value_columns": [
            {"counts": column.counts(), "bins": column.bins(offset)}
            for column, offset in zip(page_columns, offsets, strict=False)
        ],
        "columns": payload.label_columns(table, view),
        **leading.count_words(),
        "hexagon": place,
        "slot": slot,
        "slots": texts,
        "slot_starts": starts,
        "start": payload.opening_slot(slot, groups[0][0]["columns"]["quality"]),
        "map": drawn,
        "names": places,
        "unit": unit_name(view.unit),
        "palette": {mode: palette(mode) for mode in ("light", "dark")} if drawn else {},
        # The words of the page's scripts.
        "text": json.loads(render_template("page/labels.json", {})),
    }


def fill_page(
    values: Json,
    data: Json,
    manifest: Mapping[str, Any],
    description: Mapping[str, Any] | None,
    files: Sequence[str],
) -> str:
    """Return the page with its sentences, data, style and scripts.

    Parameters
    ----------
    values : dict
        Everything that its sentences name.
    data : dict
        See `page_data`.
    manifest, description, files
        See `render`.
    """
    has_map = data["map"] is not None
    place = "hexagon" if has_map else "area"
    frame = render_template("page/frame.json", {"place": place, "timed": bool(data["slots"])})
    # The policy allows one style element and no style attribute.
    style = read_asset("page.css") + colour_rules()
    first, scripts = read_asset("scheme_memory.js"), page_scripts(with_map=has_map)
    return render_template(
        "report.html",
        values
        | {
            "title": manifest.get("title", ""),
            "subtitle": manifest.get("subtitle", ""),
            # Data, as the payload is: browsers do not run it, so the policy does not judge it.
            "description": Markup(script_json(description or {})),  # noqa: S704  escaped
            # Of the first value column: the others have the same statistics.
            "choices": [
                choice["heading"]
                for choice in data["choices"][: len(data["choices"]) // len(data["value_columns"])]
            ],
            "labels": data["text"],
            "frame": json.loads(frame),
            "language": manifest.get("language", "en"),
            "timezone": manifest["grid"].get("timezone") or "",
            "slots": data["slots"],
            "start": data["start"],
            "has_map": has_map,
            "attribution": data["map"]["attribution"] if has_map else "",
            "files": list(files),
            "policy": Markup(policy([first, *scripts], style)),  # noqa: S704  base64 and our words
            "style": Markup(style),  # noqa: S704  our own file
            "data": Markup(script_json(data)),  # noqa: S704  escaped by script_json
            "first_script": Markup(first),  # noqa: S704  our own
            "scripts": [Markup(script) for script in scripts],  # noqa: S704  our own, and the library's
        },
    )


def page_scripts(*, with_map: bool) -> list[str]:
    """Return the text of each script: the map's library, and the page's own."""
    # Labels have no map: their page carries no map library, and is much shorter.
    common = ("page", "scheme", *(_OF_MAP if with_map else ()), "table", "choice")
    names = (*common, *(() if with_map else ("chart",)), "start")
    page_script = "\n".join(read_asset(f"{name}.js") for name in names)
    libraries = [read_asset("vendor/d3.min.js")] if with_map else []
    return [*libraries, f'(function () {{\n"use strict";\n{page_script}}})();\n']


def read_asset(name: str) -> str:
    """Return the text of a file of the page."""
    return (resources.files("hexveil.report") / "assets" / name).read_text(encoding="utf-8")


def _template_values(
    table: pa.Table, manifest: Mapping[str, Any], page_columns: Sequence[ShownColumn]
) -> dict[str, Any]:
    """Return everything that the sentences of every page name.

    Parameters
    ----------
    table : pyarrow.Table
        With the cells of the page.
    manifest : mapping
        Of the whole release.
    page_columns : sequence of ShownColumn
        Its value columns; facts that the whole does not state are those of the first.
    """
    leading, view = page_columns[0], page_columns[0].views[0]
    stated, plan = {**leading.manifest, **manifest}, leading.manifest["plan"]
    grades, half = leading.grades(view), leading.numbers(view)[1]
    half, closed = half[np.isfinite(half)], grades.count("closed")
    return {
        "view": view,
        # A fact that a manifest leaves out is empty text, and its row is not shown.
        **{name: defaultdict(str, stated[name]) for name in ("guarantee", "dataset", "bounds")},
        "plan": plan,
        "grid": leading.manifest["grid"],
        "software": stated.get("software") or {},
        "statistics": list(map(noun, view.statistics)),
        **limits_of_promise(),
        "meaning_of_delta": delta_in_words(leading.manifest),
        "is_private": leading.is_private,
        "has_weights": "weight" in leading.table.column_names,
        "has_shapes": "bins" in plan,
        "has_absent": any((column.rows < 0).any() for column in page_columns),
        "cells": table.num_rows,
        "closed_cells": closed,
        "open_cells": table.num_rows - closed,
        # Fewer cells have no differences that grades could follow.
        "by_map": table.num_rows - closed >= (3 if leading.is_private else 2),
        "hexagons": len(table["hexagon"].unique()) if "hexagon" in table.column_names else 0,
        "median_bound": view.amount_up(float(np.median(half))) if half.size else "",
        "qualities": _qualities(page_columns, grades),
        "losses": manifest.get("losses") or {},
        "repeats": describe_repeats(view.manifest),
        "memory": accuracy_text.describe_earlier_maps(leading.manifest),
    }


def _qualities(page_columns: Sequence[ShownColumn], grades: Sequence[str]) -> list[dict[str, Any]]:
    """Return each quality grade that some cell has, with its number of cells."""
    sentences = {
        grade for column in page_columns for view in column.views for grade in column.grades(view)
    }
    return [
        {"name": name, "number": number, "cells": grades.count(name)}
        for number, name in enumerate(payload.QUALITIES)
        if name in sentences
    ]


def _moment_values(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return everything else that the sentences about averages and variances name."""
    plan, steps, accuracy = view.manifest["plan"], view.steps, view.accuracy
    squares = view.statistic != "mean"
    bounds, between = numbers_of(table, f"{view.statistic}_bound95"), accuracy.get("between_cells")
    errors = {
        "typical_error": accuracy.get("typical_error"),
        "median_raw_bound": float(np.median(bounds)),
        "largest_bound": float(view.half_widths(table).max()),
    }
    return accuracy_text.clipping_values(view.manifest, steps, squares=squares) | {
        **{name: "" if error is None else view.amount_up(error) for name, error in errors.items()},
        "plan": defaultdict(str, plan),
        "grid": defaultdict(str, view.manifest["grid"]),
        "nothing_read": view.constant,
        "cut_off_cells": view.grades(table).count(accuracy_text.CUT_OFF),
        "predicts_errors": accuracy_text.get_step(steps, "cell_stages") is not None,
        "has_posterior": view.has_posterior(table),
        "between_cells": "" if between is None else view.amount(between),
        "graded_by": accuracy.get("graded_by", "bounds"),
        "good_within": view.amount(GOOD_DEVIATIONS * (between or 0.0)),
        "caution_within": view.amount(CAUTION_DEVIATIONS * (between or 0.0)),
        "assumption": accuracy.get("assumption", ""),
    }
