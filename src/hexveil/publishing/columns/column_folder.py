"""The folder of several value columns: a release of each, and their joint statements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files, csv_safety
from hexveil.publishing import receipt, signing
from hexveil.publishing.catalogue import metadata_files
from hexveil.publishing.catalogue.release_description import find_coverage
from hexveil.publishing.columns.column_table import (
    column_prefixes,
    join_columns,
    render_whole_metadata,
    statements_of_whole,
)
from hexveil.publishing.folder import (
    PAGE,
    DerivedTexts,
    FolderOptions,
    ReleaseFiles,
    new_folder,
    page_of,
    round_to_intervals,
    with_statements,
    write_manifest,
)
from hexveil.publishing.readme import render_columns_readme

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from hexveil.publishing.catalogue.holder_statements import Catalogue
    from hexveil.publishing.published_numbers import Release

FILES = ("README.txt", "cells.csv", "manifest.json", *metadata_files.ALWAYS, receipt.NAME, PAGE)
"""Files beside the folders of the value columns; with dates an Item, perhaps a signature."""


def write_columns(
    manifest: dict[str, Any],
    releases: Mapping[str, Release],
    folder: str | Path,
    options: FolderOptions,
) -> Path:
    """Write all files of a release of several value columns and return the folder.

    Raises
    ------
    InputError, StorageError
        As `Release.write`.
    """
    signer, prefixes = options.signer, column_prefixes([*releases])
    manifest = with_statements(manifest, options.catalogue, options.stated())
    contents = {
        prefix: ReleaseFiles.of(
            releases[column].table,
            releases[column].manifest,
            options.of_column(column, prefix),
        )
        for column, prefix in prefixes.items()
    }
    with new_folder(folder) as temporary:
        for name, files in contents.items():
            column_folder = temporary / name
            column_folder.mkdir()
            files.write(column_folder, signer)
            for file in column_folder.iterdir():
                atomic_files.fsync(file)
        _write_common(temporary, manifest, contents, [*releases])
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
    folder: Path,
    manifest: dict[str, Any],
    contents: Mapping[str, ReleaseFiles],
    columns: Sequence[str],
) -> None:
    """Write the files of the whole; the receipt last, since it has the checksums of all others."""
    own = {name: (files.table, files.manifest) for name, files in contents.items()}
    table = join_columns(dict(zip(columns, (of for of, _ in own.values()), strict=True)))
    csv_safety.write(round_to_intervals(table), folder / "cells.csv")
    write_manifest(folder, manifest)
    names = frozenset(path.name for path in folder.iterdir() if path.is_file())
    texts = derive_whole(folder, table, manifest, own, names | {"README.txt", PAGE})
    leading = next(iter(contents.values()))
    texts.write(folder, context=leading.context, geography=leading.geography)
    receipt.write(folder, manifest)


def derive_whole(
    folder: Path,
    table: pa.Table,
    manifest: dict[str, Any],
    columns: Mapping[str, tuple[pa.Table, dict[str, Any]]],
    names: frozenset[str],
) -> DerivedTexts:
    """Return the texts of the whole; see `hexveil.publishing.folder.derive_texts`.

    Parameters
    ----------
    folder : Path
        With a folder of each value column.
    table : pyarrow.Table
        Of all columns.
    manifest : dict
        Of the whole.
    columns : mapping of str to tuple
        Table and manifest of each column, by folder.
    names : frozenset of str
        Of the files beside their folders.
    """
    manifests = [own for _, own in columns.values()]
    statements = statements_of_whole(manifest, manifests)
    files = {name: frozenset(path.name for path in (folder / name).iterdir()) for name in columns}
    descriptions = render_whole_metadata(table, statements, names, files)
    return DerivedTexts(
        render_columns_readme(table, manifest, manifests),
        descriptions,
        page_of(table, statements, descriptions, names, columns=columns),
    )
