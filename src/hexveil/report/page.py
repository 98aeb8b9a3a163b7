"""The whole page of a release, as text: one file, nothing fetched from elsewhere.

The page's policy forbids every request, so even a mistake in it could not reveal that the page was
opened, and every script but the page's own (content_security_policy.py). Templates escape all text;
data are embedded in script elements as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from itertools import accumulate
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from hexveil.report import page_text
from hexveil.report.accuracy_text import describe_one_number, translate_statements
from hexveil.report.figure_style import colour_rules
from hexveil.report.manifest_view import format_heading
from hexveil.report.origin import describe_origin
from hexveil.report.payload import (
    Chart,
    column_texts,
    frame_data,
    interval_chart,
    scale_marks,
    script_json,
    timeslots_of,
)
from hexveil.report.shown_column import ShownColumn, heading_of
from hexveil.report.templates import in_language, policy, render_template

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
    context: Json | None = None,
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
    context : dict, optional
        Public GeoJSON to draw in thin lines beneath the map, as `read_context` returns it.
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
        manifest = translate_statements(manifest)
        tables: ColumnTables = {
            name: (numbers, translate_statements(own))
            for name, (numbers, own) in (columns or {"": (table, manifest)}).items()
        }
        words = _words(manifest, bool(columns))
        cells = table["cell"].to_pylist()
        page_columns = [ShownColumn.of(*one, cells, len(tables)) for one in tables.values()]
        if words == MOMENTS:
            page_columns = [replace(column, views=column.views[:1]) for column in page_columns]
        leading, view = page_columns[0], page_columns[0].views[0]
        has_choice = words != MOMENTS and (len(leading.views) > 1 or words != "presence")
        data = _data(page_columns, has_choice=has_choice)
        data |= frame_data(
            table,
            timeslots_of(table),
            view.label_columns,
            data["columns"]["quality"],
            view.unit,
            context,
            geography=geography,
        )
        names = view.label_columns
        if not names and "hexagon" not in table.column_names:
            names = ("cell",)
        labels = {f"label:{name}": column_texts(table, name) or [] for name in names}
        data["columns"] = labels | data["columns"]
        if columns:
            offsets = accumulate((len(column.views) for column in page_columns), initial=0)
            data["value_columns"] = [
                {"counts": column.counts(), "bins": column.bins(offset)}
                for column, offset in zip(page_columns, offsets, strict=False)
            ]
        data["text"] = page_labels()
        interval = data["text"].pop("interval_half_width")
        estimator = view.estimator(leading.table)
        if words != MOMENTS or estimator != "raw":
            data["text"]["bound"] = interval
        if columns and leading.is_private:
            data["text"]["absent_cell"] = data["text"]["closed_cell"]
        values = page_text.template_values(table, manifest, page_columns) | {
            "words": words,
            "estimator": estimator,
            "one_number": [
                f"{column}: {text}" if column else text
                for column, (_, stated) in tables.items()
                for text in describe_one_number(stated)
            ],
        }
        if words == MOMENTS:
            values |= page_text.moment_values(table, view)
        if has_choice:
            values |= {
                "choices": [heading_of(view) for view in leading.views],
                "bins_from": leading.bins_from,
                "has_all_statistics": all(column.has_all for column in page_columns),
                "whole_heading": manifest.get("heading")
                or format_heading(view.statistics, view.value),
            }
        if columns:
            pairs = zip(manifest["columns"], page_columns, strict=True)
            values["value_columns"] = [
                stated | {"bounds": column.manifest["bounds"]} for stated, column in pairs
            ]
        # Bars of one column among several: the map, or the table, shows the others.
        origin, chart = describe_origin(table, manifest), interval_chart(leading.table, view)
        values |= frame_values(origin, manifest, data, chart, context, description, files)
        return render_template("report.html", values)


def _words(manifest: Mapping[str, Any], columns: bool) -> str:
    """Return the folder of the templates with the sentences of a page."""
    if columns:
        return "columns"
    if manifest.get("model") == "presence":
        return "presence"
    return MOMENTS if manifest.get("kind", "moments") == "moments" else "distributions"


def _data(page_columns: Sequence[ShownColumn], *, has_choice: bool) -> Json:
    """Return the scripts' data of numbers: of the first statistic, and of those to choose from."""
    leading = page_columns[0]
    choices = [column.choices() for column in page_columns] if has_choice else []
    default = choices[0][0] if choices else leading.describe(leading.views[0])
    data = {name: default[name] for name in ("value", "colour")} | leading.count_words()
    data["columns"] = default["columns"] | leading.counts()
    if choices:
        data |= {
            "choices": [choice for group in choices for choice in group],
            "bins": leading.bins(0),
        }
    return data


