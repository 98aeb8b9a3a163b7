"""What a map's colours let a reader conclude: right and wrong statements about pairs of cells.

Usage: python benchmarks/uncertainty_reading.py

Invented maps of 200 cells with Laplace noise, graded as releases are. A simulated reader looks at
pairs of cells and says which is higher wherever two colours differ by what people notice on
separate patches (a distance of 10 in CIELAB). Texture is taken to be overlooked: it is not in the
colour. Pixelation is read as the range of a cell's colours. This measures the encodings, not
people. The table is in docs/understand/decisions/007-the-page.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hexveil.report.palette import GROUNDS, gradient, palette

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CELLS, MAPS, NOTICED = 200, 60, 10.0
LOW, HIGH, SPREAD = 10.0, 40.0, 5.0
"""Ends of the colour scale; standard deviation of true averages around the middle."""
GOOD, CAUTION = 1.0, 1.75
"""Half widths of good cells and of cells with caution, in standard deviations."""


def lab(colours: list[str]) -> Floats:
    """Return CIELAB coordinates of colours, shape (n, 3)."""
    parts = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in colours]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = linear @ to_xyz.T / np.array([0.9505, 1.0, 1.089])
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = root.T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def share(value: Floats) -> Floats:
    """Return the place of a value on the colour scale, 0 to 1."""
    return np.asarray(np.clip((value - LOW) / (HIGH - LOW), 0, 1 - 1e-9))


CONTINUOUS = lab(gradient(256))


def plain(value: Floats, _: Floats) -> Floats:
    """One colour scale, whatever the uncertainty; hatching on top is overlooked."""
    seen: Floats = CONTINUOUS[(share(value) * 256).astype(int)]
    return seen


def faded(value: Floats, half: Floats) -> Floats:
    """Noise keeps a fifth of its colour, the rest all of it (with hatching), as pages had it."""
    ground = lab([GROUNDS["light"]])
    kept = np.where(half > CAUTION * SPREAD, 0.22, 1.0)[:, None]
    return kept * plain(value, half) + (1 - kept) * ground


def suppressing(value: Floats, half: Floats) -> Floats:
    """Eight classes, four paler ones, one grey: the page's palette."""
    colours = palette("light")
    good, caution, noise = (lab(colours[grade]) for grade in ("good", "caution", "noise"))
    seen = np.repeat(noise, value.size, axis=0)
    for table, chosen in (
        (good, half <= GOOD * SPREAD),
        (caution, (half > GOOD * SPREAD) & (half <= CAUTION * SPREAD)),
    ):
        seen[chosen] = table[(share(value) * len(table)).astype(int)][chosen]
    return seen


def by_colour(colour: Callable[[Floats, Floats], Floats]) -> Callable[[Floats, Floats], Floats]:
    """Return a reader who says which of two cells is higher where their colours differ.

    Across grades a reader compares with the legend: only cells that are not noise are compared.
    """

    def statements(value: Floats, half: Floats) -> Floats:
        seen = colour(value, half)
        away = np.sqrt(((seen[:, None] - seen[None, :]) ** 2).sum(axis=2))
        said = np.where(away >= NOTICED, np.sign(value[:, None] - value[None, :]), 0.0)
        if colour is suppressing:
            grey = half > CAUTION * SPREAD
            said[grey] = said[:, grey] = 0
            # Two classes of the coarser of both scales must differ.
            steps = np.where(half <= GOOD * SPREAD, 8, 4)
            coarse = np.minimum(steps[:, None], steps[None, :])
            place = np.floor(share(value)[:, None] * coarse)
            said[place == np.floor(share(value)[None, :] * coarse)] = 0
        return said

    return statements


def pixelated(value: Floats, half: Floats) -> Floats:
    """Return the statements of a reader of pixels, drawn from each interval."""
    low, high = value - half, value + half
    return (low[:, None] > high[None, :]).astype(float) - (high[:, None] < low[None, :])


READERS = {
    "one scale, hatching overlooked": by_colour(plain),
    "noise faded, hatching overlooked": by_colour(faded),
    "value-suppressing": by_colour(suppressing),
    "pixelation": pixelated,
}


def main() -> None:
    """Print for each encoding the share of pairs that are compared, and of wrong statements."""
    generator = np.random.default_rng(0)
    counts = {name: np.zeros(3) for name in READERS}
    for _ in range(MAPS):
        true = np.clip(generator.normal((LOW + HIGH) / 2, SPREAD, CELLS), LOW, HIGH)
        scale = SPREAD / math.log(20) * generator.choice([0.3, 0.8, 1.4, 3.0], CELLS)
        value, half = true + generator.laplace(size=CELLS) * scale, scale * math.log(20)
        truth = np.sign(true[:, None] - true[None, :])
        upper = np.triu(np.ones((CELLS, CELLS), bool), 1)
        for name, statements in READERS.items():
            said = statements(value, half)
            made = (said != 0) & upper
            counts[name] += [upper.sum(), made.sum(), (made & (said != truth)).sum()]
    print("| encoding | pairs compared | of these wrong |\n|---|---|---|")
    for name, (pairs, made, wrong) in counts.items():
        print(f"| {name} | {made / pairs:.0%} | {wrong / made:.1%} |")


if __name__ == "__main__":
    main()
