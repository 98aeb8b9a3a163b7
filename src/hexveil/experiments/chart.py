"""The figure of an evaluation: error against epsilon, a line per mechanism, with error bars.

Lines differ in colour, marker and dashes, so that grey print and colour-blind readers can tell
them apart. The colours are those of Okabe and Ito (2008) that show on white.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import textwrap
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.errors import InputError
from hexveil.experiments.own import STAMP, is_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Line = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (2, 2)))
BAR = 1.96
"""Half an error bar, in standard errors: 95 percent."""
BARS = "bars: 95% interval of the simulation"
LETTER = 0.078
"""Width of a letter, in inches."""
RED = "#C00000"
FEW = 7
"""Values of epsilon up to which each has its own tick."""


def check_installed() -> None:
    """Raise InputError if the library that draws is missing; nothing has been done then."""
    if find_spec("matplotlib") is None:
        raise InputError('a figure needs matplotlib: pip install "hexveil[plots]".')


def images(table: pa.Table, *, title: str, value_unit: str = "") -> dict[str, bytes]:
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
    found = {}
    with _style():
        figure = draw(table, title=title, value_unit=value_unit)
        # No date and no version: the same table gives the same bytes.
        for kind, about in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=200, metadata=about)
            found[kind] = buffer.getvalue()
    return found


def draw(table: pa.Table, *, title: str, value_unit: str = "") -> Figure:
    """Return the figure: lines over epsilon, or one row per mechanism at a single epsilon."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    lines = _lines(table)
    single = all(epsilon.size == 1 for _, epsilon, _, _ in lines)
    # Names stand beside the axes: the longest decides how much room they need.
    width = 6.4 + LETTER * max(len(name) for name, _, _, _ in lines)
    height = max(4.2, 1.8 + 0.25 * len(lines))
    with _style():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        label = "Mean absolute error" + (f" ({value_unit})" if value_unit else "")
        (_rows if single else _curves)(axes, lines, label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(textwrap.fill(title, 64), loc="left", fontsize="medium")
        if is_private(table):
            figure.suptitle(STAMP, color=RED, fontweight="bold", x=0.01, ha="left")
    return figure


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """Draw in one style, whatever the reader's settings; names are text, not formulas."""
    import matplotlib as mpl  # noqa: PLC0415  an extra

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update({"font.size": 9.0, "svg.hashsalt": "hexveil", "text.parse_math": False})
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # drawn as a box
        yield


def _lines(table: pa.Table) -> list[Line]:
    """Return each mechanism's name, epsilons, errors and half bars, the largest error first."""
    names = np.asarray(table["mechanism"].to_pylist())
    columns = [table[name].to_numpy() for name in ("epsilon", "mae", "standard_error")]
    lines = []
    for name in dict.fromkeys(names.tolist()):
        epsilon, mae, error = (column[names == name] for column in columns)
        order = np.argsort(epsilon, kind="stable")
        lines.append((name, epsilon[order], mae[order], BAR * error[order]))
    return sorted(lines, key=lambda line: -float(line[2].mean()))


def _curves(axes: Axes, lines: list[Line], label: str) -> None:
    looks = zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS), itertools.cycle(DASHES))
    for (name, epsilon, mae, half), (colour, marker, dashes) in zip(lines, looks, strict=False):
        axes.errorbar(
            epsilon, mae, yerr=half, label=name, color=colour, marker=marker, linestyle=dashes,
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
    axes.grid(visible=True, which="major", color="#DDDDDD", linewidth=0.6)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=4)


def _rows(axes: Axes, lines: list[Line], label: str) -> None:
    place = np.arange(len(lines))
    mae = np.array([line[2][0] for line in lines])
    half = np.array([line[3][0] for line in lines])
    axes.errorbar(mae, place, xerr=half, fmt="o", color="black", capsize=3, markersize=5)
    axes.set_yticks(place, [name for name, _, _, _ in lines])
    _scale(axes, "x", mae)
    axes.set_xlabel(f"{label} at epsilon {lines[0][1][0]:g}; {BARS}")
    axes.grid(visible=True, axis="x", color="#DDDDDD", linewidth=0.6)


def _scale(axes: Axes, side: str, numbers: np.ndarray[Any, Any]) -> None:
    """Make an axis logarithmic where its numbers span more than a factor of three."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axis = axes.xaxis if side == "x" else axes.yaxis
    if numbers.min() > 0 and numbers.max() > 3 * numbers.min():
        (axes.set_xscale if side == "x" else axes.set_yscale)("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        axis.set_minor_formatter(NullFormatter())
