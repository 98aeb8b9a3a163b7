"""How figures look: colours, markers, dashes, axes; one figure as PNG and SVG.

Lines differ in colour, marker and dashes, so that grey print and colour-blind readers can tell
them apart. The colours are those of Okabe and Ito (2008) that show on white.

The figure of an evaluation: error against epsilon, a line per mechanism, with error bars.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import textwrap
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hexveil.base.errors import InputError
from hexveil.simulation.private_study_output import STAMP, is_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Line = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (2, 2)))
LETTER = 0.078
"""Width of a letter, in inches."""
RULE = "#DDDDDD"
FEW_DECADES = 2e3
"""Ratio of an axis's ends up to which 2 and 5 have ticks of their own."""


class Look(NamedTuple):
    """Colour, marker and dashes of a line."""

    colour: str
    marker: str
    dashes: Any


def looks() -> Iterator[Look]:
    """Yield looks for as many lines as are asked for; the first 385 differ in some way."""
    for look in zip(*map(itertools.cycle, (COLOURS, MARKERS, DASHES)), strict=False):
        yield Look(*look)


def check_installed() -> None:
    """Raise InputError if the library that draws is missing; nothing has been done then."""
    if find_spec("matplotlib") is None:
        raise InputError('a figure needs matplotlib: pip install "hexveil[plots]".')


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in one style, whatever the reader's settings; names are text, not formulas."""
    import matplotlib as mpl  # noqa: PLC0415  an extra, loaded where it draws

    with mpl.rc_context(), warnings.catch_warnings():
        # A reader's own settings must not change a figure: equal figures have equal bytes.
        mpl.rcdefaults()
        mpl.rcParams.update({"font.size": 9.0, "svg.hashsalt": "hexveil", "text.parse_math": False})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # drawn as a box
        yield


def images(figure: Figure) -> dict[str, bytes]:
    """Return a figure as "png" and "svg", without date and version: same figure, same bytes."""
    files = {}
    # Version and date in a file's metadata would make equal figures differ.
    for kind, about in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200, metadata=about)
        files[kind] = buffer.getvalue()
    return files


def plain_axes(axes: Axes) -> None:
    """Remove decoration, and draw a light rule under each tick."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, which="major", color=RULE, linewidth=0.6)


def logarithmic(axes: Axes, side: str) -> None:
    """Make the x or y axis logarithmic, with plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    (axes.set_xscale if side == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if side == "x" else axes.yaxis
    low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < FEW_DECADES * low else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
    axis.set_minor_formatter(NullFormatter())


BAR = 1.96
"""Half an error bar, in standard errors: 95 percent."""
BARS = "bars: 95% interval of the simulation"
RED = "#C00000"
FEW = 7
"""Values of epsilon up to which each has its own tick."""


def chart_images(table: pa.Table, *, title: str, value_unit: str = "") -> dict[str, bytes]:
    """Return the figure of an evaluation as "png" and "svg".

    Parameters
    ----------
    table : pyarrow.Table
        Of `evaluate`. If it is private, the image says so in red.
    title : str
        Public.
    value_unit : str
        Unit of measure of the error.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    check_installed()
    with style():
        return images(error_chart(table, title=title, value_unit=value_unit))


def error_chart(table: pa.Table, *, title: str, value_unit: str = "") -> Figure:
    """Return the figure: lines over epsilon, or one row per mechanism at a single epsilon."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    lines = _lines(table)
    single = all(epsilon.size == 1 for _, epsilon, _, _ in lines)
    # Names stand beside the axes: the longest decides how much room they need.
    width = 6.4 + LETTER * max(len(name) for name, _, _, _ in lines)
    height = max(4.2, 1.8 + 0.25 * len(lines))
    with style():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        label = "Mean absolute error" + (f" ({value_unit})" if value_unit else "")
        plain_axes(axes)
        (_rows if single else _curves)(axes, lines, label)
        axes.set_title(textwrap.fill(title, 64), loc="left", fontsize="medium")
        if is_private(table):
            figure.suptitle(STAMP, color=RED, fontweight="bold", x=0.01, ha="left")
    return figure


def _lines(table: pa.Table) -> list[Line]:
    """Return each mechanism's name, epsilons, errors and half bars, the largest error first."""
    names = np.asarray(table["mechanism"].to_pylist())
    columns = [table[name].to_numpy() for name in ("epsilon", "mae", "standard_error")]
    lines = []
    for name in dict.fromkeys(names.tolist()):
        epsilon, mae, error = (column[names == name] for column in columns)
        order = np.argsort(epsilon, kind="stable")
        lines.append((name, epsilon[order], mae[order], BAR * error[order]))
    # In the order in which lines lie above each other, so that the legend reads like the figure.
    return sorted(lines, key=lambda line: -float(line[2].mean()))


def _curves(axes: Axes, lines: list[Line], label: str) -> None:
    for (name, epsilon, mae, half), look in zip(lines, looks(), strict=False):
        axes.errorbar(
            epsilon, mae, yerr=half, label=name, color=look.colour, marker=look.marker,
            linestyle=look.dashes,
            markersize=5, markerfacecolor="white", linewidth=1.3, capsize=2, elinewidth=0.8,
        )  # fmt: skip
    losses = np.unique(np.concatenate([epsilon for _, epsilon, _, _ in lines]))
    _scale(axes, "x", losses)
    _scale(axes, "y", np.concatenate([mae for _, _, mae, _ in lines]))
    if losses.size <= FEW:
        axes.set_xticks(losses, [f"{loss:g}" for loss in losses])
        axes.set_xticks([], minor=True)
    axes.set_xlabel(f"Epsilon (privacy loss); {BARS}")
    axes.set_ylabel(label)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=4)


def _rows(axes: Axes, lines: list[Line], label: str) -> None:
    place = np.arange(len(lines))
    mae = np.array([line[2][0] for line in lines])
    half = np.array([line[3][0] for line in lines])
    axes.errorbar(mae, place, xerr=half, fmt="o", color="black", capsize=3, markersize=5)
    axes.set_yticks(place, [name for name, _, _, _ in lines])
    _scale(axes, "x", mae)
    axes.set_xlabel(f"{label} at epsilon {lines[0][1][0]:g}; {BARS}")
    axes.grid(visible=False, axis="y")


def _scale(axes: Axes, side: str, numbers: np.ndarray[Any, Any]) -> None:
    """Make an axis logarithmic where its numbers span more than a factor of three."""
    if numbers.min() > 0 and numbers.max() > 3 * numbers.min():
        logarithmic(axes, side)
