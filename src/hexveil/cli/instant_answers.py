"""Help and completion without a library: from files that `tools/command_index.py` makes.

A shell asks for a completion at every press of a key. What the files cannot answer goes to the
parser: `answer` then returns None.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Index = Mapping[str, Any]

HELP_WIDTH = 80
"""Columns that the help page takes; the parser lays it out for a narrower terminal."""
COMPLETES = "_HEXVEIL_COMPLETE"
_LAYOUT = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
           "TERMINAL_WIDTH", "TYPER_USE_RICH")  # fmt: skip
"""Variables by which a user has a say in the layout."""


def answer(arguments: Sequence[str]) -> int | None:
    """Print the answer to a request for help or completion; return the exit code, or None."""
    try:
        if COMPLETES in os.environ:
            return _complete()
        page = _help_page(list(arguments))
        if page is None:
            return None
        sys.stdout.write(page)
        sys.stdout.flush()
    except (BrokenPipeError, KeyboardInterrupt, OSError, ValueError):
        return None
    return 0


def _help_page(arguments: list[str]) -> str | None:
    """Return the help page that is asked for; None if there is none, or the parser lays it out."""
    *path, last = arguments or ["--help"]
    if last != "--help" or any(word.startswith("-") for word in path) or not _is_common_layout():
        return None
    kind = "coloured" if _has_colours() else "plain"
    if not path:
        return _resource(f"help_{kind}.txt")
    import json  # noqa: PLC0415  the first page does without it

    pages = json.loads(_resource("command_help.json")).get(" ".join(path))
    return None if pages is None else str(pages[kind])


def _resource(name: str) -> str:
    # By path: the standard library's way to resources takes longer to load than all else here.
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:  # noqa: PTH120, PTH118, PTH123
        return file.read()


def _is_common_layout() -> bool:
    if any(name in os.environ for name in _LAYOUT):
        return False
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns) >= HELP_WIDTH
    return not sys.stdout.isatty() or os.get_terminal_size().columns >= HELP_WIDTH


def _has_colours() -> bool:
    plain = os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown")
    return sys.stdout.isatty() and not plain and not os.environ.get("NO_COLOR")


def _complete() -> int | None:
    """Print the completions of a line, as the parser does; None if it must do it."""
    instruction, _, shell = os.environ[COMPLETES].partition("_")
    if instruction != "complete" or shell not in ("bash", "zsh", "fish"):
        return None
    words, incomplete = _words(shell)
    import json  # noqa: PLC0415  help does without it

    offers = offered(json.loads(_resource("command_index.json")), words, incomplete)
    if offers is None:
        return None
    if shell == "fish" and os.environ.get("_TYPER_COMPLETE_FISH_ACTION") != "get-args":
        return 0 if offers else 1
    print(_FORMATS[shell](offers))  # noqa: T201  a shell reads it
    return 0


def _words(shell: str) -> tuple[list[str], str]:
    """Return the whole words of a line after the command's name, and the one that is typed."""
    if shell == "bash":
        words, place = os.environ["COMP_WORDS"].split(), int(os.environ["COMP_CWORD"])
        return _unquoted(words[1:place]), "".join(_unquoted(words[place : place + 1]))
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _unquoted(line.split())[1:]
    if words and not line.endswith(" "):
        return words[:-1], words[-1]
    return words, ""


def _unquoted(words: list[str]) -> list[str]:
    """Return words; raise ValueError if the shell's quotes make other words of them."""
    if any(letter in word for word in words for letter in "\"'\\"):
        raise ValueError("quotes are for the parser")
    return words


def offered(index: Index, words: Sequence[str], incomplete: str) -> list[tuple[str, str]] | None:
    """Return the completions of an incomplete word with their help; None if the parser must say.

    Parameters
    ----------
    index : mapping
        A command of the index: its `options`, and its `commands` if it is a group.
    words : sequence of str
        The words before.
    incomplete : str
    """
    used: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-"):
            if "commands" not in index:
                continue  # an argument
            if word not in index["commands"]:
                return None
            index, used = index["commands"][word], []
            continue
        option = next((o for o in index["options"] if word in o["names"]), None)
        if option is None:
            return None
        used.append(option["names"][0])
        if option["has_value"]:
            if not waiting:
                return None if option["has_choices"] else []
            waiting.pop(0)
    if incomplete.startswith("-"):
        return None if "=" in incomplete else _options(index, used, incomplete)
    commands = index.get("commands", {})
    return [(name, one["purpose"]) for name, one in commands.items() if name.startswith(incomplete)]


def _options(index: Index, used: Sequence[str], incomplete: str) -> list[tuple[str, str]]:
    return [
        (name, option["help"])
        for option in index["options"]
        if option["is_multiple"] or option["names"][0] not in used
        for name in option["names"]
        if name.startswith(incomplete)
    ]


def _bash(offers: list[tuple[str, str]]) -> str:
    return "\n".join(name for name, _ in offers)


def _zsh(offers: list[tuple[str, str]]) -> str:
    lines = [f'"{_escape(n)}":"{_escape(h)}"' if h else f'"{_escape(n)}"' for n, h in offers]
    return f"_arguments '*: :(({chr(10).join(lines)}))'" if lines else "_files"


def _escape(text: str) -> str:
    text = text.replace('"', '""').replace("'", "''").replace("$", "\\$").replace("`", "\\`")
    return text.replace(":", r"\\:")


def _fish(offers: list[tuple[str, str]]) -> str:
    return "\n".join(f"{n}\t{' '.join(h.split(chr(10)))}" if h else n for n, h in offers)


_FORMATS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
