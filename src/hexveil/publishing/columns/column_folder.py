"""The folder of several value columns: a release of each, and their joint statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base import atomic_files, csv_safety
from hexveil.publishing import receipt, signing
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.publishing.columns.column_texts import render_columns_page, render_columns_readme
from hexveil.publishing.folder import PAGE, PageOptions, ReleaseFiles, new_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from hexveil.publishing.catalogue.holder_statements import Catalogue
    from hexveil.publishing.published_numbers import Release

FILES = ("README.txt", "cells.csv", "manifest.json", receipt.NAME, PAGE)
"""Files beside the folders of the value columns, and perhaps a signature."""


def planned_names(columns: Sequence[str], *, signed: bool) -> tuple[str, ...]:
    """Return the names of files and folders of a release of value columns, in order."""
    own = column_prefixes(columns).values()
    return tuple(sorted((*FILES, *own, *((signing.NAME,) if signed else ()))))


def write_columns(  # noqa: PLR0913  keyword-only, as Release.write
    table: pa.Table,
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
    table : pyarrow.Table
        Of all value columns.
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
    manifest = manifest | stated.stated()
    prefixes = column_prefixes([*releases])
    contents = {}
    for column, release in releases.items():
        # A title names the whole, so that each column's says which one it is.
        own_title = f"{title}: {column}" if title else ""
        contents[prefixes[column]] = ReleaseFiles.of(
            release.table,
            release.manifest,
            context=context,
            catalogue=catalogue,
            tiles=tiles,
            page=PageOptions(own_title, stated.subtitle, stated.geography),
        )
    with new_folder(folder) as temporary:
        for name, files in contents.items():
            own = temporary / name
            own.mkdir()
            files.write(own, signer)
            for file in own.iterdir():
                atomic_files.fsync(file)
        _write_common(temporary, table, manifest, releases)
        if signer is not None:
            signer.write(temporary)
    return Path(folder)


def _write_common(
    folder: Path, table: pa.Table, manifest: dict[str, Any], releases: Mapping[str, Release]
) -> None:
    """Write the files of the whole; the receipt last, since it has the checksums of all others."""
    csv_safety.write(table, folder / "cells.csv")
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "manifest.json").write_text(text + "\n", "utf-8")
    manifests = [release.manifest for release in releases.values()]
    (folder / "README.txt").write_text(render_columns_readme(manifest, manifests), "utf-8")
    (folder / PAGE).write_text(render_columns_page(manifest, manifests), "utf-8")
    receipt.write(folder, manifest)
