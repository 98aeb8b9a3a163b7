"""Inline SVG of released cells: a map of hexagons, or numbers of labels with their intervals.

It stands in a notebook by itself: no script, no style sheet, nothing loaded. Every text is
escaped; a pointer that rests on a cell shows its number. Hatching says what a colour cannot: that
a number is uncertain, or noise.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from hexveil.report.notebook.cell_picture import NOISE
from hexveil.report.palette import gradient
from hexveil.report.payload import ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hexveil.report.notebook.cell_picture import CellPicture

WIDTH, MAX_HEIGHT, MIN_HEIGHT = 640.0, 520.0, 160.0
"""Pixels of a map; its height follows from the hexagons."""
MARGIN, ROW = 12.0, 20.0
NAMES = 200.0
"""Width of the labels' names."""
MAX_LETTERS = 28
STOPS = 32
"""Colours of the legend."""
EMPTY, EDGE, INTERVAL, DOT = "#e9ebee", "#ffffff", "#8a939c", "#0072B2"
HATCHES = {"caution": "M0 10L10 0", "cut off": "M0 5L10 5", NOISE: "M0 10L10 0M0 0L10 10"}
"""Line of each grade's hatching, in a square of ten pixels."""
_NOISE_OPACITY = 0.22
_COLOURS = gradient(256)


def draw_svg(picture: CellPicture) -> str:
    """Return the picture as an SVG element."""
    draw = _draw_bars if picture.outlines is None else _draw_map
    return draw(picture)


def _draw_map(picture: CellPicture) -> str:
    west, east, south, north = picture.extent
    size = max(east - west, north - south)
    # A lone hexagon must not fill the picture, and a long row of them not flatten it.
    width, height = max(east - west, size / 4), max(north - south, size / 4)
    scale = min((WIDTH - 2 * MARGIN) / width, (MAX_HEIGHT - 2 * MARGIN) / height)
    drawn = float(np.clip(height * scale + 2 * MARGIN, MIN_HEIGHT, MAX_HEIGHT))
    middle = np.array([(west + east) / 2, (south + north) / 2])

    def place(outline: NDArray[np.float64]) -> NDArray[np.float64]:
        # Pixels run down the page, and north is up.
        return np.asarray((outline - middle) * [scale, -scale] + [WIDTH / 2, drawn / 2])

    shapes = [
        f'<polygon points="{_points(place(ring))}" fill="{EMPTY}"/>' for ring in picture.others
    ]
    shapes += _cells(picture, [place(outline) for outline in picture.outlines or ()])
    return _element(picture, drawn + 48, [*_patterns(), *shapes, *_legend(picture, drawn)])


def _cells(picture: CellPicture, outlines: list[NDArray[np.float64]]) -> Iterator[str]:
    """Yield each hexagon in its colour, then its hatching."""
    cells = zip(outlines, picture.value, picture.quality, picture.descriptions, strict=True)
    for outline, value, quality, description in cells:
        points = _points(outline)
        opacity = f' fill-opacity="{_NOISE_OPACITY}"' if quality == NOISE else ""
        hatching = (
            f'<polygon points="{points}" fill="url(#{_pattern_id(quality)})"/>'
            if quality in HATCHES
            else ""
        )
        yield (
            f"<g><title>{html.escape(description)}</title>"
            f'<polygon points="{points}" fill="{colour(float(value), picture.scale)}"{opacity} '
            f'stroke="{EDGE}" stroke-width="0.8"/>{hatching}</g>'
        )


def colour(value: float, scale: tuple[float, float]) -> str:
    """Return the colour of a number; those beyond the scale have the colour of its end."""
    share = min(1.0, max(0.0, (value - scale[0]) / (scale[1] - scale[0])))
    return _COLOURS[round(share * (len(_COLOURS) - 1))]


def _points(outline: NDArray[np.float64]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)


def _pattern_id(quality: str) -> str:
    return f"hexveil-{quality.replace(' ', '-')}"


