"""A release folder that is verified before its dossier is written, and the kind that it states.

A privacy officer signs what a recipient can check, so the whole folder is verified, not the
manifest alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.publishing.markup import clean_texts
from hexveil.publishing.verification.verify import read_release

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

NAME = "manifest.json"


@dataclass(frozen=True, eq=False)
class VerifiedRelease:
    """A booked release with an unchanged folder.

    Attributes
    ----------
    manifest : dict
        With texts that show as they are.
    table : pyarrow.Table
    checksum : str
        SHA-256 of the manifest's file.
    """

    manifest: dict[str, Any]
    table: pa.Table
    checksum: str

    @classmethod
    def read(cls, folder: Path) -> VerifiedRelease:
        """Return the release of a folder.

        Raises
        ------
        InputError
            If the folder is not as it was written, or nothing was booked.
        """
        manifest, table = read_release(folder)
        if manifest["ledger"] is None:
            raise InputError(f"{folder / NAME} names no entry of a ledger, so nothing was booked.")
        checksum = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
        return cls(clean_texts(manifest), table, checksum)


def has_field(folder: Path, name: str, value: str) -> bool:
    """Return whether a manifest states this value of a field; other checks come afterwards."""
    try:
        manifest = json.loads((folder / NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get(name) == value
