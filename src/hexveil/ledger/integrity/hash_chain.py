"""Hash chain over the ledger's events: each hash covers its event and the previous hash.

So a change, a removal or a new order of events is detected by whoever holds a later hash: the
ledger itself by recomputing, a recipient through the receipt in a release folder. A ledger that is
restored to an older state is still consistent; only a receipt of a later event proves the rollback.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

GENESIS_HASH = "0" * 64
"""The hash before the first event."""

HASHED_FIELDS = ("entry", "account", "dataset", "request", "kind", "at", "body")
"""Fields of an event that its hash covers as they are; `units` is covered by its digest."""


def canonical_json(body: Mapping[str, Any]) -> str:
    """Serialize to JSON with sorted keys: equal contents give equal text."""
    # In ASCII: neither the encoding nor the normal form of a text can change the hash.
    return json.dumps(dict(body), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def chain_hash(previous: str, event: Mapping[str, Any]) -> str:
    """Return the hash of an event, chained to the previous hash.

    Parameters
    ----------
    previous : str
        Hash of the previous event, or `GENESIS_HASH`.
    event : mapping
        The fields of `HASHED_FIELDS`, and `units` (bytes or None).
    """
    fields = {name: event[name] for name in HASHED_FIELDS}
    fields["units"] = _digest(event["units"])
    # Unambiguous: a hash has no line break, and JSON names each field.
    return hashlib.sha256(f"{previous}\n{canonical_json(fields)}".encode()).hexdigest()


def _digest(content: bytes | None) -> str | None:
    if content is None:
        return None
    # Not bytes(...), which takes a number for a size; a damaged column may hold one.
    return hashlib.sha256(memoryview(content)).hexdigest()
