"""Texts of a release of several value columns: README.txt, and descriptions for data portals.

For portals it is one data set, with the files of each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from hexveil.publishing.catalogue.metadata_files import render_descriptions
from hexveil.publishing.catalogue.release_description import (
    DataFile,
    ReleaseDescription,
    describe_release,
    listed_files,
)
from hexveil.publishing.markup import document
from hexveil.report.accuracy_text import describe_accuracy, describe_one_number
from hexveil.report.manifest_view import describe_repeats, format_heading, format_rounded_up
from hexveil.report.origin import describe_origin
from hexveil.report.promise_wording import delta_in_words

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


# ---- descriptions for portals ----


def statements_of_whole(manifest: Json, columns: Sequence[Json]) -> Json:
    """Return the manifest of the whole with the facts about its cells, which all columns share.

    Parameters
    ----------
    manifest : dict
        Of the whole.
    columns : sequence of dict
        Manifest of each value column.
    """
    names = ", ".join(column["column"] for column in manifest["columns"])
    units = {column["value_unit"] for column in manifest["columns"]}
    shared = {name: columns[0][name] for name in ("grid", "selection")}
    value_unit = units.pop() if len(units) == 1 else ""
    return manifest | {
        **shared,
        "dataset": manifest["dataset"] | {"value": names, "value_unit": value_unit},
        "plan": {"statistics": manifest["statistics"]},
        "heading": format_heading(manifest["statistics"], names),
    }


def render_whole_metadata(
    table: pa.Table,
    statements: Json,
    names: frozenset[str],
    columns: Mapping[str, frozenset[str]],
) -> dict[str, bytes]:
    """Return the descriptions of a folder of several value columns, by file name.

    Parameters
    ----------
    table : pyarrow.Table
        Of all value columns.
    statements : dict
        As `statements_of_whole` returns them.
    names : frozenset of str
        Files beside the folders of the columns.
    columns : mapping of str to frozenset of str
        Files of each column by the name of its folder.
    """
    description = describe_release(table, statements, names)
    files = [
        file for folder, files_of in columns.items() for file in _files_of_column(folder, files_of)
    ]
    return render_descriptions(
        _with_gaps(replace(description, files=(*description.files, *files)), columns)
    )


def _files_of_column(folder: str, names: frozenset[str]) -> list[DataFile]:
    """Return the files of a value column that portals list: its data and its page."""
    return [
        replace(
            file,
            name=f"{folder}/{file.name}",
            key=f"{folder.lower()}-{file.key}",
            title=f"{file.title}, of {folder}",
        )
        for file in listed_files(names)
        if file.role in ("data", "overview")
    ]


def _with_gaps(
    description: ReleaseDescription, columns: Mapping[str, frozenset[str]]
) -> ReleaseDescription:
    """Return the description with columns that may be empty, where one has no such cell."""
    prefixes = tuple(f"{folder}_" for folder in columns)
    described = tuple(
        replace(column, optional=column.name.startswith(prefixes)) for column in description.columns
    )
    return replace(description, columns=described)
