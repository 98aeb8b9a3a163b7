"""A Markdown extension: formulas as MathML, and tables that a phone can show."""

from __future__ import annotations

import html as markup
import re
from typing import TYPE_CHECKING

from latex2mathml.converter import convert
from markdown import Extension
from markdown.postprocessors import Postprocessor

if TYPE_CHECKING:
    from markdown import Markdown

CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
LONG = 40
LONG_CODE = re.compile(r"(?<=<code>)[^<\s]{16,}(?=</code>)")
# TeX as pymdownx.arithmatex leaves it: \(inline\) in a span, \[displayed\] in a div.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<tex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
# Rules that would stand inside a formula's markup come first; nothing changes the HTML after.
LAST = -10


class FormulaError(Exception):
    """A formula that cannot be typeset."""


class TypesettingExtension(Extension):
    """Typeset formulas and tables of a page; zensical.toml names this module."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  as the library calls it
        """Register the step after all others."""
        md.postprocessors.register(Typesetting(md), "typesetting", LAST)


class Typesetting(Postprocessor):
    """Work on the finished HTML of a page or docstring."""

    def run(self, text: str) -> str:
        """Return HTML with formulas in MathML, and with marks for wide tables.

        Long names in code break after a dot, a bar or a stroke, short ones nowhere; cells of many
        words are marked, so that their columns stay wide enough.
        """
        text = FORMULA.sub(typeset, text)
        text = LONG_CODE.sub(lambda found: re.sub(r"(::|[./_])(?=\w)", r"\1<wbr>", found[0]), text)
        # A head of no words is no head of a column.
        text = text.replace("<th></th>", "<td></td>")
        return CELL.sub(_marked, text)


def typeset(formula: re.Match[str]) -> str:
    """Convert a formula from TeX to MathML, which browsers draw without a script or a font of ours.

    Raises
    ------
    FormulaError
        If the formula contains a command that the converter does not know.
    """
    tex = markup.unescape(formula["tex"]).strip()
    inline = formula["tag"] == "span"
    drawn = convert(tex, display="inline" if inline else "block")
    if "\\" in drawn:
        message = f"the formula {tex} has a command that latex2mathml does not know"
        raise FormulaError(message)
    return drawn if inline else f'<div class="formula">{drawn}</div>'


def _marked(cell: re.Match[str]) -> str:
    inside = re.sub(r"<code>(?=[^<\s]{1,24}</code>)", '<code class="whole">', cell[1])
    words = re.sub(r"<[^>]+>", "", inside)
    start = '<td class="long">' if len(words) > LONG else "<td>"
    return f"{start}{inside}</td>"


def makeExtension(**settings: object) -> TypesettingExtension:  # noqa: N802  as the library calls it
    """Return the extension."""
    return TypesettingExtension(**settings)
