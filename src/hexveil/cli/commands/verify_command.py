"""`hexveil verify`: check a release folder, for its recipients."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting
from hexveil.publishing.markup import clean
from hexveil.publishing.verification.verify import check_folder

if TYPE_CHECKING:
    from hexveil.publishing.verification.verify import FolderVerdict

Folder = Annotated[Path, typer.Argument(help="A release folder.", metavar="FOLDER")]
Public = Annotated[
    Path | None,
    typer.Option(
        "--key", help="The holder's public key: the folder must be signed with it.", metavar="FILE"
    ),
]

CHECKED = "manifest, checksums, columns, cells, bounds and grid; all files hold the same values."
HOLDER = "The holder can check the chain hash in receipt.json."


def verify(folder: Folder, *, key: Public = None, as_json: AsJson = False) -> int:
    """Check the files, tables, losses and signature of a release folder against each other.

    Exit 0 if the folder is unchanged, 2 if not. Needs no ledger and no records.
    """
    verdict = check_folder(folder, key=key)
    if as_json:
        typer.echo(json.dumps({"folder": str(folder)} | asdict(verdict), indent=2))
    else:
        typer.echo("\n".join(lines(folder, verdict)))
    # Bad input, not a failure of the machine.
    return 2 if verdict.problems else 0


def lines(folder: Path, verdict: FolderVerdict) -> list[str]:
    """Return lines about the verdict."""
    if verdict.problems:
        return [
            f"{folder} was changed or is damaged:",
            *(f"  {problem}" for problem in verdict.problems),
        ]
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    # The name is a stranger's: clean removes characters that could move the cursor.
    ledger, name = manifest["ledger"], clean(manifest["dataset"]["name"])
    ledger_place = "cost nothing" if ledger is None else f"entry {ledger['entry']} of its ledger"
    return [
        *formatting.wrapped("Checked", f"{folder}: {CHECKED}"),
        *formatting.wrapped("Release", f"{manifest['request'][:16]} of {name}, {ledger_place}."),
        *formatting.wrapped("Recomputed", f"{'; '.join(verdict.recomputed)}."),
        *formatting.wrapped("Signature", verdict.signature),
        *formatting.wrapped("Not checked", f"{'; '.join(verdict.unknown)}. {HOLDER}"),
    ]
