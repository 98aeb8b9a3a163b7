"""The release folder: written under a temporary name, then renamed; never changed afterwards."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from hexveil import report
from hexveil.base import atomic_files, csv_safety
from hexveil.base.errors import InputError, StorageError
from hexveil.publishing import geometry, receipt, signing
from hexveil.publishing.readme import render_readme

if TYPE_CHECKING:
    from collections.abc import Iterator

GEOJSON_LIMIT = 50_000_000
"""Bytes; a larger map is left to cells.parquet."""


def check_writable(folder: str | Path) -> Path:
    """Return the folder's path if it can be made; to be called before anything is spent.

    Raises
    ------
    InputError
        If it exists, or the place where it would stand cannot be written. Nothing is made.
    """
    path = Path(folder)
    with _refused(path):
        if path.exists() or path.is_symlink():
            raise InputError(
                f"{path} exists, and a release is never changed; name a new folder (--out)."
            )
        place = next(p for p in path.absolute().parents if p.exists())
        atomic_files.check_writable(place / path.name)
    return path


def write(
    table: pa.Table,
    manifest: dict[str, Any],
    folder: str | Path,
    *,
    context: str | Path | None = None,
    sign: str | Path | None = None,
) -> Path:
    """Write all files of a release and return the folder.

    Until the last step they stand under a temporary name. If a step fails, they go, and with them
    the folders above that were made for them. `sign` names the private key that signs them.
    """
    # Key and context are read first: a mistake in either must not leave a folder behind.
    signer = None if sign is None else signing.read_signing_key(sign)
    lines = None if context is None else report.read_context(context)
    path = check_writable(folder)
    # Noted before the first is made, so that only our own empty folders are removed.
    missing = [above for above in path.absolute().parents if not above.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_files.folder(path) as temporary:
            _write_files(temporary, table, manifest, lines)
            if signer is not None:
                signer.write(temporary)
    except OSError as error:
        raise StorageError(
            f"the release could not be written to {path} ({atomic_files.reason(error)}); nothing "
            "was left there. Repeating the request costs nothing."
        ) from None
    finally:
        _remove_empty(missing)
    return path


def _write_files(
    folder: Path, table: pa.Table, manifest: dict[str, Any], context: dict[str, Any] | None
) -> None:
    pa.parquet.write_table(
        geometry.with_geometry(table), folder / "cells.parquet", compression="zstd"
    )
    csv_safety.write(table, folder / "cells.csv")
    features = geometry.geojson(table)
    mapped = features is not None and len(features) <= GEOJSON_LIMIT
    if features is not None and mapped:
        (folder / "cells.geojson").write_bytes(features)
    page = report.render(table, manifest, context=context)
    (folder / "report.html").write_text(page, "utf-8")
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "manifest.json").write_text(text + "\n", "utf-8")
    (folder / "README.txt").write_text(render_readme(table, manifest, mapped=mapped), "utf-8")
    # Last: it has the checksum of every other file.
    receipt.write(folder, manifest)


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, innermost first, up to the first one that holds something."""
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


@contextlib.contextmanager
def _refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"the folder {path} cannot be created ({atomic_files.reason(error)}); name one where "
            "you may write."
        ) from None
