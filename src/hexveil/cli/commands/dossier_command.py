"""`hexveil dossier`: the document for a privacy officer, from a release folder alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hexveil.base import atomic_files
from hexveil.base.errors import InputError, StorageError
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting
from hexveil.publishing.dossier import dossier as made_of

Folder = Annotated[Path, typer.Argument(help="A release folder.", metavar="FOLDER")]
Out = Annotated[
    Path | None,
    typer.Option(help="File for the text (.md). An existing file is replaced.", metavar="FILE"),
]


def dossier(folder: Folder, *, out: Out = None, as_json: AsJson = False) -> None:
    """Write the document that a privacy officer reads, completes and signs, as Markdown.

    It is derived from the manifest of a release folder: public metadata, and fields to complete.
    It draws no legal conclusion.
    """
    document = made_of(folder)
    text = document.to_markdown() + "\n"
    if out is not None:
        check_out(out, folder)
        write(out, text)
    if as_json:
        typer.echo(json.dumps(document.to_data(), indent=2))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo("\n".join(formatting.wrapped("Written", str(out))))


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
