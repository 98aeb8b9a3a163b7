"""The receipt of a release: checksums of its files, and where it stands in the ledger.

Whoever has the folder can tell that its files are as they were written together. With the ledger's
hash a later look at the ledger shows whether the release is still in it, in its place.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

NAME = "receipt.json"
VERSION = 1


def write(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the receipt over all files that stand in a folder."""
    said = {
        "receipt_version": VERSION,
        "dataset": manifest["dataset"]["name"],
        "request": manifest["request"],
        "ledger": manifest["ledger"],
        "files": {path.name: digest(path) for path in sorted(folder.iterdir())},
    }
    (folder / NAME).write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", "utf-8")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
