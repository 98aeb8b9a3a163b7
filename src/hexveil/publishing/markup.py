"""Documents written in a small part of Markdown: titles, paragraphs, lists, tables, blanks to fill.

A template is text in this markup. Values, some of them from files that others wrote, are escaped
when they are put into it, so a name with pipes, backquotes, HTML, a link or a line break stays a
name. `parse` turns the rendered template into sections of plain text, which are then written as
Markdown (escaped anew), as plain text for a terminal or editor, or as plain data.

Blank lines separate blocks. A block is a title (`#`), a list whose items begin with `- `, a table
whose lines begin with `|`, a place to fill in (`[who fills it in: what]`), or else a paragraph.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import dataclass
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
_BLANK = re.compile(r"\[([^\[\]:]+): (.*)\]", re.DOTALL)


def clean(text: str) -> str:
    r"""Return text on one line, without characters that are invisible or turn its direction.

    Examples
    --------
    >>> clean("two\nlines")
    'two lines'
    """
    return "".join(map(_visible, " ".join(text.split())))


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
class Paragraph:
    """A paragraph."""

    text: str

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        return escaped(self.text)

    def to_text(self) -> str:
        """Return it as lines of plain text."""
        return textwrap.fill(clean(self.text), WIDTH)

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"text": self.text}


@dataclass(frozen=True)
class BulletList:
    """A list of sentences."""

    items: tuple[str, ...]

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        return "\n".join(f"- {escaped(item)}" for item in self.items)

    def to_text(self) -> str:
        """Return it as lines of plain text."""
        return "\n".join(
            textwrap.fill(clean(item), WIDTH, initial_indent="- ", subsequent_indent="  ")
            for item in self.items
        )

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"items": list(self.items)}


@dataclass(frozen=True)
class DocumentTable:
    """Rows under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        head, *rows = ([escaped(cell) for cell in row] for row in (self.head, *self.rows))
        # The rule is markup of the table, and no cell.
        lines = (head, ["---"] * len(self.head), *rows)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_text(self) -> str:
        """Return it as lines of plain text: a list with an item per row."""
        return BulletList(tuple(": ".join(row) for row in self.rows)).to_text()

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"columns": list(self.head), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True)
class FillIn:
    """A place for a fact that only the reader knows.

    Attributes
    ----------
    request : str
        Who fills it in: "to be filled in by the controller".
    fact : str
        The fact.
    """

    request: str
    fact: str

    def to_markdown(self) -> str:
        """Return it as Markdown."""
        return f"[{escaped(self.request)}: {escaped(self.fact)}]"

    def to_text(self) -> str:
        """Return it as lines of plain text."""
        return textwrap.fill(clean(f"[{self.request}: {self.fact}]"), WIDTH)

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"fill_in": self.fact}


Block = Paragraph | BulletList | DocumentTable | FillIn


@dataclass(frozen=True)
class DocumentSection:
    """A title, the blocks under it, and smaller sections."""

    title: str
    blocks: tuple[Block, ...] = ()
    sections: tuple[DocumentSection, ...] = ()

    def to_markdown(self, level: int = 1) -> str:
        """Return it as Markdown, its title a heading of this level."""
        blocks = (block.to_markdown() for block in self.blocks)
        sections = (section.to_markdown(level + 1) for section in self.sections)
        return "\n\n".join([f"{'#' * level} {escaped(self.title)}", *blocks, *sections])

    def to_text(self, level: int = 1) -> str:
        """Return it as plain text; titles below the first one are in capitals."""
        title = clean(self.title)
        blocks = (block.to_text() for block in self.blocks)
        sections = (section.to_text(level + 1) for section in self.sections)
        return "\n\n".join([title if level == 1 else title.upper(), *blocks, *sections])

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "title": self.title,
            "blocks": [block.to_data() for block in self.blocks],
            "sections": [section.to_data() for section in self.sections],
        }


def document(template: str, values: dict[str, Any]) -> DocumentSection:
    """Return the document that a template of this markup makes of values."""
    return parse(render_template(template, values, escaped))


def parse(text: str) -> DocumentSection:
    r"""Return the document of a text in this markup, which begins with its title.

    Examples
    --------
    >>> document = parse("# A\n\nb\nc\n\n## D\n\n- e\n- f")
    >>> document.blocks, document.sections[0].blocks
    ((Paragraph(text='b c'),), (BulletList(items=('e', 'f')),))
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
    content: list[Block] = []
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
            content.append(_parse_block(remaining[0]))
            remaining = remaining[1:]
    return DocumentSection(title, tuple(content), tuple(sections)), remaining


def _heading(block: str) -> tuple[int, str]:
    """Return the level and the text of a title; level 0 if the block is none."""
    match = _TITLE.fullmatch(_one_line(block))
    return (0, "") if match is None else (len(match[1]), unescaped(match[2]))


def _parse_block(block: str) -> Block:
    lines = [line.lstrip() for line in block.split("\n")]
    if lines[0].startswith("- "):
        items = "\n".join(lines)[2:].split("\n- ")
        return BulletList(tuple(unescaped(_one_line(item)) for item in items))
    if lines[0].startswith("|"):
        # The second line is the rule between head and rows.
        head, _, *rows = ([unescaped(cell.strip()) for cell in _cells(line)] for line in lines)
        return DocumentTable(tuple(head), tuple(map(tuple, rows)))
    text = _one_line(block)
    if match := _BLANK.fullmatch(text):
        return FillIn(unescaped(match[1]), unescaped(match[2]))
    return Paragraph(unescaped(text))


def _cells(line: str) -> list[str]:
    return line.removeprefix("|").removesuffix("|").split("|")


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.split("\n"))
