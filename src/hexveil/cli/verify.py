"""`hexveil verify`: whether a release folder is as it was written; for those who receive one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hexveil.cli import words
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.publishing import checking
from hexveil.publishing.prose import clean

Folder = Annotated[Path, typer.Argument(help="A release folder.", metavar="FOLDER")]

CANNOT = (
    "what a folder cannot show: that noise was drawn as stated, and that the holder's ledger has "
    "this release. Its holder can tell by the chain hash in receipt.json."
)


def verify(folder: Folder, *, as_json: AsJson = False) -> int:
    """Check a release folder's files, tables and statement against each other.

    Exit 0 if all is as it was written, 2 if something is not. Needs no ledger and no records.
    """
    problems = checking.problems(folder)
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "problems": list(problems)}, indent=2))
    else:
        typer.echo("\n".join(lines(folder, problems)))
    return 2 if problems else 0


def lines(folder: Path, problems: tuple[str, ...]) -> list[str]:
    """Return what was found."""
    if problems:
        return [f"{folder} is not as it was written:", *(f"  {one}" for one in problems)]
    said: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    ledger, name = said["ledger"], clean(said["dataset"]["name"])
    where = "cost nothing" if ledger is None else f"entry {ledger['entry']} of its ledger"
    return [
        *words.wrapped(
            "Checked", f"{folder}: manifest, checksums, columns, cells, bounds and grid."
        ),
        *words.wrapped("Release", f"{said['request'][:16]} of {name}, {where}."),
        *words.wrapped("Not checked", CANNOT),
    ]
