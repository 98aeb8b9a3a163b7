"""Folder of a roll-up or a comparison: tables, a page, a statement for programs, README.txt.

Written under a temporary name, then renamed. It is no release: it has no price and no receipt of
its own, and names those of the releases that it was made from.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet

from hexveil.base import atomic_files, csv_safety
from hexveil.base.errors import InputError, StorageError
from hexveil.base.work_share import WRITING, tell_share
from hexveil.publishing import geometry
from hexveil.publishing.carried_digits import round_to_intervals
from hexveil.publishing.markup import document
from hexveil.publishing.places import with_places
from hexveil.report import read_context
from hexveil.report.derived.derived_page import render_derived
from hexveil.report.derived.derived_text import template_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

STATEMENT_VERSION = 1


def check_writable(folder: str | Path) -> Path:
    """Return the folder's path if it can be made; InputError if not."""
    path = Path(folder)
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists, and is never written into; name a new folder (--out).")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it, or name another.")
    return path


def texts_of(table: pa.Table, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sentences about a roll-up or a comparison, as page and README.txt have them."""
    return template_values(table, statement)


def write(
    table: pa.Table,
    statement: Mapping[str, Any],
    folder: str | Path,
    *,
    context: str | Path | None = None,
) -> Path:
    """Write all files and return the folder.

    Raises
    ------
    InputError
        If the folder exists, or the context cannot be read.
    StorageError
        If writing fails midway; nothing half-written stays.
    """
    return _write(folder, context, {"": (table, statement)})


def write_parts(
    tables: Mapping[str, tuple[pa.Table, Mapping[str, Any]]],
    folder: str | Path,
    *,
    context: str | Path | None = None,
) -> Path:
    """Write a folder for each table and its statement inside a new folder, and return that.

    Raises
    ------
    InputError, StorageError
        See `write`.
    """
    return _write(folder, context, tables)


def _write(
    folder: str | Path,
    context: str | Path | None,
    tables: Mapping[str, tuple[pa.Table, Mapping[str, Any]]],
) -> Path:
    path = check_writable(folder)
    lines = None if context is None else read_context(context)
    try:
        with atomic_files.folder(path) as temporary:
            for name, (table, statement) in tables.items():
                place = temporary / name
                place.mkdir(exist_ok=True)
                _write_files(place, table, statement, lines)
                # Files at the top are made durable with their folder.
                for file in place.iterdir() if name else ():
                    atomic_files.fsync(file)
    except OSError as error:
        raise StorageError(
            f"nothing could be written to {path} ({atomic_files.reason(error)}); nothing was left "
            "there."
        ) from None
    return path


def _write_files(
    folder: Path,
    table: pa.Table,
    statement: Mapping[str, Any],
    context: dict[str, Any] | None,
) -> None:
    kind = statement["kind"]
    placed = with_places(table, statement)
    rounded = round_to_intervals(placed)
    csv_safety.write(rounded, folder / "cells.csv")
    tell_share(WRITING, 0.2)
    pyarrow.parquet.write_table(
        geometry.with_geometry(placed), folder / "cells.parquet", compression="zstd"
    )
    tell_share(WRITING, 0.4)
    features = geometry.geojson(rounded)
    if features is not None:
        (folder / "cells.geojson").write_bytes(features)
    versions = {
        "statement_version": STATEMENT_VERSION,
        "software": {"hexveil": importlib.metadata.version("hexveil")},
    }
    text = json.dumps(versions | dict(statement), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / f"{kind}.json").write_text(text + "\n", "utf-8")
    tell_share(WRITING, 0.6)
    files = sorted(file.name for file in folder.iterdir())
    page = render_derived(table, statement, context=context, files=files)
    (folder / f"{kind}.html").write_text(page, "utf-8")
    readme = document("derived.md", template_values(table, statement)).to_text()
    (folder / "README.txt").write_text(readme + "\n", "utf-8")
