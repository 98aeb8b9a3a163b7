"""Descriptions of several value columns for portals: one data set with the files of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hexveil.publishing.catalogue.metadata_files import render_descriptions
from hexveil.publishing.catalogue.release_description import (
    DataFile,
    ReleaseDescription,
    describe_release,
    listed_files,
)
from hexveil.report.manifest_view import format_heading

Json = dict[str, Any]


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
