"""Private files that are believed only if they are whole, by their digests.

Read as they were opened: between a look at a path and its opening it could be replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hexveil.base.scratch import is_private

_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def hash_terms(terms: Sequence[object]) -> str:
    """Return the SHA-256 of JSON data."""
    return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()


def seal(fields: object) -> bytes:
    """Return JSON data with its digest."""
    content = json.loads(json.dumps(fields))
    return json.dumps({"head": content, "digest_of_head": hash_terms([content])}).encode()


def read_sealed(path: Path) -> Any:  # noqa: ANN401  JSON data
    """Return the JSON data of a sealed file.

    Raises
    ------
    OSError, ValueError, TypeError, AttributeError, RecursionError
        If it cannot be read, others may read it, or it is not what its digest says.
    """
    handle = os.open(path, _OPEN)
    with os.fdopen(handle, "rb") as file:
        content = file.read() if _is_safe(os.fstat(handle)) else b""
    sealed = json.loads(content)
    # Counts of a damaged head would be published, with nothing to show that they are wrong.
    if sealed.get("digest_of_head") != hash_terms([sealed.get("head")]):
        raise ValueError("damaged")
    return sealed["head"]


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it is missing, or another user owns or may read it."""
    try:
        handle = os.open(path, _OPEN)
        with os.fdopen(handle, "rb") as file:
            is_safe = _is_safe(os.fstat(handle))
            return hashlib.file_digest(file, "sha256").hexdigest() if is_safe else None
    except OSError:
        return None


def _is_safe(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and is_private(status)
