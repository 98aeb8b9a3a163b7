"""The page of quantiles, shares and histograms: one page, with a choice among its statistics."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hexveil.report import legend, page_text
from hexveil.report.interval_chart import interval_chart
from hexveil.report.manifest_view import ManifestView, column_prefixes, format_heading
from hexveil.report.page import frame_values
from hexveil.report.payload import QUALITIES, payload, shown_statistic
from hexveil.report.promise import exact_counts, in_common, presence
from hexveil.report.templates import render_template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

WORDS = "distribution"
"""Folder of the templates with the sentences of this page."""


def render_distribution(
    table: pa.Table,
    manifest: Mapping[str, Any],
    *,
    context: dict[str, Any] | None = None,
    geography: bool = True,
    description: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
) -> str:
    """Return the report of quantiles, shares and histograms as the text of one HTML file.

    Parameters
    ----------
    table, manifest, context, geography, description, files
        See `hexveil.report.page.render`.
    """
    every = ManifestView.from_manifest(manifest)
    views = [replace(every, shown=name) for name in shown_prefixes(every.statistics)]
    choices = [_choice(table, view) for view in views]
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    data = payload(table, views[0], context=context, geography=geography)
    data |= {"text": labels, "choices": choices}
    values = _sentence_values(table, views[0])
    values |= {"words": WORDS, "choices": [one["heading"] for one in choices]}
    chart = interval_chart(table, views[0])
    values |= frame_values(manifest, data, chart, context, description, files)
    return render_template("report.html", values)


def shown_prefixes(statistics: Sequence[str]) -> list[str]:
    """Return the statistics that can be chosen, as prefixes of their columns.

    Bins of a histogram are in the tables; the page has them where there is nothing else.

    Examples
    --------
    >>> shown_prefixes(("mean", "p50", "histogram"))
    ['mean', 'p50']
    """
    others = [name for name in statistics if name != "histogram"]
    return column_prefixes(others or statistics)


def _choice(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return everything that the page's scripts need of one statistic."""
    shown = shown_statistic(table, view)
    # Public counts are the same for all statistics.
    for name in ("users", "records"):
        del shown["columns"][name]
    grades = table[f"{view.statistic}_quality"].to_pylist()
    unit = f", {view.unit_text}" if view.unit_text else ""
    return shown | {
        "heading": f"{view.heading}{unit}",
        "marks": legend.marks(shown["colour"]["low"], shown["colour"]["high"]),
        "grades": [grades.count(name) for name in _graded(view)],
    }


def _graded(view: ManifestView) -> list[str]:
    """Return the grades that the legend explains."""
    has_range = any(one["cells"] for one in view.manifest.get("moments", {}).get("cut_off", ()))
    return [name for name in QUALITIES if has_range or name != "cut off"]


def _sentence_values(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    """Return everything that the sentences of the page name."""
    manifest = view.manifest
    grades = table[f"{view.statistic}_quality"].to_pylist()
    mapped = "hexagon" in table.column_names
    return {
        "view": view,
        **{name: defaultdict(str, manifest[name]) for name in ("guarantee", "bounds", "dataset")},
        "plan": manifest["plan"],
        "grid": manifest["grid"],
        "software": manifest["software"],
        "statistics": view.statistics,
        "whole_heading": format_heading(view.statistics, view.value),
        "presence": presence(),
        "exact_counts": exact_counts(),
        "in_common": in_common(),
        "cells": table.num_rows,
        "hexagons": len(set(table["hexagon"].to_pylist())) if mapped else 0,
        "qualities": [
            {"name": name, "number": number, "cells": grades.count(name)}
            for number, name in enumerate(_graded(view))
        ],
        "by_map": table.num_rows > 1,
        **page_text.loss_values(manifest["losses"]),
    }
