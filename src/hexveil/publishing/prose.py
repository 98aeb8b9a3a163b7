"""A document of titled sections, as Markdown and as plain data.

Blocks hold plain text, some of it from files that others wrote. It is escaped here, when Markdown
is made of it, and nowhere else: a name with pipes, backquotes, HTML or a link stays a name.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

FILL_IN = "to be filled in by the controller"
JOINERS = "\u200c\u200d"
"""Invisible, but part of how words are spelt in several scripts."""
_SPECIAL = re.compile(r"[\\`*\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_LINK = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
_OPENING = re.compile(r"^(?:#|[+=-](?=[ =-]|$)|[0-9]+(?=[.)](?: |$)))")


def clean(text: str) -> str:
    r"""Return text on one line, without characters that are invisible or turn its direction.

    Examples
    --------
    >>> clean("two\nlines")
    'two lines'
    """
    return "".join(map(_visible, " ".join(text.split())))


def escaped(text: str) -> str:
    r"""Return plain text as Markdown that shows it as it is.

    Examples
    --------
    >>> print(escaped("a|b <i> *c* file_name"))
    a&#124;b &lt;i&gt; \*c\* file_name
    """
    safe = "".join(_ENTITIES.get(letter, letter) for letter in clean(text))
    safe = _SPECIAL.sub(lambda found: f"\\{found[0]}", safe)
    safe = _LINK.sub(lambda found: f"&#{ord(found[0])};", safe)
    return _OPENING.sub(_not_opening, safe)


def _visible(letter: str) -> str:
    kind = unicodedata.category(letter)
    hidden = kind[0] == "C" and letter not in JOINERS
    return "\ufffd" if hidden or kind in ("Zl", "Zp") else letter


def _not_opening(found: re.Match[str]) -> str:
    """Return the start of a text that would open a heading or a list, so that it opens none."""
    start = found[0]
    return f"&#{ord(start[0])};{start[1:]}"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def markdown(self) -> str:
        """Return it as Markdown."""
        return escaped(self.text)

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"text": self.text}


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]

    def markdown(self) -> str:
        """Return it as Markdown."""
        return "\n".join(f"- {escaped(item)}" for item in self.items)

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"items": list(self.items)}


@dataclass(frozen=True)
class Table:
    """Rows under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = (self.head, ("---",) * len(self.head), *self.rows)
        return "\n".join(
            f"| {' | '.join(_cell(cell, rule=at == 1) for cell in line)} |"
            for at, line in enumerate(lines)
        )

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"columns": list(self.head), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True)
class ToFill:
    """A place for what only the controller knows; the program's own words, not escaped."""

    what: str

    def markdown(self) -> str:
        """Return it as Markdown."""
        return f"[{FILL_IN}: {self.what}]"

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"fill_in": self.what}


Block = Text | Bullets | Table | ToFill


@dataclass(frozen=True)
class Section:
    """A title, what stands under it, and smaller sections."""

    title: str
    blocks: tuple[Block, ...] = ()
    parts: tuple[Section, ...] = ()

    def markdown(self, level: int = 1) -> str:
        """Return it as Markdown, its title a heading of this level."""
        own = [f"{'#' * level} {escaped(self.title)}", *(one.markdown() for one in self.blocks)]
        return "\n\n".join([*own, *(part.markdown(level + 1) for part in self.parts)])

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "title": self.title,
            "blocks": [one.data() for one in self.blocks],
            "parts": [part.data() for part in self.parts],
        }


def _cell(text: str, *, rule: bool) -> str:
    return text if rule else escaped(text)
