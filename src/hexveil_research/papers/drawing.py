"""A study's figure: its panels side by side, ours heavier than the papers', references grey."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from hexveil.simulation.own_cells import STAMP
from hexveil_research import plot_style
from hexveil_research.papers.study import Line, Outcome, Panel
from hexveil_research.plot_style import RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
BLUE, VERMILION, GREEN, PURPLE, BLACK, SKY, ORANGE = range(7)
"""Places among the colours; the first two are ours in every figure."""
DASHES = (
    *plot_style.DASHES,
    *((0, pattern) for pattern in (
        (8, 2, 1, 1.5, 1, 2), (10, 3), (4, 1.5, 4, 1.5, 1, 1.5), (3, 3, 1, 3), (1, 3), (7, 1.2),
    )),
)  # fmt: skip
"""As many as there are markers: no two lines of a panel have the same."""
ALGORITHMS = {
    "Foresight": (BLUE, 0),
    "joint plan": (BLUE, 0),
    "exact cap": (BLUE, 0),
    "Auto": (VERMILION, 1),
    "exact, CLIP-USER": (VERMILION, 1),
    "exact, nothing cut": (GREEN, 8),
    "BASELINE": (BLACK, 2),
    "plain Laplace": (BLACK, 2),
    "cells counted": (BLACK, 2),
    "before": (BLACK, 2),
    "WRAPAROUND": (BLACK, 2),
    "ARRAY-AVERAGING": (GREEN, 3),
    "BESTFIT": (GREEN, 3),
    "OPT-ARRAY-AVERAGING": (GREEN, 7),
    "LEVY": (PURPLE, 4),
    "FIXEDQUANTILE": (SKY, 5),
    "OPTIMIZEDQUANTILE": (ORANGE, 6),
    "ε-DEPENDENTQUANTILE": (ORANGE, 6),
    "AKMV": (ORANGE, 6),
    "CLIP-USER": (ORANGE, 6),
    "CLIP-USER and caps": (ORANGE, 6),
    "optimal clipping": (PURPLE, 9),
    "OPT-worst-case": (PURPLE, 9),
}
"""Colour, and place among markers and dashes, that an algorithm has in every figure. What follows
its name after a comma tells forms of it apart: they share the colour."""
GREY = "0.45"


def images(title: str, outcome: Outcome, *, private: bool = False) -> dict[str, bytes]:
    """Return the figure of a study as "png" and "svg"; none for one without panels.

    A private one says so in red.
    """
    if not outcome.panels:
        return {}
    plot_style.check_installed()
    with plot_style.style():
        figure = draw(title, outcome)
        if private:
            stamp = textwrap.fill(STAMP, int(figure.get_figwidth() * TITLE))
            figure.suptitle(f"{stamp}\n{figure.get_suptitle()}", x=0.01, ha="left", color=RED)
        return plot_style.images(figure)


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
    legend = plot_style.LETTER * min(longest + len(OURS), NAME) + 0.8
    width = WIDTH * across + (legend if shared else 0)
    below = 0 if shared else 0.19 * max(len(panel.lines) for panel in panels)
    with plot_style.style():
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


def _looks(outcome: Outcome) -> dict[str, plot_style.Look]:
    """Return a look for each name, the same in all panels; ours have colours of their own."""
    colours, marks = _colours(outcome), _marks(outcome)
    return {
        name: plot_style.Look(
            plot_style.COLOURS[colour], plot_style.MARKERS[marks[name]], DASHES[marks[name]]
        )
        for name, colour in colours.items()
    }


def _drawn(panel: Panel) -> list[Line]:
    return [line for line in panel.lines if line.whose != "reference"]


def _algorithm(name: str) -> tuple[int, int] | None:
    """Return what `ALGORITHMS` has for a line's name, which may go on after a comma."""
    parts = name.split(", ")
    heads = (", ".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((ALGORITHMS[head] for head in heads if head in ALGORITHMS), None)


def _colours(outcome: Outcome) -> dict[str, int]:
    """Return the place of each name's colour; what has none yet never takes one of ours."""
    whose = {line.name: line.whose for panel in outcome.panels for line in _drawn(panel)}
    colours = {name: known[0] for name in whose if (known := _algorithm(name)) is not None}
    ours = [name for name, owner in whose.items() if owner == "ours" and name not in colours]
    everywhere = range(len(plot_style.COLOURS))
    free = [colour for colour in everywhere if colour not in colours.values()] or [*everywhere]
    colours |= dict(zip(ours[:RESERVED], free, strict=False))
    taken = {colours[name] for name, owner in whose.items() if owner == "ours" and name in colours}
    # The papers' other lines share the colours that are left, and differ in marker and dashes.
    left = [colour for colour in everywhere if colour > VERMILION and colour not in taken]
    left = [colour for colour in left if colour not in colours.values()] or left
    others = [name for name in whose if name not in colours]
    return colours | {name: left[place % len(left)] for place, name in enumerate(others)}


def _marks(outcome: Outcome) -> dict[str, int]:
    """Return the place of each name's marker and dashes; no two of a panel have the same."""
    marks: dict[str, int] = {}
    panels = [[line.name for line in _drawn(panel)] for panel in outcome.panels]
    names = dict.fromkeys(name for panel in panels for name in panel)
    # Algorithms by themselves first, so that their other forms make way for them.
    for name in sorted(names, key=lambda name: (name not in ALGORITHMS, _algorithm(name) is None)):
        beside = {other for panel in panels if name in panel for other in panel}
        taken = {marks[other] for other in beside if other in marks}
        known = _algorithm(name)
        wanted = 0 if known is None else known[1]
        places = [(wanted + step) % len(DASHES) for step in range(len(DASHES))]
        marks[name] = next((place for place in places if place not in taken), wanted)
    return marks


def _panel(axes: Axes, panel: Panel, looks: dict[str, plot_style.Look]) -> None:
    for line in panel.lines:
        if line.whose == "reference":
            axes.plot(line.x, line.y, color=GREY, linestyle=(0, (1, 1.5)), label=_label(line))
        else:
            _line(axes, line, looks[line.name])
    for side, log in (("x", panel.log_x), ("y", panel.log_y)):
        if log:
            plot_style.logarithmic(axes, side)
    # Errors and losses are compared by height, so their axis starts at 0.
    if not panel.log_y:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    plot_style.plain_axes(axes)
    axes.set_title(textwrap.fill(panel.title, int(WIDTH * TITLE)), loc="left", fontsize="medium")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)


def _line(axes: Axes, line: Line, look: plot_style.Look) -> None:
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
