"""The receipt of a release: checksums of its files, and where it stands in the ledger.

Whoever has the folder can tell that its files are as they were written together. With the ledger's
hash a later look at the ledger shows whether the release is still in it, in its place.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping
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
        return digest_of(file)


def digest_of(file: BinaryIO) -> str:
    """Return the SHA-256 of what an open file holds."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def listed(content: bytes | None) -> dict[str, str] | None:
    """Return the checksums that the content of a receipt lists; None if it is none."""
    try:
        said = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or wrong(said) or not all(map(_is_name, said["files"])):
        return None
    return dict(said["files"])


def _is_name(name: str) -> bool:
    """Return whether a name is that of a file in the folder itself."""
    return bool(name) and name not in {".", ".."} and not set(name) & set("/\\\0")


def wrong(said: Mapping[str, Any]) -> str:
    """Return why what a file says is no receipt that this program reads; nothing if it is one."""
    version = said.get("receipt_version")
    if not isinstance(version, int) or isinstance(version, bool) or version != VERSION:
        return (
            f"{NAME} is of a version that this program does not know; it reads {VERSION}, use a "
            "newer one."
        )
    missing = sorted({"dataset", "request", "ledger", "files"} - said.keys())
    if missing:
        return f"{NAME} does not say its {missing[0]}."
    files = said["files"]
    if not isinstance(files, dict) or not all(isinstance(one, str) for one in files.values()):
        return f"{NAME} names no files."
    return ""
