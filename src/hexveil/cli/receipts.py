"""Receipts of releases against the ledger: what shows that a ledger was put back or exchanged."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError, StorageError
from hexveil.ledger import inspection
from hexveil.publishing import receipt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hexveil.publishing.archive.archive import Archive
    from hexveil.publishing.archive.current_release import Pointer

_REMEDY = (
    "Restore the newest copy of the ledger; if there is none, count its whole budget as spent, "
    "create a new ledger, and publish to another folder."
)


def problems(engine: inspection.Engine, folders: Sequence[Path]) -> list[str]:
    """Return a sentence for each release folder that the ledger does not have as it says."""
    found: list[str] = []
    for folder in folders:
        place = place_of(folder)
        if place is None:  # it cost nothing
            continue
        said = problem(engine, str(folder), *place)
        if said is not None:
            found.append(said)
    return found


def problem(engine: inspection.Engine, name: str, entry: int, chain: str) -> str | None:
    """Return a sentence if the ledger does not have what a release rests on; None if it does."""
    stands = inspection.hash_at(engine, entry)
    if stands == chain:
        return None
    if stands is None:
        return (
            f"{name} is entry {entry:,}, which the ledger does not have: it is an older copy, or "
            "a different ledger."
        )
    return (
        f"{name} is entry {entry:,} with another hash: the ledger was changed, continued from an "
        "older copy, or is a different one."
    )


def check_behind(url: str, place: Archive, *releases: Pointer | None) -> None:
    """Refuse a ledger that does not have what was published in a place before.

    Raises
    ------
    StorageError
        If it was put back to an older copy, is another, or is not there. What was spent since is
        not known then, so nothing may be booked.
    """
    stands = place.stands(*releases)
    if not stands:
        return
    try:
        engine = inspection.existing(url)
    except InputError:
        raise StorageError(
            f"{place.where} holds releases that a ledger booked, but the ledger of this run is "
            f"missing or invalid; nothing was booked. {_REMEDY}"
        ) from None
    for name, stand in stands.items():
        said = problem(engine, name, stand.entry, stand.chain)
        if said is not None:
            raise StorageError(f"{said} Nothing was booked. {_REMEDY}")


def place_of(folder: Path) -> tuple[int, str] | None:
    """Return number and hash of a release's entry; None where it cost nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it holds the text
        place = json.loads((folder / receipt.NAME).read_text("utf-8"))["ledger"]
        return None if place is None else (int(place["entry"]), str(place["chain"]))
    raise InputError(f"{folder} has no readable {receipt.NAME}; name the folder of a release.")
