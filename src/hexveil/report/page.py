"""The whole page of a release, as text: one file, nothing fetched from elsewhere.

The page's policy forbids every request, so even a mistake in it could not reveal that the page was
opened, and every script but the page's own (content_security_policy.py). Templates escape all text;
data are embedded in script elements as JSON.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from hexveil.base.errors import InputError
from hexveil.report import figure, page_text
from hexveil.report.content_security_policy import policy
from hexveil.report.interval_chart import interval_chart
from hexveil.report.manifest_view import ManifestView
from hexveil.report.payload import payload, script_json, ticks
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from hexveil.report.interval_chart import Chart

_COUNTS = ("cell", "users", "records")
_NUMBERS = ("raw", "bound95", "low", "high", "quality")


def render(
    table: pa.Table, manifest: Mapping[str, Any], *, context: dict[str, Any] | None = None
) -> str:
    """Return the report of a release as the text of one HTML file.

    Parameters
    ----------
    table : pyarrow.Table
        The released table, a row per cell: released numbers and public facts only.
    manifest : mapping
        The manifest of the same release, schema version 2.
    context : dict, optional
        Public GeoJSON to draw in thin lines beneath the map, as `read_context` returns it.

    Raises
    ------
    InputError
        If the table has no rows or lacks a column, or the manifest lacks a section.

    Notes
    -----
    Equal input gives equal text; there is no time stamp.
    """
    view = ManifestView.from_manifest(manifest)
    _check(table, view)
    labels = json.loads(render_template("page/labels.json", {}))
    interval = labels.pop("interval_half_width")
    if view.has_posterior(table):
        labels["bound"] = interval
    data = payload(table, view, context=context) | {"text": labels}
    item = None
    if data["map"]:
        item = figure.map_item(data["colour"]["low"], data["colour"]["high"], _width(data["map"]))
    legend, chart = _legend(data["colour"], view), interval_chart(table, view)
    # The policy allows one style element and no style attribute: positions are rules of it.
    style = _asset("page.css") + _placement_rules(legend, chart)
    scripts = _scripts(with_map=item is not None)
    values = page_text.template_values(table, view) | {
        "qualities": page_text.qualities(table, view),
        "chart": chart,
        "legend": legend,
        "labels": labels,
        "timezone": manifest["grid"].get("timezone") or "",
        "slots": data["slots"],
        "has_map": item is not None,
        "has_context": bool(context),
        "policy": Markup(policy(scripts, style)),  # noqa: S704  base64 and our own words
        "style": Markup(style),  # noqa: S704  our own file, and numbers
        "data": Markup(script_json(data)),  # noqa: S704  escaped by script_json
        "item": Markup(script_json(item)),  # noqa: S704  escaped by script_json
        "scripts": [Markup(script) for script in scripts],  # noqa: S704  our own, and the library's
    }
    return render_template("report.html", values)


def _check(table: pa.Table, view: ManifestView) -> None:
    # A standard deviation has no noise of its own, so it has neither scale nor bias.
    numbers = _NUMBERS if view.statistic == "sd" else (*_NUMBERS, "scale", "bias")
    needed = (*_COUNTS, *(f"{view.statistic}_{key}" for key in numbers))
    missing = [column for column in needed if column not in table.column_names]
    if missing:
        raise InputError(
            f"the released table has no column {missing[0]!r}; "
            "make the report from the table of a release."
        )
    if not table.num_rows:
        raise InputError("the released table has no rows; there is nothing to report.")


def _width(drawn: Mapping[str, Any]) -> float:
    """Return the extent of the hexagons from west to east on the ground, in metres."""
    east = np.concatenate([ring[::2] for ring in drawn["rings"]])
    return float(np.ptp(east)) * float(drawn["unit"])


def _legend(colour: Mapping[str, float], view: ManifestView) -> dict[str, Any]:
    """Return the colours of the bar and its marks, in per cent of its length."""
    low, high = colour["low"], colour["high"]
    marks = ticks(low, high)
    digits = max(len(f"{mark:.9f}".rstrip("0").split(".")[1]) for mark in marks)
    return {
        "gradient": figure.gradient(),
        "marks": [
            (round(100 * (mark - low) / (high - low), 2), f"{mark:,.{digits}f}") for mark in marks
        ],
        "unit": view.unit_text,
    }


def _placement_rules(legend: Mapping[str, Any], chart: Chart | None) -> str:
    """Return the style rules for colours and places: the policy allows no style attributes."""
    rules = [
        f"#colour-bar {{ background: linear-gradient(to right, {', '.join(legend['gradient'])}); }}"
    ]
    for number, (place, _) in enumerate(legend["marks"], 1):
        rules.append(f".marks span:nth-child({number}) {{ left: {place}%; }}")
    for number, bar in enumerate(() if chart is None else chart.bars, 1):
        row = f"#chart li:nth-child({number})"
        rules.append(f"{row} i {{ left: {bar.start}%; width: {bar.width}%; }}")
        rules.append(f"{row} b {{ left: {bar.dot}%; }}")
    return "\n".join(rules) + "\n"


def _scripts(*, with_map: bool) -> list[str]:
    """Return the text of each script: the map's library after its style sheets, and the page's."""
    # Labels have no map: their page carries no map library, and is a tenth as long.
    names = ("page.js", "map.js", "table.js") if with_map else ("page.js", "table.js")
    page_script = "\n".join(_asset(name) for name in (*names, "start.js"))
    libraries = [_asset("sheets.js"), figure.scripts()] if with_map else []
    return [*libraries, f'(function () {{\n"use strict";\n{page_script}}})();\n']


def _asset(name: str) -> str:
    return (resources.files("hexveil.report") / "assets" / name).read_text(encoding="utf-8")
