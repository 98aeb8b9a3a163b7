"""`hexveil verify` and `hexveil dossier`: a release folder, checked and described."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK
from hexveil.cli import formatting
from hexveil.publishing.dossier import dossier as made_of
from hexveil.publishing.markup import clean
from hexveil.publishing.verification.archive_checks import ArchiveVerdict, check_archive, is_archive
from hexveil.publishing.verification.verify import FolderVerdict, check_folder
from hexveil.records.progress import show_progress

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.cli.formatting import Row


CHECKED = "manifest, checksums, columns, cells, bounds and grid; all files hold the same values."
HOLDER = "The holder can check the chain hash in receipt.json."


def verify(options: declarations.VerifyOptions) -> int:
    """Check the files, tables, losses and signature of a release folder against each other."""
    check = check_archive if is_archive(options.folder) else check_folder
    with show_progress(FOLDER_CHECK):
        verdict: Any = check(options.folder, key=options.key)
    formatting.show(
        lambda: rows(options.folder, verdict),
        lambda: {"folder": str(options.folder)} | asdict(verdict),
        as_json=options.as_json,
    )
    # Bad input, not a failure of the machine.
    return 2 if verdict.problems else 0


def rows(folder: Path, verdict: FolderVerdict | ArchiveVerdict) -> list[Row]:
    """Return rows about the verdict on a folder, or on an archive of them."""
    if verdict.problems:
        changed = f"{folder} was changed or is damaged:"
        return [changed, *(f"  {clean(problem)}" for problem in verdict.problems)]
    if isinstance(verdict, ArchiveVerdict):
        noun = "release" if verdict.releases == 1 else "releases"
        checked = f"{folder}: {verdict.releases:,} current {noun}, and the catalogue."
        return [("Checked", checked)]
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    # The name is a stranger's: clean removes characters that could move the cursor.
    ledger, name = manifest["ledger"], clean(manifest["dataset"]["name"])
    ledger_place = "cost nothing" if ledger is None else f"entry {ledger['entry']} of its ledger"
    return [
        ("Checked", f"{folder}: {CHECKED}"),
        ("Release", f"{manifest['request'][:16]} of {name}, {ledger_place}."),
        ("Recomputed", f"{'; '.join(verdict.recomputed)}."),
        ("Signature", verdict.signature),
        ("Not checked", f"{'; '.join(verdict.unknown)}. {HOLDER}"),
    ]


def dossier(options: declarations.DossierOptions) -> None:
    """Write the document that a privacy officer reads, completes and signs, as Markdown."""
    document = made_of(options.folder)
    text = document.to_markdown() + "\n"
    if options.out is not None:
        check_out(options.out, options.folder)
        atomic_files.write_named(options.out, text.encode())
    if options.as_json:
        typer.echo(json.dumps(document.to_data(), indent=2))
    elif options.out is None:
        typer.echo(text, nl=False)
    else:
        formatting.print_rows([("Written", str(options.out))])


def check_out(out: Path, folder: Path) -> None:
    """Raise InputError for a file that is not Markdown, has no folder, or is in the release."""
    if out.suffix != ".md":
        raise InputError(f"--out must name a file that ends in .md, got {out}.")
    if not out.parent.is_dir():
        raise InputError(f"--out: there is no folder {out.parent}; create it, or name another.")
    if out.is_dir():
        raise InputError(f"--out: {out} is a folder; name a file.")
    # Resolved, because a link could lead into the folder, whose receipt would no longer fit.
    if out.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"--out: {out} is in the release folder, which must not change; name a file elsewhere."
        )
