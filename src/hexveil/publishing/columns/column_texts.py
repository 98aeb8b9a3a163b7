"""README.txt of a release of several value columns: the values of its template."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.publishing.columns.column_description import statements_of_whole
from hexveil.publishing.markup import document
from hexveil.report.accuracy_text import describe_accuracy, describe_one_number
from hexveil.report.manifest_view import describe_repeats, format_heading, format_rounded_up
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import delta_in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    Json = dict[str, Any]

LOSSES = ("p99", "p90", "median", "mean")


def render_columns_readme(table: pa.Table, manifest: Json, columns: Sequence[Json]) -> str:
    """Return the text of README.txt.

    Parameters
    ----------
    table : pyarrow.Table
        Of all value columns.
    manifest : dict
        Of the whole.
    columns : sequence of dict
        Manifest of each value column.
    """
    return document("columns/readme.md", _values(table, manifest, columns)).to_text() + "\n"


def _values(table: pa.Table, manifest: Json, columns: Sequence[Json]) -> Json:
    names = ", ".join(column["column"] for column in manifest["columns"])
    is_private = manifest.get("model") == "presence"
    return {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "origin": describe_origin(table, statements_of_whole(manifest, columns)),
        "heading": format_heading(manifest["statistics"], names),
        "dataset": manifest["dataset"]["name"],
        "guarantee": manifest["guarantee"],
        # Under private presence each column declares its fleet, and the whole has none.
        "meaning_of_delta": delta_in_words(columns[0] if is_private else manifest),
        "epsilon": format_rounded_up(float(Fraction(manifest["guarantee"]["epsilon_spent"])), 4),
        "is_private": is_private,
        "has_targets": any("targets" in column for column in manifest["columns"]),
        "losses": describe_losses(manifest.get("losses")),
        "columns": [
            _column(stated, column_manifest)
            for stated, column_manifest in zip(manifest["columns"], columns, strict=True)
        ],
    }


def describe_losses(losses: Json | None) -> dict[str, str]:
    """Return quantiles of the losses of units; nothing where no unit's own loss is stated."""
    if losses is None:
        return {}
    rounded = {key: format_rounded_up(losses[key], 4) for key in LOSSES}
    return rounded | {"units": f"{losses['units']:,}"}


def describe_targets(columns: Sequence[Json]) -> list[dict[str, str]]:
    """Return the target errors of all value columns; nothing where ε was divided.

    Parameters
    ----------
    columns : sequence of dict
        Statements of the whole about each column.
    """
    return [
        {
            "column": column["column"],
            "of": target["of"],
            "at_most": _range_text(target, column["value_unit"]),
        }
        for column in columns
        for target in column.get("targets", ())
    ]


def _range_text(target: Json, value_unit: str) -> str:
    """Return a target as text, from the smallest to the largest of a cell."""
    unit = f"squared {value_unit or 'units'}" if target["of"] == "variance" else value_unit
    ends = [
        "no limit" if limit is None else f"{limit:.6g} {unit}".strip()
        for limit in (target["smallest"], target["largest"])
    ]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}, by cell"


def _column(stated: Json, column_manifest: Json) -> Json:
    """Return the facts about a value column, with its numbers formatted."""
    # Bins of a histogram each have their own statement, which is too many for a text.
    is_private = column_manifest.get("model") == "presence"
    accuracy = [
        entry
        for entry in column_manifest.get("accuracy", ())
        if not is_private and not entry["statistic"].startswith("histogram_")
    ]
    texts = describe_one_number(column_manifest) + describe_accuracy(
        accuracy, stated["value_unit"], lambda n, unit: f"{n:.3g} {unit}".strip()
    )
    return {
        "name": stated["column"],
        "folder": stated["folder"],
        "value_unit": stated["value_unit"],
        "cells": stated["cells"],
        # Counted facts: declared ones have no such numbers.
        **{name: f"{stated[name]:,}" for name in ("users", "records") if name in stated},
        "epsilon": format_rounded_up(float(Fraction(stated["epsilon"])), 4),
        "repeats": describe_repeats(column_manifest),
        "accuracy": texts,
    }
