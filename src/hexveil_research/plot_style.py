"""How figures look: colours, markers, dashes, axes; one figure as PNG and SVG.

Lines differ in colour, marker and dashes, so that grey print and colour-blind readers can tell
them apart. The colours are those of Okabe and Ito (2008) that show on white.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hexveil.base.optional_packages import require_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (2, 2)))
LETTER = 0.078
"""Width of a letter, in inches."""
RULE, RED = "#DDDDDD", "#C00000"
FEW_DECADES = 2e3
"""Ratio of an axis's ends up to which 2 and 5 have ticks of their own."""


class Look(NamedTuple):
    """Colour, marker and dashes of a line."""

    colour: str
    marker: str
    dashes: Any


def check_installed() -> None:
    """Raise InputError if the library that draws is missing; nothing has been done then."""
    require_package("matplotlib", "plots")


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
