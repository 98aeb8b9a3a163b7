"""Maps in classes of colour as SVG, one for each timeslot: no script, styled by the page alone.

Differences that were told run from blue to orange in six classes about 0; those that cannot be told
are left blank, so that a map cannot show a change that its numbers do not. Averages run along the
scale of the page of a release, in its eight classes.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.report.palette import palette
from hexveil.report.payload import round_ends
from hexveil.report.projection import centred_projection, unwrapped_rings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WIDTH, MARGIN = 360.0, 6.0
"""Of a map, in the units of its drawing."""
BLANK, ELSEWHERE = "blank", "elsewhere"
"""Style classes of cells that nothing can be told of, and of hexagons without a number here."""


@dataclass(frozen=True)
class ColourClasses:
    """Classes of colour between round ends.

    Attributes
    ----------
    low, high : float
    colours : "difference" or "good"
        Their name in the palette.
    """

    low: float
    high: float
    colours: str

    @classmethod
    def around_zero(cls, numbers: Floats) -> ColourClasses:
        """Return six classes about 0 that hold these differences."""
        _, high = round_ends(np.append(np.abs(numbers), 0.0))
        return cls(-high, high, "difference")

    @classmethod
    def between_ends(cls, numbers: Floats) -> ColourClasses:
        """Return eight classes that hold these numbers."""
        return cls(*round_ends(numbers), "good")

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(palette("light")[self.colours])

    def edges(self) -> list[float]:
        """Return the ends of the classes, ascending; there is one more than classes."""
        return [float(edge) for edge in np.linspace(self.low, self.high, self.count + 1)]

    def style_class(self, number: float) -> str:
        """Return the style class of a number's colour."""
        share = (number - self.low) / (self.high - self.low)
        return f"c{min(self.count - 1, max(0, int(share * self.count)))}"

    def style_rules(self) -> str:
        """Return the rules of the classes, for light pages and paper and for dark screens."""
        dark = f"@media screen and (prefers-color-scheme: dark) {{\n{self._rules('dark')}}}\n"
        return self._rules("light") + dark

    def _rules(self, mode: str) -> str:
        colours = palette(mode)[self.colours]
        return "".join(f".c{i} {{ fill: {colour}; }}\n" for i, colour in enumerate(colours))


@dataclass(frozen=True, eq=False)
class HexagonOutlines:
    """Outlines of hexagons on one drawing, the same for every timeslot.

    Attributes
    ----------
    points : mapping of str to str
        Corners of each hexagon, as SVG writes them.
    height : float
        Of the drawing.
    """

    points: Mapping[str, str]
    height: float

    @classmethod
    def of(cls, hexagons: Sequence[str]) -> HexagonOutlines:
        """Return the outlines of hexagons, by name."""
        names = list(dict.fromkeys(hexagons))
        rings = unwrapped_rings(names)
        projection = centred_projection(rings)
        corners = [projection.steps(*np.array(ring).T).astype(np.float64) for ring in rings]
        every = np.concatenate(corners)
        start, size = every.min(axis=0), np.ptp(every, axis=0)
        scale = (WIDTH - 2 * MARGIN) / float(size.max())
        height = float(size[1] * scale) + 2 * MARGIN
        left = (WIDTH - float(size[0]) * scale) / 2.0
        points = {}
        for name, ring in zip(names, corners, strict=True):
            # Pixels run down the page, and north is up.
            x, y = ((ring - start) * scale).T
            pairs = zip(x + left, height - MARGIN - y, strict=True)
            points[name] = " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)
        return cls(points, height)

    def draw(self, cells: Mapping[str, tuple[str, str]], title: str) -> str:
        """Return the map of a timeslot.

        Parameters
        ----------
        cells : mapping of str to pair of str
            Style class and description of each hexagon that has a number.
        title : str
        """
        shapes = [
            _shape(points, *cells.get(name, (ELSEWHERE, "")))
            for name, points in self.points.items()
        ]
        return (
            f'<svg viewBox="0 0 {WIDTH:.0f} {self.height:.0f}" role="img" '
            f'aria-label="{html.escape(title)}">{"".join(shapes)}</svg>'
        )


def _shape(points: str, style_class: str, description: str) -> str:
    polygon = f'<polygon points="{points}" class="{style_class}"/>'
    return f"<g><title>{html.escape(description)}</title>{polygon}</g>" if description else polygon
