"""`hexveil verify`: check a release folder, for its recipients."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.work_share import FOLDER_CHECK
from hexveil.cli.output import formatting
from hexveil.publishing.markup import clean
from hexveil.publishing.verification.archive_checks import check_archive, is_archive
from hexveil.publishing.verification.verify import check_folder
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.publishing.verification.archive_checks import ArchiveVerdict
    from hexveil.publishing.verification.verify import FolderVerdict


CHECKED = "manifest, checksums, columns, cells, bounds and grid; all files hold the same values."
HOLDER = "The holder can check the chain hash in receipt.json."


def verify(options: declarations.VerifyOptions) -> int:
    """Check the files, tables, losses and signature of a release folder against each other."""
    if is_archive(options.folder):
        return _verify_archive(options.folder, key=options.key, as_json=options.as_json)
    with show_progress(FOLDER_CHECK):
        verdict = check_folder(options.folder, key=options.key)
    if options.as_json:
        typer.echo(json.dumps({"folder": str(options.folder)} | asdict(verdict), indent=2))
    else:
        typer.echo("\n".join(lines(options.folder, verdict)))
    # Bad input, not a failure of the machine.
    return 2 if verdict.problems else 0


def _verify_archive(folder: Path, *, key: Path | None, as_json: bool) -> int:
    """Check an archive and print the verdict."""
    with show_progress(FOLDER_CHECK):
        verdict = check_archive(folder, key=key)
    if as_json:
        typer.echo(json.dumps({"folder": str(folder)} | asdict(verdict), indent=2))
    else:
        typer.echo("\n".join(archive_lines(folder, verdict)))
    return 2 if verdict.problems else 0


def archive_lines(folder: Path, verdict: ArchiveVerdict) -> list[str]:
    """Return lines about the verdict on an archive."""
    if verdict.problems:
        return _problem_lines(folder, verdict.problems)
    noun = "release" if verdict.releases == 1 else "releases"
    return formatting.wrapped(
        "Checked", f"{folder}: {verdict.releases:,} current {noun}, and the catalogue."
    )


def _problem_lines(folder: Path, problems: tuple[str, ...]) -> list[str]:
    return [
        f"{folder} was changed or is damaged:",
        *(f"  {clean(problem)}" for problem in problems),
    ]


def lines(folder: Path, verdict: FolderVerdict) -> list[str]:
    """Return lines about the verdict."""
    if verdict.problems:
        return _problem_lines(folder, verdict.problems)
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
