"""Pictures as SVG files: sharp at every size, and without the metadata that would differ."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.base import atomic_files
from hexveil_research import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_PATH = re.compile(r'(?<= )d="[^"]*"')
_LETTER = re.compile(r" ?([A-Za-z]) ")
_SPACE = re.compile(r">\s+<")
_PLACE = re.compile(r'(?<= )[xy]="[^"]*"')
_USE = r'<use xlink:href="[^"]*" x="[^"]*" y="[^"]*" style="'
_MARKS = re.compile(rf'<g([^>]*)>({_USE}([^"]*)"/>(?:{_USE}\3"/>)*)</g>')
"""A group of marks that share one style."""


def save(figure: Figure, file: Path) -> None:
    """Write a figure as SVG."""
    with plot_style.style():
        drawn = plot_style.images(figure)["svg"]
    atomic_files.write(file, shorten(drawn.decode()).encode())


def shorten(svg: str) -> str:
    r"""Return SVG with places to a tenth of a point, no space between tags, styles of marks once.

    Scales stay: those of letters are small numbers.

    Examples
    --------
    >>> shorten('<g>\n <path d="M 1.23456 -0.0001 L 12 3.5"/></g>')
    '<g><path d="M1.2 0L12 3.5"/></g>'
    """

    def rounded(match: re.Match[str]) -> str:
        # Adding zero turns -0 into 0.
        return f"{round(float(match[0]), 1) + 0.0:g}"

    def short_path(match: re.Match[str]) -> str:
        return _LETTER.sub(r"\1", _NUMBER.sub(rounded, " ".join(match[0].split())))

    def short_place(match: re.Match[str]) -> str:
        return _NUMBER.sub(rounded, match[0])

    def styled_once(match: re.Match[str]) -> str:
        # A mark takes the style of its group as it takes that of its own tag.
        group, marks, style = match.groups()
        marks = marks.replace(f' style="{style}"', "")
        return f'<g{group} style="{style}">{marks}</g>'

    short = _PLACE.sub(short_place, _SPACE.sub("><", _PATH.sub(short_path, svg)))
    return _MARKS.sub(styled_once, short)
