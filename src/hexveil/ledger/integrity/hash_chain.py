"""The chain over the book's events: each hash covers its event and the hash before it.

So a change, a removal or a new order of events is noticed by whoever holds a later hash: the book
itself by recomputing, a recipient through the receipt in a release's folder. A book that is put
back to an older state still hangs together; only a receipt of a later event shows that it did.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

START = "0" * 64
"""Before the first event."""

COVERED = ("entry", "account", "dataset", "request", "kind", "at", "body")
"""Fields of an event that stand in its hash as they are; `units` as a digest."""


def canonical(body: Mapping[str, Any]) -> str:
    """Return JSON that is the same for the same contents."""
    return json.dumps(dict(body), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def link(before: str, event: Mapping[str, Any]) -> str:
    """Return the hash of an event that follows a hash.

    Parameters
    ----------
    before : str
        Hash of the event before, or `START`.
    event : mapping
        The fields of `COVERED`, and `units` (bytes or None).
    """
    parts = {name: event[name] for name in COVERED}
    parts["units"] = _digest(event["units"])
    return hashlib.sha256(f"{before}\n{canonical(parts)}".encode()).hexdigest()


def _digest(content: bytes | None) -> str | None:
    if content is None:
        return None
    # Not bytes(...), which takes a number for a size; a damaged column may hold one.
    return hashlib.sha256(memoryview(content)).hexdigest()
