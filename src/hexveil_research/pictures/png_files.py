"""Pictures as files: PNG with a palette, so that a page loads fast on a phone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from hexveil.base import atomic_files
from hexveil_research import plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = 256
"""As many as a palette has."""


def save(figure: Figure, file: Path) -> None:
    """Write a figure as PNG."""
    with plot_style.style():
        full = plot_style.images(figure)["png"]
    atomic_files.write(file, with_palette(full))


def with_palette(png: bytes) -> bytes:
    """Return a PNG of few colours, chosen to be near all that are there, however few their dots.

    Two steps of k-means then bring the colours of most dots nearer still.
    """
    from PIL import Image  # noqa: PLC0415  comes with matplotlib, an extra

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        rgb = image.convert("RGB")
        coverage = Image.Quantize.MAXCOVERAGE
        # No dithering: dots would look like noise in the map, and compress badly.
        reduced = rgb.quantize(COLOURS, method=coverage, kmeans=2, dither=Image.Dither.NONE)
        reduced.save(buffer, format="png", optimize=True)
    return buffer.getvalue()
