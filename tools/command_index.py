"""Make the files of help and completion that need no library: ``python tools/command_index.py``.

To be run after any change of a command, an option or its help; ``--check`` compares instead, and
exits with 1 if a file is not what the commands say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import rich.text
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

import hexveil.cli
from hexveil.cli.app import app
from hexveil.cli.instant_answers import HELP_WIDTH

FOLDER = Path(hexveil.cli.__file__).parent


def described(
    command: TyperCommand | TyperGroup, context: typer.Context | None = None
) -> dict[str, Any]:
    """Return what completion needs of a command."""
    context = typer.Context(command, info_name=command.name, parent=context)
    options = [p for p in command.get_params(context) if isinstance(p, TyperOption)]
    index: dict[str, Any] = {
        "purpose": command.get_short_help_str(),
        "options": [
            {
                "names": [*option.opts, *option.secondary_opts],
                "help": rich.text.Text.from_markup(option.help or "").plain,
                "has_value": not (option.is_flag or option.count),
                "has_choices": bool(option.type_descriptor.is_choice)
                or bool(option.type_descriptor.is_file),
                "is_multiple": option.multiple,
            }
            for option in options
            if not option.hidden
        ],
    }
    if isinstance(command, TyperGroup):
        index["commands"] = {
            name: described(inner, context) for name, inner in command.commands.items()
        }
    return index


def paths(index: dict[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the words of every command of an index, groups before their commands."""
    found = [before]
    for name, inner in index.get("commands", {}).items():
        found += paths(inner, (*before, name))
    return found


def help_pages(commands: list[tuple[str, ...]], *, coloured: bool) -> list[str]:
    """Return the help page of each command as the parser lays it out."""
    # In one process: loading the commands takes longest.
    code = (
        "import contextlib, io, json\n"
        "from hexveil.cli.app import run\n"
        "pages = []\n"
        f"for words in {commands!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as page:\n"
        "        run([*words, '--help'])\n"
        "    pages.append(page.getvalue())\n"
        "print(json.dumps(pages))\n"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"COLUMNS": str(HELP_WIDTH), "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    env |= {"FORCE_COLOR": "1"} if coloured else {}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=True
    )
    return list(json.loads(done.stdout))


def files() -> dict[Path, str]:
    """Return the content of each file."""
    index = described(typer.main.get_command(app))
    commands = paths(index)
    plain, coloured = (help_pages(commands, coloured=colours) for colours in (False, True))
    pages = {
        " ".join(words): {"plain": page, "coloured": other}
        for words, page, other in zip(commands, plain, coloured, strict=True)
        if words
    }
    return {
        FOLDER / "command_index.json": json.dumps(index, indent=1, ensure_ascii=False) + "\n",
        FOLDER / "command_help.json": json.dumps(pages, indent=1, ensure_ascii=False) + "\n",
        FOLDER / "help_plain.txt": plain[0],
        FOLDER / "help_coloured.txt": coloured[0],
    }


def main() -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path, text in files().items():
        if check and (not path.exists() or path.read_text("utf-8") != text):
            stale.append(path.name)
        elif not check:
            path.write_text(text, "utf-8")
    if stale:
        names = ", ".join(stale)
        sys.stdout.write(f"{names}: not what the commands say; run tools/command_index.py\n")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
