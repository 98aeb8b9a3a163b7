"""The figure of an evaluation: error against epsilon, a line per mechanism, with error bars."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.report.figure_style import (
    LETTER,
    RED,
    check_installed,
    images,
    logarithmic,
    looks,
    plain_axes,
    style,
)
from hexveil.simulation.own_cells import STAMP, is_private

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Line = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]

BAR = 1.96
"""Half an error bar, in standard errors: 95 percent."""
BARS = "bars: 95% interval of the simulation"
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
