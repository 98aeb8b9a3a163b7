"""Notebooks as pages: run from top to bottom, then written as Markdown."""

from __future__ import annotations

import base64
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat

SECONDS = 600
FIGURES = ["--InlineBackend.figure_formats=svg"]
PICTURES = {"image/svg+xml": "svg", "image/png": "png"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class NotebookError(Exception):
    """A notebook that does not run."""


def pages(path: Path, folder: Path | None = None) -> dict[str, str | bytes]:
    """Return a notebook's page and its pictures, by name, as it runs in a folder or as stored."""
    book = nbformat.read(path, as_version=4)
    if folder is not None:
        execute(book, folder)
    made: dict[str, str | bytes] = {}
    parts = [f'<a class="notebook" href="{path.name}" download>Download this notebook</a>']
    for number, cell in enumerate(book.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code" and cell.source.strip():
            parts.append(fenced("python", cell.source))
            for place, output in enumerate(cell.outputs):
                parts.append(shown(output, f"{path.stem}-{number}-{place}", made))
    # The title stays first: the page takes its name from it.
    title = next(i for i, part in enumerate(parts) if part.startswith("# "))
    head, _, rest = parts.pop(title).partition("\n")
    return {
        f"{path.stem}.md": "\n\n".join([head, parts[0], rest.strip(), *parts[1:]]) + "\n"
    } | made


def execute(book: Any, folder: Path) -> None:  # noqa: ANN401  nbformat is not typed
    """Run all cells in a folder; outputs are put in their place."""
    from jupyter_client.manager import AsyncKernelManager  # noqa: PLC0415  stored notebooks need no kernel
    from nbclient import NotebookClient  # noqa: PLC0415  stored notebooks need no kernel
    from nbclient.exceptions import CellExecutionError  # noqa: PLC0415  the same

    with tempfile.TemporaryDirectory() as sockets:
        there = {"metadata": {"path": str(folder)}}
        # Through files that no other user of the machine can open, in place of ports.
        kernel = AsyncKernelManager(
            kernel_name="python3", transport="ipc", ip=str(Path(sockets, "kernel"))
        )
        try:
            NotebookClient(
                book, km=kernel, timeout=SECONDS, resources=there, extra_arguments=FIGURES
            ).execute(cleanup_kc=True)
        except CellExecutionError as error:
            raise NotebookError(COLOURS.sub("", str(error))) from None


def shown(output: Any, name: str, made: dict[str, str | bytes]) -> str:  # noqa: ANN401  the same
    """Return one output as Markdown; a picture is added to those made."""
    if output.output_type == "error":
        raise NotebookError(f"{output.ename} stands among its outputs")
    if output.output_type == "stream":
        return fenced("text", COLOURS.sub("", output.text))
    for kind, ending in PICTURES.items():
        if kind in output.data:
            content = output.data[kind]
            made[f"{name}.{ending}"] = base64.b64decode(content) if ending == "png" else content
            return f"![{output.data.get('text/plain', 'Output')}]({name}.{ending})"
    if "text/markdown" in output.data:
        return str(output.data["text/markdown"])
    if "text/html" in output.data:
        inner = re.sub(r"\n\s*\n", "\n", output.data["text/html"])
        return f'<div class="output">\n{inner}\n</div>'
    return fenced("text", output.data.get("text/plain", ""))


def fenced(language: str, text: str) -> str:
    """Return a block of code."""
    return f"````{language}\n{text.rstrip()}\n````"
