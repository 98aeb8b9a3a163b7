"""The page of quantiles, shares and histograms: one page, with a choice among its statistics."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hexveil.report import page_text
from hexveil.report.interval_chart import interval_chart
from hexveil.report.manifest_view import ManifestView
from hexveil.report.origin import describe_origin
from hexveil.report.page import frame_values
from hexveil.report.payload import QUALITIES, payload, shown_statistic
from hexveil.report.promise_wording import delta_in_words, exact_counts, in_common, presence
from hexveil.report.statistic_choice import StatisticChoice
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
    choice = StatisticChoice.of(ManifestView.from_manifest(manifest), table.num_rows)
    first = choice.views[0]
    labels = json.loads(render_template("page/labels.json", {}))
    labels["bound"] = labels.pop("interval_half_width")
    data = payload(table, first, context=context, geography=geography) | {"text": labels}
    data |= choice.data(
        lambda view: _own_numbers(table, view),
        lambda view: table[f"{view.statistic}_quality"].to_pylist(),
        _graded(first),
    )
    values = _sentence_values(table, first) | choice.sentence_values() | {"words": WORDS}
    origin, chart = describe_origin(table, manifest), interval_chart(table, first)
    values |= frame_values(origin, manifest, data, chart, context, description, files)
    return render_template("report.html", values)


def _own_numbers(table: pa.Table, view: ManifestView) -> dict[str, Any]:
    shown = shown_statistic(table, view)
    # Public counts are the same for all statistics.
    for name in ("users", "records"):
        del shown["columns"][name]
    return shown


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
        "presence": presence(),
        "exact_counts": exact_counts(),
        "in_common": in_common(),
        "meaning_of_delta": delta_in_words(manifest),
        "cells": table.num_rows,
        "hexagons": len(set(table["hexagon"].to_pylist())) if mapped else 0,
        "qualities": [
            {"name": name, "number": number, "cells": grades.count(name)}
            for number, name in enumerate(_graded(view))
        ],
        "by_map": table.num_rows > 1,
        **page_text.loss_values(manifest["losses"]),
    }
