"""Pictures as SVG files: sharp at every size, and without the metadata that would differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hexveil.base import atomic_files
from hexveil.simulation import figure_style

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_PATH = re.compile(r'(?<= )d="[^"]*"')
_LETTER = re.compile(r" ?([A-Za-z]) ")
_SPACE = re.compile(r">\s+<")


def save(figure: Figure, file: Path) -> None:
    """Write a figure as SVG."""
    with figure_style.style():
        drawn = figure_style.images(figure)["svg"]
    atomic_files.write(file, shorten(drawn.decode()).encode())


def shorten(svg: str) -> str:
    r"""Return SVG with corners to a tenth of a point, and no space between tags.

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

    return _SPACE.sub("><", _PATH.sub(short_path, svg))
