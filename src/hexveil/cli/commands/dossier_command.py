"""`hexveil dossier`: the document for a privacy officer, from a release folder alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.cli.output import formatting
from hexveil.publishing.dossier import dossier as made_of

if TYPE_CHECKING:
    from pathlib import Path

    from hexveil.cli import declarations


def dossier(options: declarations.DossierOptions) -> None:
    """Write the document that a privacy officer reads, completes and signs, as Markdown."""
    document = made_of(options.folder)
    text = document.to_markdown() + "\n"
    if options.out is not None:
        check_out(options.out, options.folder)
        write(options.out, text)
    if options.as_json:
        typer.echo(json.dumps(document.to_data(), indent=2))
    elif options.out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo("\n".join(formatting.wrapped("Written", str(options.out))))


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


def write(out: Path, text: str) -> None:
    """Write the file atomically."""
    try:
        atomic_files.write(out, text.encode())
    except OSError as error:
        raise StorageError(
            f"{out} cannot be written ({atomic_files.reason(error)}); name another file."
        ) from None
