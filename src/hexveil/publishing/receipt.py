"""Receipt of a release: checksums of its files, and its position in the ledger.

With the folder alone anybody can verify that its files are unchanged. With the ledger's hash the
holder can later verify that the release is still in the ledger, in its place.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

NAME = "receipt.json"
VERSION = 1


def write(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the receipt of all files in a folder."""
    content = {
        "receipt_version": VERSION,
        "dataset": manifest["dataset"]["name"],
        "request": manifest["request"],
        "ledger": manifest["ledger"],
        "files": list_digests(folder),
    }
    (folder / NAME).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def list_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder."""
    return {path.name: file_digest(path) for path in sorted(folder.iterdir())}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return stream_digest(file)


def stream_digest(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file's content."""
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def parse_checksums(content: bytes | None) -> dict[str, str] | None:
    """Return the checksums in a receipt; None if the content is no receipt."""
    try:
        parsed = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or find_problem(parsed):
        return None
    # A path in a stranger's receipt must not lead out of the folder.
    names = (name.removesuffix(f"/{NAME}") for name in parsed["files"])
    return dict(parsed["files"]) if all(map(_is_file_name, names)) else None


def _is_file_name(name: str) -> bool:
    """Return whether a name is that of a file in the folder itself."""
    return bool(name) and name not in {".", ".."} and not set(name) & set("/\\\0")


def find_problem(content: Mapping[str, Any]) -> str:
    """Return the reason why content is not a readable receipt; empty if it is one."""
    version = content.get("receipt_version")
    if not isinstance(version, int) or isinstance(version, bool) or version != VERSION:
        return (
            f"{NAME} has a version that this program does not know (it reads {VERSION}); use a "
            "newer hexveil."
        )
    missing = sorted({"dataset", "request", "ledger", "files"} - content.keys())
    if missing:
        return f"{NAME} lacks its {missing[0]}."
    files = content["files"]
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        return f"{NAME} lists no files."
    return ""
