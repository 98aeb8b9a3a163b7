"""A folder as the studio shows it: files of records, free names, the account of a data set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.cli import formatting
from hexveil.cli.commands import ledger_command
from hexveil.ledger import inspection
from hexveil.ledger.databases import connect_existing
from hexveil.ledger.promises import booked_epsilon
from hexveil.records.sources.source_files import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.cli.formatting import Row
    from hexveil.config import Run

DEPTH, MOST = 3, 500
"""Folders below the chosen one that are looked into; files that are listed."""


def record_files(folder: Path) -> Iterator[str]:
    """Yield the files of records in a folder and below it, by name; links that leave it are not.

    Folders of releases are left out.
    """
    for place, inner, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        inner[:] = sorted(
            name
            for name in inner
            if len(inside.parts) < DEPTH
            and not name.startswith(".")
            and not Path(place, name, "manifest.json").exists()
        )
        for name in sorted(names):
            path = Path(place, name)
            is_record = kind_of(path) is not None and not name.lower().endswith(".txt")
            is_inside = path.is_file() and path.resolve().is_relative_to(folder)
            if is_record and is_inside and not name.startswith("."):
                yield str(inside / name)


def free_stem(stem: str) -> str:
    """Return a stem of which neither a run file nor a map exists."""
    number, name = 1, stem
    while Path(f"{name}.toml").exists() or Path(f"{name}-map").exists():
        number += 1
        name = f"{stem}-{number}"
    return name


def statement(run: Run) -> dict[str, Any] | None:
    """Return the account of the data set as a statement; None while there is no ledger."""
    ledger = run.ledger
    try:
        engine = connect_existing(ledger.url)
        (status,) = inspection.overview(engine, ledger.dataset).accounts
    except InputError:
        return None
    events = inspection.history(engine, ledger.dataset)
    lines = [
        (event.at, event.dataset, formatting.price(float(booked_epsilon(event.body))))
        for event in events
        if event.kind == "reserved"
    ]
    spent, budget = float(status.spend.window), float(status.account.budget)
    rows = texts_of(ledger_command.account_rows(status))
    return {"rows": rows, "lines": lines, "spent": spent, "budget": budget}


def texts_of(rows: list[Row]) -> list[tuple[str, str]]:
    """Return rows with a text, as pairs of label and text."""
    pairs = [("", row) if isinstance(row, str) else row for row in rows]
    return [(label, text) for label, text in pairs if text]
