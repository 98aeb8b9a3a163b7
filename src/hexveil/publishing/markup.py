"""Documents written in a small part of Markdown: titles, paragraphs, lists, tables, blanks to fill.

A template is text in this markup. Values, some of them from files that others wrote, are escaped
when they are put into it, so a name with pipes, backquotes, HTML, a link or a line break stays a
name. `parse` turns the rendered template into sections, which are written as Markdown, or as plain
text for a terminal or editor.

Blank lines separate blocks. A block is a title (`#`), a list whose items begin with `- `, a table
whose lines begin with `|`, or else a paragraph, of which a place to fill in is one
(`[who fills it in: what]`).
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import dataclass
from functools import partial
from typing import Any

from hexveil.report.templates import render_template

JOINERS = "\u200c\u200d"
"""Invisible, but part of how words are spelt in several scripts."""
WIDTH = 92
"""Letters of a line of plain text."""
_SPECIAL = re.compile(r"[\\`*\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_LINK = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)
_OPENING = re.compile(r"^(?:#|[+=-](?=[ =-]|$)|[0-9]+(?=[.)](?: |$)))")
_ESCAPED = re.compile(r"\\([\\`*\[\]~$_])|&#([0-9]+);|&(amp|lt|gt);")
_NAMED = {"amp": "&", "lt": "<", "gt": ">"}
_TITLE = re.compile(r"(#{1,6}) (.*)")


def clean(text: str) -> str:
    r"""Return text on one line, without characters that are invisible or turn its direction.

    Examples
    --------
    >>> clean("two\nlines")
    'two lines'
    """
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(map(_visible, line))


def clean_texts(value: Any) -> Any:  # noqa: ANN401  JSON of any kind
    """Return JSON with every text cleaned; see `clean`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_texts(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean_texts(item) for key, item in value.items()}
    return value


def escaped(text: str) -> str:
    r"""Return plain text as Markdown that shows it unchanged.

    Examples
    --------
    >>> print(escaped("a|b <i> *c* file_name"))
    a&#124;b &lt;i&gt; \*c\* file_name
    """
    safe = "".join(_ENTITIES.get(letter, letter) for letter in clean(text))
    # Entities first: the escapes below add no character that they would escape again.
    safe = _SPECIAL.sub(lambda match: f"\\{match[0]}", safe)
    safe = _LINK.sub(lambda match: f"&#{ord(match[0])};", safe)
    return _OPENING.sub(_without_opening, safe)


def unescaped(text: str) -> str:
    r"""Return the plain text that Markdown of `escaped` shows.

    Examples
    --------
    >>> unescaped(escaped("a|b <i> *c* &amp;"))
    'a|b <i> *c* &amp;'
    """
    return _ESCAPED.sub(
        lambda match: match[1] or (chr(int(match[2])) if match[2] else _NAMED[match[3]]), text
    )


def _visible(letter: str) -> str:
    kind = unicodedata.category(letter)
    hidden = kind[0] == "C" and letter not in JOINERS
    return "\ufffd" if hidden or kind in ("Zl", "Zp") else letter


def _without_opening(match: re.Match[str]) -> str:
    """Return the start of a text that would open a heading or a list, so that it opens none."""
    start = match[0]
    return f"&#{ord(start[0])};{start[1:]}"


@dataclass(frozen=True)
class DocumentSection:
    """A title, the blocks under it in this markup, and smaller sections."""

    title: str
    blocks: tuple[str, ...] = ()
    sections: tuple[DocumentSection, ...] = ()

    def to_markdown(self, level: int = 1) -> str:
        """Return it as Markdown, its title a heading of this level."""
        sections = (section.to_markdown(level + 1) for section in self.sections)
        return "\n\n".join([f"{'#' * level} {escaped(self.title)}", *self.blocks, *sections])

    def to_text(self, level: int = 1) -> str:
        """Return it as plain text; titles below the first one are in capitals."""
        title = clean(self.title) if level == 1 else clean(self.title).upper()
        sections = (section.to_text(level + 1) for section in self.sections)
        return "\n\n".join([title, *map(_plain, self.blocks), *sections])


def items_of(block: str) -> list[Any]:
    """Return the items of a list, or the rows of a table, its head first; none of a paragraph."""
    lines = block.split("\n")
    if block.startswith("- "):
        return [unescaped(line.removeprefix("- ")) for line in lines]
    if block.startswith("|"):
        rows = [line.removeprefix("|").removesuffix("|").split("|") for line in lines]
        # The second line is the rule between head and rows.
        del rows[1]
        return [[unescaped(cell.strip()) for cell in row] for row in rows]
    return []


def _plain(block: str) -> str:
    """Return a block as lines of plain text; a table is a list with an item per row."""
    items = items_of(block)
    if block.startswith("|"):
        items = [": ".join(row) for row in items[1:]]
    wrap, text = partial(textwrap.fill, width=WIDTH), clean(unescaped(block))
    hung = [wrap(clean(item), initial_indent="- ", subsequent_indent="  ") for item in items]
    return "\n".join(hung) or wrap(text)


def document(template: str, values: dict[str, Any]) -> DocumentSection:
    """Return the document that a template of this markup makes of values."""
    return parse(render_template(template, values, escaped))


def parse(text: str) -> DocumentSection:
    r"""Return the document of a text in this markup, which begins with its title.

    Examples
    --------
    >>> document = parse("# A\n\nb\nc\n\n## D\n\n- e\n- f")
    >>> document.blocks, document.sections[0].blocks
    (('b c',), ('- e\n- f',))
    """
    # A value has no line break, so only the template separates blocks.
    blocks = [block for block in re.split(r"\n[ \t]*(?:\n[ \t]*)+", text.strip()) if block]
    section, remaining = _parse_section(blocks)
    if remaining:
        raise ValueError(f"a document has one title, and here is a second: {remaining[0]!r}")
    return section


def _parse_section(blocks: list[str]) -> tuple[DocumentSection, list[str]]:
    """Return the section that blocks begin with, and the blocks after it."""
    level, title = _heading(blocks[0])
    content: list[str] = []
    sections: list[DocumentSection] = []
    remaining = blocks[1:]
    while remaining:
        below, _ = _heading(remaining[0])
        if below and below <= level:
            break
        if below:
            section, remaining = _parse_section(remaining)
            sections.append(section)
        else:
            content.append(_joined(remaining[0]))
            remaining = remaining[1:]
    return DocumentSection(title, tuple(content), tuple(sections)), remaining


def _heading(block: str) -> tuple[int, str]:
    """Return the level and the text of a title; level 0 if the block is none."""
    match = _TITLE.fullmatch(_joined(block))
    return (0, "") if match is None else (len(match[1]), unescaped(match[2]))


def _joined(block: str) -> str:
    """Return a block with each paragraph, item or row on one line."""
    mark = next((mark for mark in ("- ", "|") if block.lstrip().startswith(mark)), None)
    lines = [line.strip() for line in block.split("\n")]
    begins = [f"\n{line}" if mark and line.startswith(mark) else f" {line}" for line in lines]
    return "".join(begins).strip()
