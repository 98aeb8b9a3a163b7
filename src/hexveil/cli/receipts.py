"""Receipts of releases against the ledger: what shows that a ledger was put back or exchanged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hexveil.errors import InputError
from hexveil.ledger import reading
from hexveil.publishing import receipt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def problems(engine: reading.Engine, folders: Sequence[Path]) -> list[str]:
    """Return a sentence for each release folder that the ledger does not have as it says."""
    found: list[str] = []
    for folder in folders:
        place = place_of(folder)
        if place is None:  # it cost nothing
            continue
        entry, chain = place
        stands = reading.hash_at(engine, entry)
        if stands is None:
            found.append(
                f"{folder} was entry {entry:,}, which the ledger does not have: it is an older "
                "copy, or another ledger."
            )
        elif stands != chain:
            found.append(
                f"{folder} was entry {entry:,} with another hash: the ledger was changed, went on "
                "from an older copy, or is another."
            )
    return found


def place_of(folder: Path) -> tuple[int, str] | None:
    """Return number and hash of a release's entry; None where it cost nothing."""
    try:
        place = json.loads((folder / receipt.NAME).read_text("utf-8"))["ledger"]
        return None if place is None else (int(place["entry"]), str(place["chain"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{folder} has no {receipt.NAME} that can be read; name the folder of a release."
        ) from None
