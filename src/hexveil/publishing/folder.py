"""The release folder: written under a temporary name, then renamed; never changed afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from hexveil import report
from hexveil.errors import InputError, StorageError
from hexveil.publishing import geo
from hexveil.publishing.readme import readme

if TYPE_CHECKING:
    from collections.abc import Iterator

GEOJSON_LIMIT = 50_000_000
"""Bytes; a larger map is left to cells.parquet."""


def check_writable(folder: str | Path) -> Path:
    """Return the folder's path if it can be made; to be called before anything is spent.

    Raises
    ------
    InputError
        If it exists, or the place where it would stand cannot be written.
    """
    path = Path(folder)
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists; a release is never changed: name a new folder.")
    with _refused(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = _temporary(path)
        probe.mkdir()
        probe.rmdir()
    return path


def write(
    table: pa.Table,
    manifest: dict[str, Any],
    folder: str | Path,
    *,
    context: str | Path | None = None,
) -> Path:
    """Write all files of a release and return the folder."""
    lines = None if context is None else report.read_context(context)
    path = check_writable(folder)
    temporary = _temporary(path)
    try:
        temporary.mkdir()
        _write_files(temporary, table, manifest, lines)
        _settle(temporary)
        temporary.rename(path)
    except OSError as error:
        raise StorageError(
            f"the release could not be written to {path} ({error.strerror}); nothing was left "
            "there. The same request again costs nothing."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return path


def _write_files(
    folder: Path, table: pa.Table, manifest: dict[str, Any], context: dict[str, Any] | None
) -> None:
    pa.parquet.write_table(geo.with_geometry(table), folder / "cells.parquet", compression="zstd")
    pa.csv.write_csv(table, folder / "cells.csv")
    features = geo.geojson(table)
    mapped = features is not None and len(features) <= GEOJSON_LIMIT
    if features is not None and mapped:
        (folder / "cells.geojson").write_bytes(features)
    page = report.render(table, manifest, context=context)
    (folder / "report.html").write_text(page, "utf-8")
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", "utf-8")
    (folder / "README.txt").write_text(readme(table, manifest, mapped=mapped), "utf-8")


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")


@contextlib.contextmanager
def _refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"the folder {path} cannot be made ({error.strerror}); name one where you may write."
        ) from None


def _settle(folder: Path) -> None:
    """Make files and folder durable before the rename shows them."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
