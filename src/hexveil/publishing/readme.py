"""README.txt of a release, and of several value columns: values of templates/*/readme.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hexveil.publishing.catalogue.release_description import find_coverage
from hexveil.publishing.columns.column_table import statements_of_whole
from hexveil.publishing.markup import document
from hexveil.report import accuracy_text
from hexveil.report.manifest_view import common_unit, describe_repeats, format_heading, spoken_value
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import delta_in_words

Json = dict[str, Any]


def render_readme(table: pa.Table, manifest: Json, *, mapped: bool, tiled: bool = False) -> str:
    """Return the text of README.txt.

    Parameters
    ----------
    table : pyarrow.Table
        The released table.
    manifest : dict
        The manifest of the same release.
    mapped, tiled : bool
        Whether the folder has cells.geojson, and cells.pmtiles.
    """
    dataset, plan = manifest["dataset"], manifest["plan"]
    statistics = plan["statistics"]
    values = _common(table, manifest) | {
        "heading": format_heading(statistics, spoken_value(dataset)),
        "value_unit": common_unit(statistics, dataset["value_unit"]),
        "cells": table.num_rows,
        "delta": manifest["guarantee"].get("delta", ""),
        "meaning_of_delta": delta_in_words(manifest),
        "plan": plan,
        "grid": manifest["grid"],
        "quantum": manifest["bounds"]["quantum"],
        "hexagons": "hexagon" in table.column_names,
        "mapped": mapped,
        "tiled": tiled,
        "dated": find_coverage(table, manifest).start is not None,
        "columns": [
            {"name": field.name} | {key.decode(): text.decode() for key, text in stated.items()}
            for field in table.schema
            for stated in [{b"unit": b"", **(field.metadata or {})}]
        ],
        **_accuracy(manifest),
    }
    template = "readme.md"
    if manifest.get("model") == "presence":
        template, values["open_cells"] = "presence/readme.md", sum(table["is_open"].to_pylist())
    elif manifest.get("kind") == "distributions":
        template = "distribution/readme.md"
    else:
        values |= _moment_values(table, manifest)
    return document(template, values).to_text() + "\n"


def render_columns_readme(table: pa.Table, manifest: Json, columns: Sequence[Json]) -> str:
    """Return the text of README.txt of several value columns.

    Parameters
    ----------
    table : pyarrow.Table
        Of all value columns.
    manifest : dict
        Of the whole.
    columns : sequence of dict
        Manifest of each value column.
    """
    is_private = manifest.get("model") == "presence"
    whole = statements_of_whole(manifest, columns)
    values = _common(table, whole) | {
        # Under private presence each column declares its fleet, and the whole has none.
        "meaning_of_delta": delta_in_words(columns[0] if is_private else manifest),
        "heading": whole["heading"],
        "is_private": is_private,
        "columns": [
            stated | _accuracy(own)
            for stated, own in zip(manifest["columns"], columns, strict=True)
        ],
    }
    return document("columns/readme.md", values).to_text() + "\n"


def _common(table: pa.Table, manifest: Json) -> Json:
    """Return the values of every README.txt."""
    return {
        "title": manifest.get("title", ""),
        "subtitle": manifest.get("subtitle", ""),
        "origin": describe_origin(table, manifest),
        "dataset": manifest["dataset"]["name"],
        "guarantee": manifest["guarantee"],
        "losses": manifest.get("losses", {}),
    }


def _accuracy(manifest: Json) -> Json:
    """Return the sentences on repeated records and on the accuracy of one value column."""
    is_private, unit = manifest.get("model") == "presence", manifest["dataset"]["value_unit"]
    stated = [] if is_private else manifest.get("accuracy", [])
    return {
        "repeats": describe_repeats(manifest),
        "accuracy": accuracy_text.describe_one_number(manifest)
        + accuracy_text.describe_accuracy(stated, unit, lambda n, of: f"{n:.3g} {of}".strip()),
    }


def _moment_values(table: pa.Table, manifest: Json) -> Json:
    """Return everything else that the text about averages and variances names."""
    unit = manifest["dataset"]["value_unit"]
    clipping = accuracy_text.clipping_values(
        manifest["plan"]["privacy_steps"], lambda number: f"{number:.4g} {unit}".strip()
    )
    return clipping | {
        "posterior": "mean_estimate" in table.column_names,
        "contributing": _contributing_records(table, manifest),
        "cut_off": accuracy_text.describe_cut_off(manifest["cut_off"], table.num_rows),
        "smoothing": manifest["smoothing"],
    }


def _contributing_records(table: pa.Table, manifest: Json) -> Json:
    """Return the records that contribute and all records, where users are left out of cells."""
    divisors = [
        noised[0].get("divisor") for cell in manifest["cells"] if (noised := cell["noised"])
    ]
    if not divisors or divisors[0] is None:
        return {}
    return {"divisor": sum(divisors), "records": sum(table["records"].to_pylist())}
