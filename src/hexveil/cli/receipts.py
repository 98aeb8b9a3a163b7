"""Comparison of release receipts with the ledger, to detect an older or replaced ledger."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError, StorageError
from hexveil.ledger import inspection
from hexveil.ledger.databases import Engine, connect_existing
from hexveil.publishing import receipt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hexveil.ledger import Spend
    from hexveil.publishing.archive.archive import Archive
    from hexveil.publishing.archive.archive_listing import CurrentRelease

_REMEDY = (
    "Restore the newest copy of the ledger; if there is none, count its whole budget as spent, "
    "create a new ledger, and publish to another folder."
)


def find_problems(engine: Engine, folders: Sequence[Path]) -> list[str]:
    """Return a message for each release folder that disagrees with the ledger."""
    places = {str(folder): ledger_entry(folder) for folder in folders}
    # A release without a place cost nothing.
    problems = (describe_problem(engine, name, *at) for name, at in places.items() if at)
    return [problem for problem in problems if problem is not None]


def describe_problem(engine: Engine, name: str, entry: int, chain: str) -> str | None:
    """Return a message if the ledger lacks the entry of a release, else None."""
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


def check_behind(url: str, place: Archive, *releases: CurrentRelease | None) -> None:
    """Refuse a ledger without the entries of earlier releases in a place.

    Raises
    ------
    StorageError
        If it is missing, an older copy or a different one. The spending since then is unknown, so
        nothing may be booked.
    """
    stands = place.ledger_positions(*releases)
    # The first release in a place has nothing to be compared with.
    if not stands:
        return
    try:
        # Never created here: a new, empty ledger would hide that the old one is gone.
        engine = connect_existing(url)
    except InputError:
        raise StorageError(
            f"{place.address} holds releases that a ledger booked, but the ledger of this run is "
            f"missing or invalid; nothing was booked. {_REMEDY}"
        ) from None
    for name, stand in stands.items():
        sentence = describe_problem(engine, name, stand.entry, stand.chain)
        if sentence is not None:
            raise StorageError(f"{sentence} Nothing was booked. {_REMEDY}")


def ledger_entry(folder: Path) -> tuple[int, str] | None:
    """Return number and hash of a release's entry; None if it cost nothing."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it holds the text
        place = json.loads((folder / receipt.NAME).read_text("utf-8"))["ledger"]
        return None if place is None else (int(place["entry"]), str(place["chain"]))
    raise InputError(f"{folder} has no readable {receipt.NAME}; name the folder of a release.")


def known_spend(account: dict[str, Any]) -> Spend | None:
    """Return the spending of a data set in an existing ledger; a dry run creates none."""
    try:
        engine = connect_existing(account["url"])
        (summary,) = inspection.overview(engine, account["dataset"]).accounts
    except InputError:
        return None
    return summary.spend