def page_labels() -> dict[str, str]:
    """Return the words of the page's scripts."""
    return dict(json.loads(render_template("page/labels.json", {})))


def frame_values(
    origin: Mapping[str, str],
    manifest: Mapping[str, Any],
    data: dict[str, Any],
    chart: Chart | None,
    context: dict[str, Any] | None,
    description: Mapping[str, Any] | None,
    files: Sequence[str],
) -> dict[str, Any]:
    """Return the values that all pages share: all but their sentences.

    Parameters
    ----------
    origin : mapping
        Period and publisher in words.
    manifest, context, description, files
        See `render`.
    data : dict
        Everything that the page's scripts need, with the words of its labels in `text`.
    chart : Chart, optional
        Bars of the intervals.
    """
    has_map = data["map"] is not None
    is_change = bool(data["value"].get("signed"))
    marks = scale_marks(data["colour"]["low"], data["colour"]["high"], signed=is_change)
    places = {"place": "hexagon" if has_map else "area", "timed": bool(data["slots"])}
    # The policy allows one style element and no style attribute: positions are rules of it.
    style = read_asset("page.css") + colour_rules() + placement_rules(marks, chart)
    first, scripts = read_asset("scheme_memory.js"), page_scripts(with_map=has_map)
    return {
        "origin": origin,
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        # Data, as the payload is: browsers do not run it, so the policy does not judge it.
        "description": Markup(script_json(description or {})),  # noqa: S704  escaped
        "chart": chart,
        "marks": marks,
        "labels": data["text"],
        "frame": json.loads(render_template("page/frame.json", places)),
        "language": manifest.get("language", "en"),
        "timezone": manifest["grid"].get("timezone") or "",
        "slots": data["slots"],
        "start": data["start"],
        "has_map": has_map,
        "is_change": is_change,
        "has_context": bool(context),
        "context_credit": (context or {}).get("attribution", ""),
        "attribution": data["map"]["attribution"] if data["map"] else "",
        "files": list(files),
        "policy": Markup(policy([first, *scripts], style)),  # noqa: S704  base64 and our own words
        "style": Markup(style),  # noqa: S704  our own file, and numbers
        "data": Markup(script_json(data)),  # noqa: S704  escaped by script_json
        "first_script": Markup(first),  # noqa: S704  our own
        "scripts": [Markup(script) for script in scripts],  # noqa: S704  our own, and the library's
    }


def placement_rules(marks: Sequence[tuple[float, str]], chart: Chart | None) -> str:
    """Return the style rules for places: the policy allows no style attributes."""
    rules = [
        f".marks span:nth-child({number}) {{ left: {place}%; }}"
        for number, (place, _) in enumerate(marks, 1)
    ]
    for number, bar in enumerate(chart["bars"] if chart else (), 1):
        row = f"#chart li:nth-child({number})"
        rules.append(f"{row} i {{ left: {bar['start']}%; width: {bar['width']}%; }}")
        rules.append(f"{row} b {{ left: {bar['dot']}%; }}")
    return "\n".join(rules) + "\n"


def page_scripts(*, with_map: bool) -> list[str]:
    """Return the text of each script: the map's library, and the page's own."""
    # Labels have no map: their page carries no map library, and is much shorter.
    names = ("page", "scheme", *(_OF_MAP if with_map else ()), "table", "choice", "start")
    page_script = "\n".join(read_asset(f"{name}.js") for name in names)
    libraries = [read_asset("vendor/d3.min.js")] if with_map else []
    return [*libraries, f'(function () {{\n"use strict";\n{page_script}}})();\n']


def read_asset(name: str) -> str:
    """Return the text of a file of the page."""
    return (resources.files("hexveil.report") / "assets" / name).read_text(encoding="utf-8")