def _patterns() -> Iterator[str]:
    """Yield the hatchings: dark lines with a light shadow, seen on every colour of the scale."""
    for quality, line in HATCHES.items():
        shadow = f'<path d="{line}" stroke="#ffffff" stroke-opacity="0.3" stroke-width="1.6"/>'
        ink = f'<path d="{line}" stroke="#1b1f23" stroke-opacity="0.6" stroke-width="0.7"/>'
        yield (
            f'<pattern id="{_pattern_id(quality)}" width="10" height="10" '
            f'patternUnits="userSpaceOnUse">{shadow}{ink}</pattern>'
        )


def _legend(picture: CellPicture, top: float) -> Iterator[str]:
    """Yield the colour scale with round numbers, and the grades that the picture has."""
    low, high = picture.scale
    width = WIDTH / 2 - 2 * MARGIN
    for i in range(STOPS):
        shade = colour(low + (high - low) * i / (STOPS - 1), picture.scale)
        x = MARGIN + width * i / STOPS
        # A little wider than its share, so that no gap shows between two colours.
        size = f'width="{width / STOPS + 0.5:.1f}" height="10"'
        yield f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{shade}"/>'
    for tick in ticks(low, high):
        x = MARGIN + width * (tick - low) / (high - low)
        yield _text(f"{tick:g}", x, top + 23, anchor="middle")
    yield _text(picture.label, MARGIN, top + 39)
    graded = [quality for quality in HATCHES if quality in picture.quality]
    for i, quality in enumerate(graded):
        x = WIDTH / 2 + MARGIN + 90 * i
        yield (
            f'<rect x="{x:.1f}" y="{top}" width="18" height="12" '
            f'fill="url(#{_pattern_id(quality)})" stroke="{INTERVAL}"/>'
        )
        yield _text(quality, x + 24, top + 10)


def _draw_bars(picture: CellPicture) -> str:
    """Return a row for each cell: its name, its interval as a line, its number as a dot."""
    ends = np.concatenate([picture.low, picture.high])
    # A single constant has an axis without length.
    start, width = float(ends.min()), float(np.ptp(ends)) or 1.0
    length = WIDTH - NAMES - 3 * MARGIN

    def across(number: float) -> float:
        return NAMES + MARGIN + length * (float(number) - start) / width

    rows = [_row(picture, row, across) for row in range(len(picture.names))]
    bottom = 2 * MARGIN + ROW * len(rows) + 4
    axis = [
        _text(f"{number:g}", across(number), bottom, anchor="middle")
        for number in ticks(start, start + width)
    ]
    label = _text(picture.label, NAMES + MARGIN, bottom + 16)
    return _element(picture, bottom + 24, [*rows, *axis, label])


def _row(picture: CellPicture, row: int, across: Callable[[float], float]) -> str:
    name, y = picture.names[row], MARGIN + ROW * (row + 0.5)
    shortened = name if len(name) <= MAX_LETTERS else f"{name[:MAX_LETTERS]}..."
    low, high, value = (across(end[row]) for end in (picture.low, picture.high, picture.value))
    # Noise is a hollow dot: its number may be anything.
    filled = "#ffffff" if picture.quality[row] == NOISE else DOT
    return (
        f"<g><title>{html.escape(picture.descriptions[row])}</title>"
        f"{_text(shortened, NAMES, y + 4, anchor='end')}"
        f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" '
        f'stroke="{INTERVAL}" stroke-width="3"/>'
        f'<circle cx="{value:.1f}" cy="{y:.1f}" r="4.5" fill="{filled}" stroke="{DOT}"/></g>'
    )


def _text(text: str, x: float, y: float, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" '
        f'font-family="sans-serif" fill="currentColor">{html.escape(text)}</text>'
    )


def _element(picture: CellPicture, height: float, parts: list[str]) -> str:
    title = html.escape(picture.title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" '
        f'width="{WIDTH:.0f}" role="img" aria-label="{title}" style="max-width:100%">'
        f"{''.join(parts)}</svg>"
    )
