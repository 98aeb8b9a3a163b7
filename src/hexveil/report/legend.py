"""The legend of the map: marks of the colour scale, and the colours of its swatches."""

from __future__ import annotations

from hexveil.report.palette import palette
from hexveil.report.payload import ticks


def marks(low: float, high: float, *, signed: bool = False) -> list[tuple[float, str]]:
    """Return round numbers on the colour scale, each with its place in per cent.

    Parameters
    ----------
    low, high : float
        Ends of the scale.
    signed : bool
        Whether positive numbers have a sign too, as changes have.

    Examples
    --------
    >>> marks(10, 30)
    [(0.0, '10'), (25.0, '15'), (50.0, '20'), (75.0, '25'), (100.0, '30')]
    """
    numbers = ticks(low, high)
    digits = max(len(f"{number:.9f}".rstrip("0").split(".")[1]) for number in numbers)

    def text(number: float) -> str:
        sign = "+" if signed and number else ""
        return f"{number:{sign},.{digits}f}".replace("-", "\u2212" if signed else "-")

    return [(round(100 * (number - low) / (high - low), 2), text(number)) for number in numbers]


def colour_rules() -> str:
    """Return the style rules of the swatches, for light pages and paper and for dark screens."""
    return _rules("light") + f"@media screen {{\n{_rules('dark', '[data-scheme=dark] ')}}}\n"


def _rules(mode: str, within: str = "") -> str:
    return "".join(
        f"{within}.steps.{grade.replace(' ', '-')} {{ background: {_steps(colours)}; }}\n"
        for grade, colours in palette(mode).items()
    )


def _steps(colours: list[str]) -> str:
    """Return classes of colour side by side, without a gradient between them."""
    if len(colours) == 1:
        return colours[0]
    share = 100 / len(colours)
    stops = [
        f"{colour} {number * share:g}% {(number + 1) * share:g}%"
        for number, colour in enumerate(colours)
    ]
    return f"linear-gradient(to right, {', '.join(stops)})"
