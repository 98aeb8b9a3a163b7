"""The folder of several value columns: a release of each, and their joint statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil import report
from hexveil.base import atomic_files, csv_safety
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.release_description import find_coverage
from hexveil.publishing.columns.column_table import column_prefixes, join_columns
from hexveil.publishing.columns.column_texts import (
    render_whole_metadata,
    statements_of_whole,
)
from hexveil.publishing.folder import (
    PAGE,
    PageOptions,
    ReleaseFiles,
    new_folder,
    round_to_intervals,
    with_statements,
    write_manifest,
)
from hexveil.publishing.readme import render_columns_readme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from hexveil.publishing.catalogue.holder_statements import Catalogue
    from hexveil.publishing.published_numbers import Release

FILES = ("README.txt", "cells.csv", "manifest.json", *metadata_files.ALWAYS, receipt.NAME, PAGE)
"""Files beside the folders of the value columns; with dates an Item, perhaps a signature."""


def write_columns(  # noqa: PLR0913  keyword-only, as Release.write
    manifest: dict[str, Any],
    releases: Mapping[str, Release],
    folder: str | Path,
    *,
    context: str | Path | None = None,
    sign: str | Path | None = None,
    catalogue: Catalogue | None = None,
    tiles: bool | None = None,
    title: str | None = None,
    subtitle: str | None = None,
    hide_geography: bool = False,
) -> Path:
    """Write all files of a release of several value columns and return the folder.

    Parameters
    ----------
    manifest : dict
        Of the whole.
    releases : mapping of str to Release
    folder, context, sign, catalogue, tiles, title, subtitle, hide_geography
        As `Release.write` has them.

    Raises
    ------
    InputError, StorageError
        As `Release.write`.
    """
    signer = None if sign is None else signing.read_signing_key(sign)
    stated = PageOptions(title or "", subtitle or "", not hide_geography)
    manifest = with_statements(manifest, catalogue, stated)
    prefixes = column_prefixes([*releases])
    contents = {}
    for column, release in releases.items():
        # A title names the whole, so that each column's says which one it is.
        own_title = f"{title}: {column}" if title else ""
        contents[prefixes[column]] = ReleaseFiles.of(
            release.table,
            release.manifest,
            context=context,
            catalogue=None if catalogue is None else catalogue.below(prefixes[column]),
            tiles=tiles,
            page=PageOptions(own_title, stated.subtitle, stated.geography),
        )
    with new_folder(folder) as temporary:
        for name, files in contents.items():
            column_folder = temporary / name
            column_folder.mkdir()
            files.write(column_folder, signer)
            for file in column_folder.iterdir():
                atomic_files.fsync(file)
        tables = {column: contents[prefixes[column]].table for column in releases}
        _write_common(temporary, join_columns(tables), manifest, contents)
        if signer is not None:
            signer.write(temporary)
    return Path(folder)


def planned_parts(
    columns: Sequence[str],
    table: pa.Table,
    sections: dict[str, Any],
    *,
    catalogue: Catalogue | None,
    signed: bool,
) -> tuple[str, ...]:
    """Return the names of files and folders of a release that is not made yet, in order.

    Of its value columns, their common cells and the manifest about these: see
    `hexveil.publishing.folder.list_files`.
    """
    dated = find_coverage(table, with_statements(sections, catalogue)).start is not None
    optional = {metadata_files.ITEM: dated, signing.NAME: signed}
    present = (name for name, is_present in optional.items() if is_present)
    return tuple(sorted((*FILES, *column_prefixes(columns).values(), *present)))


def _write_common(
    folder: Path, table: pa.Table, manifest: dict[str, Any], contents: Mapping[str, ReleaseFiles]
) -> None:
    """Write the files of the whole; the receipt last, since it has the checksums of all others."""
    csv_safety.write(round_to_intervals(table), folder / "cells.csv")
    write_manifest(folder, manifest)
    manifests = [files.manifest for files in contents.values()]
    (folder / "README.txt").write_text(render_columns_readme(table, manifest, manifests), "utf-8")
    statements = statements_of_whole(manifest, manifests)
    names = {path.name for path in folder.iterdir() if path.is_file()} | {PAGE}
    descriptions = render_whole_metadata(
        table, statements, frozenset(names), {name: file_names(folder / name) for name in contents}
    )
    for name, content in descriptions.items():
        (folder / name).write_bytes(content)
    leading = next(iter(contents.values()))
    page = render_columns_page(
        table,
        statements,
        {name: (files.table, files.manifest) for name, files in contents.items()},
        descriptions,
        (path.name for path in folder.iterdir() if path.is_file()),
        context=leading.context,
        geography=leading.geography,
    )
    (folder / PAGE).write_text(page, "utf-8")
    receipt.write(folder, manifest)


def render_columns_page(
    table: pa.Table,
    statements: dict[str, Any],
    columns: Mapping[str, tuple[pa.Table, dict[str, Any]]],
    descriptions: Mapping[str, bytes],
    names: Iterable[str],
    **drawn: Any,  # noqa: ANN401  context and geography, see `report.render`
) -> str:
    """Return the page of the whole; see `hexveil.publishing.folder.render_page`.

    Parameters
    ----------
    table : pyarrow.Table
        Of all columns.
    statements : dict
    columns : mapping of str to tuple
        Table and manifest of each column, by folder.
    descriptions, names, **drawn
        As `render_page` has them.
    """
    description = json.loads(descriptions[metadata_files.SCHEMA_ORG])
    files = sorted({*names} - {PAGE, receipt.NAME, signing.NAME})
    return report.render(
        table, statements, columns=columns, description=description, files=files, **drawn
    )


def file_names(folder: Path) -> frozenset[str]:
    """Return the names of the files in a folder."""
    return frozenset(path.name for path in folder.iterdir())
