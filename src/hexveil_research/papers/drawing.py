"""A study's figure: its panels side by side, ours heavier than the papers', references grey."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

from hexveil.simulation import figure_style
from hexveil.simulation.error_chart import RED
from hexveil.simulation.private_study_output import STAMP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hexveil_research.papers.study import Line, Outcome, Panel

WIDTH, HEIGHT = 4.3, 3.7
"""Of a panel, in inches."""
ACROSS = 3
"""Panels of a row, at most."""
TITLE = 11
"""Letters of a title to an inch."""
NAME = 36
"""Letters of a line's name in the legend before it is broken."""
MANY = 24
"""Points above which a line has a band instead of bars, and fewer markers than points."""
RESERVED = 4
"""Lines of ours with a colour of their own, at most."""
OURS = "hexveil: "
GREY = "0.45"


def images(title: str, outcome: Outcome, *, private: bool = False) -> dict[str, bytes]:
    """Return the figure of a study as "png" and "svg"; none for one without panels.

    A private one says so in red.
    """
    if not outcome.panels:
        return {}
    figure_style.check_installed()
    with figure_style.style():
        figure = draw(title, outcome)
        if private:
            stamp = textwrap.fill(STAMP, int(figure.get_figwidth() * TITLE))
            figure.suptitle(f"{stamp}\n{figure.get_suptitle()}", x=0.01, ha="left", color=RED)
        return figure_style.images(figure)


def draw(title: str, outcome: Outcome) -> Figure:
    """Return the figure: a row of panels, one legend for all where their lines have one name."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    panels = outcome.panels
    # Four panels fill a square; three and a lone fourth would not.
    across = 2 if len(panels) == 4 else min(len(panels), ACROSS)
    down = -(-len(panels) // across)
    shared = len({_names(panel) for panel in panels}) == 1
    longest = max((len(name) for panel in panels for name in _names(panel)), default=0)
    # The figure's size is fixed before the legend is laid out, so its width is estimated.
    legend = figure_style.LETTER * min(longest + len(OURS), NAME) + 0.8
    width = WIDTH * across + (legend if shared else 0)
    below = 0 if shared else 0.19 * max(len(panel.lines) for panel in panels)
    with figure_style.style():
        figure = Figure(figsize=(width, 0.6 + down * (HEIGHT + below)), layout="constrained")
        grid = list(figure.subplots(down, across, squeeze=False).flat)
        looks = _looks(outcome)
        for panel, axes in zip(panels, grid, strict=False):
            _panel(axes, panel, looks)
            if not shared:
                axes.legend(loc="upper left", bbox_to_anchor=(0, -0.17), **LEGEND)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        if shared:
            handles, names = figure.axes[0].get_legend_handles_labels()
            figure.legend(handles, names, loc="outside right center", **LEGEND)
        figure.suptitle(
            textwrap.fill(title, int(width * TITLE)), x=0.01, ha="left", fontsize="large"
        )
        _caption(figure, outcome)
    return figure


LEGEND = {"frameon": False, "handlelength": 3.5, "borderaxespad": 0.2}


def _names(panel: Panel) -> tuple[str, ...]:
    return tuple(line.name for line in panel.lines)


def _looks(outcome: Outcome) -> dict[str, figure_style.Look]:
    """Return a look for each name, the same in all panels; ours have colours of their own."""
    drawn = [line for panel in outcome.panels for line in panel.lines if line.whose != "reference"]
    looks = dict(
        zip(dict.fromkeys(line.name for line in drawn), figure_style.looks(), strict=False)
    )
    ours = list(dict.fromkeys(line.name for line in drawn if line.whose == "ours"))[:RESERVED]
    theirs = [name for name in looks if name not in ours]
    # The papers' lines share the colours that are not ours, and differ in marker and dashes.
    shared = itertools.cycle(figure_style.COLOURS[len(ours) :])
    colours = [*zip(ours, figure_style.COLOURS, strict=False), *zip(theirs, shared, strict=False)]
    return {name: looks[name]._replace(colour=colour) for name, colour in colours}


def _panel(axes: Axes, panel: Panel, looks: dict[str, figure_style.Look]) -> None:
    for line in panel.lines:
        if line.whose == "reference":
            axes.plot(line.x, line.y, color=GREY, linestyle=(0, (1, 1.5)), label=_label(line))
        else:
            _line(axes, line, looks[line.name])
    for side, log in (("x", panel.log_x), ("y", panel.log_y)):
        if log:
            figure_style.logarithmic(axes, side)
    # Errors and losses are compared by height, so their axis starts at 0.
    if not panel.log_y:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    figure_style.plain_axes(axes)
    axes.set_title(textwrap.fill(panel.title, int(WIDTH * TITLE)), loc="left", fontsize="medium")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)


def _line(axes: Axes, line: Line, look: figure_style.Look) -> None:
    ours, many = line.whose == "ours", line.x.size > MANY
    axes.plot(
        line.x, line.y, label=_label(line), color=look.colour,
        drawstyle="steps-post" if line.look == "steps" else "default",
        linestyle="none" if line.look == "points" else look.dashes,
        linewidth=2.2 if ours else 1.2,
        marker="none" if line.look == "steps" else look.marker,
        markersize=5.5 if ours else 4.5,
        markerfacecolor=look.colour if ours else "white",
        markevery=max(1, line.x.size // 12) if many else 1,
    )  # fmt: skip
    if line.low is None or line.high is None:
        return
    if many:
        axes.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.18, linewidth=0)
        return
    down, up = (line.y - line.low).clip(0), (line.high - line.y).clip(0)
    axes.errorbar(
        line.x, line.y, yerr=(down, up), fmt="none", ecolor=look.colour, capsize=2, elinewidth=0.8
    )


def _label(line: Line) -> str:
    name = OURS + line.name if line.whose == "ours" else line.name
    return textwrap.fill(name, NAME)


def _caption(figure: Figure, outcome: Outcome) -> None:
    ends = dict.fromkeys(panel.ends for panel in outcome.panels if panel.ends)
    if ends:
        text = "Bars or bands: " + "; ".join(ends) + "."
        figure.supxlabel(text, x=0.01, ha="left", fontsize="small", color="0.35")
