"""Inline SVG of released cells: a map of hexagons, or numbers of labels with their intervals.

It stands in a notebook by itself: no script, no style sheet, nothing loaded. Every text is
escaped; a pointer that rests on a cell shows its number. Colours and marks are those of the page:
the less sure a number, the fewer and paler its colours; noise has a cross, and a cell that is cut
off a triangle towards the side on which the true number may lie.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.notebook.cell_picture import GRADES, NOISE
from hexveil.report.palette import colours_of, palette
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
MAX_MARK = 4.0
"""Half of a mark's width, in pixels; less on small hexagons."""
SWATCH = 36.0
"""Width of a grade's colours in the legend."""
EMPTY, EDGE, INTERVAL, DOT, MARK = "#e9ebee", "#ffffff", "#8a939c", "#0072B2", "#4b535b"


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

    others = [f'points="{_points(place(ring))}" fill="{EMPTY}"' for ring in picture.others]
    shapes = [f"<polygon {other}/>" for other in others]
    if picture.others_note:
        note = f"<title>{html.escape(picture.others_note)}</title>"
        edge = f'stroke="{EDGE}" stroke-width="0.8"'
        shapes = [f"<g>{note}<polygon {other} {edge}/></g>" for other in others]
    shapes += _cells(picture, [place(outline) for outline in picture.outlines or ()])
    return _element(picture, drawn + 48, [*shapes, *_legend(picture, drawn)])


def _cells(picture: CellPicture, outlines: list[NDArray[np.float64]]) -> Iterator[str]:
    """Yield each hexagon in its colour, with the mark of its grade."""
    fills = colours_of(picture.value, picture.quality, picture.scale)
    for row, outline in enumerate(outlines):
        half = min(float(np.ptp(outline[:, 0])) / 9, MAX_MARK)
        x, y = (outline.max(axis=0) + outline.min(axis=0)) / 2
        mark = _mark(picture.quality[row], x, y, half, up=bool(picture.lies_above[row]))
        yield (
            f"<g><title>{html.escape(picture.descriptions[row])}</title>"
            f'<polygon points="{_points(outline)}" fill="{fills[row]}" '
            f'stroke="{EDGE}" stroke-width="0.8"/>{mark}</g>'
        )


def _mark(grade: str, x: float, y: float, half: float, *, up: bool) -> str:
    """Return the mark of a grade: a cross, a triangle, or nothing."""
    if grade == NOISE:
        line = (
            f"M{x - half:.1f} {y - half:.1f}L{x + half:.1f} {y + half:.1f}"
            f"M{x - half:.1f} {y + half:.1f}L{x + half:.1f} {y - half:.1f}"
        )
    elif grade == CUT_OFF:
        # Pixels run down the page.
        tip = -half if up else half
        line = (
            f"M{x - half:.1f} {y - tip / 2:.1f}L{x + half:.1f} {y - tip / 2:.1f}"
            f"L{x:.1f} {y + tip:.1f}Z"
        )
    else:
        return ""
    return f'<path d="{line}" fill="none" stroke="{MARK}" stroke-width="1.1"/>'


def _points(outline: NDArray[np.float64]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)


def _legend(picture: CellPicture, top: float) -> Iterator[str]:
    """Yield the colour scale with round numbers, and the grades that the picture has."""
    low, high = picture.scale
    width = WIDTH / 2 - 2 * MARGIN
    yield from _swatch("good", MARGIN, top, width)
    for tick in ticks(low, high):
        x = MARGIN + width * (tick - low) / (high - low)
        yield _text(f"{tick:g}", x, top + 23, anchor="middle")
    yield _text(picture.label, MARGIN, top + 39)
    graded = [grade for grade in GRADES if grade in picture.quality]
    for i, grade in enumerate(graded):
        x = WIDTH / 2 + MARGIN + 96 * i
        yield from _swatch(grade, x, top, SWATCH)
        yield _mark(grade, x + SWATCH / 2, top + 5, MAX_MARK, up=True)
        yield _text(grade, x + SWATCH + 6, top + 10)


def _swatch(grade: str, x: float, top: float, width: float) -> Iterator[str]:
    """Yield the colours of a grade side by side."""
    colours = palette("light")[grade]
    step = width / len(colours)
    for i, fill in enumerate(colours):
        yield (
            f'<rect x="{x + step * i:.1f}" y="{top:.1f}" width="{step:.1f}" height="10" '
            f'fill="{fill}"/>'
        )


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
