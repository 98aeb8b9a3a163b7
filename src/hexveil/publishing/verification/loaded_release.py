"""Release folders read back into memory, by the checks of `verify`."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from hexveil.publishing.columns.column_release import ColumnReleases
from hexveil.publishing.columns.column_table import join_columns
from hexveil.publishing.presence.presence_manifest import MODEL
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.verification.files.file_comparison import as_released
from hexveil.publishing.verification.verify import FolderCheck, read_folder


def load(folder: str | Path, *, key: str | Path | None = None) -> Release:
    """Return the release in a folder, if the folder is as it was written.

    No ledger and no records are needed, and nothing is spent. The folder may come from anybody:
    it is checked as by `hv.verify`, and its table is the one that was checked. Without `key` it
    does not show who made it.

    Parameters
    ----------
    folder : str or Path
        As `Release.write` or `hexveil release` wrote it.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    Release
        With `replayed` true: its numbers are those of an earlier release. `ColumnReleases` of
        several value columns.

    Raises
    ------
    InputError
        If there is no release in the folder, or if a file, a number, a statement or the signature
        is not as it was written; the message names each. Also if the key cannot be read.
    """
    check = read_folder(Path(folder), key=key)
    if not check.columns:
        return _as_release(check)
    releases = {column: _as_release(column_check) for column, column_check in check.columns.items()}
    table = join_columns({column: release.table for column, release in releases.items()})
    spent = _spent(check.manifest)
    return ColumnReleases(table, check.manifest, spent, replayed=True, releases=releases)


def _as_release(check: FolderCheck) -> Release:
    """Return the release of a folder that was checked."""
    manifest = check.manifest
    return Release(as_released(check.table), manifest, _spent(manifest), replayed=True)


def _spent(manifest: dict[str, Any]) -> Fraction:
    """Return the loss of the most exposed unit, or of any unit under private presence."""
    if manifest.get("model") == MODEL:
        return Fraction(manifest["guarantee"]["epsilon_spent"])
    # Verification compares the stated losses with the noise scales of the table.
    return Fraction(float(manifest["losses"]["max"]))
