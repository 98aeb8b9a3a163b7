"""The map as a Bokeh document without data: the page's script fills it, slot by slot.

Bokeh numbers its models by a counter of the process; they are renumbered here, so that equal
input gives an equal page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bokeh.core.properties import value
from bokeh.core.types import ID
from bokeh.embed import json_item
from bokeh.models import (
    ColumnDataSource,
    LinearColorMapper,
    PanTool,
    Range1d,
    WheelZoomTool,
)
from bokeh.models.annotations import ScaleBar
from bokeh.palettes import Viridis256
from bokeh.plotting import figure
from bokeh.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PALETTE: tuple[str, ...] = tuple(Viridis256)
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
GROUND, EMPTY, LINE, TEXT = "#f5f6f7", "#e9ebee", "#9aa3ad", "#5b6570"
# Pattern, ink, opacity and distance of lines, and the edge: light ink on dark colours and the
# other way round; pale noise gets a grey edge, because a white one would not be seen.
HATCHES = {
    "caution_dark": ("right_diagonal_line", "#ffffff", 0.5, 14, "#ffffff"),
    "caution_bright": ("right_diagonal_line", "#1b1f23", 0.4, 14, "#ffffff"),
    "cut_dark": ("horizontal_line", "#ffffff", 0.7, 9, "#ffffff"),
    "cut_bright": ("horizontal_line", "#1b1f23", 0.6, 9, "#ffffff"),
    "noise": ("diagonal_cross", "#4b535b", 0.6, 8, "#a9b0b7"),
}
FULL_TURN = 40_030_000.0  # metres around the earth: no scale bar for a continent


def scripts() -> str:
    """Return the text of the Bokeh library, to stand in the page itself."""
    bokeh = Resources(mode="inline", components=["bokeh"], log_level="error")
    return "\n".join(bokeh.js_raw)


def map_item(low: float, high: float, width: float) -> dict[str, Any]:
    """Return the map as the JSON that Bokeh's embedding takes.

    Parameters
    ----------
    low, high : float
        Ends of the colour scale, in value units.
    width : float
        Width of the data on the ground, in metres.
    """
    plot = figure(
        name="map",
        x_range=Range1d(start=-1, end=1),
        y_range=Range1d(start=-1, end=1),
        sizing_mode="stretch_both",
        toolbar_location=None,
        tools=[],
        min_border=0,
        outline_line_color=None,
        background_fill_color=GROUND,
        border_fill_color=GROUND,
    )
    plot.axis.visible = False
    plot.grid.visible = False
    wheel = WheelZoomTool()
    plot.add_tools(PanTool(), wheel)
    plot.toolbar.active_scroll = wheel
    _layers(plot, LinearColorMapper(palette=list(PALETTE), low=low, high=high))
    if width < FULL_TURN / 12:
        plot.add_layout(_scale_bar(plot))
    return _renumbered(json_item(plot, ID("map")))


def _layers(plot: Any, colours: LinearColorMapper) -> None:  # noqa: ANN401  bokeh has no types
    """Add the layers, lowest first; each reads a named source the script fills."""
    plot.multi_line("xs", "ys", source=_source("graticule", "xs", "ys"), line_color="#dde1e5")
    plot.text(
        "x", "y", "text", source=_source("degrees", "x", "y", "text", "align", "base"),
        text_align="align", text_baseline="base", text_color="#69727c",
        text_font=value(FONT), text_font_size="11px",
    )  # fmt: skip
    plot.patches(
        "xs", "ys", source=_source("empty", "xs", "ys"),
        fill_color=EMPTY, line_color="#d3d8dd", line_width=0.6,
    )  # fmt: skip
    plot.multi_line(
        "xs", "ys", source=_source("context", "xs", "ys"), line_color=LINE, line_width=0.8
    )
    plot.scatter("x", "y", source=_source("points", "x", "y"), size=3, color=LINE)
    plot.patches(
        "xs", "ys", source=_source("cells", "xs", "ys", "value", "alpha"),
        fill_color={"field": "value", "transform": colours}, fill_alpha="alpha",
        line_color="#ffffff", line_width=0.8,
    )  # fmt: skip
    # One layer per hatching: a pattern that differs by row is drawn anew for every hexagon.
    for name, (pattern, ink, alpha, gap, edge) in HATCHES.items():
        plot.patches(
            "xs", "ys", source=_source(name, "xs", "ys"),
            fill_alpha=0, line_color=edge, line_width=0.8,
            hatch_pattern=pattern, hatch_color=ink, hatch_alpha=alpha, hatch_scale=gap,
        )  # fmt: skip
    # The same lines once more, thinly, so that roads stay visible through the hexagons.
    plot.multi_line(
        "xs", "ys", source=_source("context_above", "xs", "ys"),
        line_color="#ffffff", line_width=0.8, line_alpha=0.35,
    )  # fmt: skip
    plot.patches(
        "xs", "ys", source=_source("hovered", "xs", "ys"),
        fill_alpha=0, line_color="#1b1f23", line_width=1.6,
    )  # fmt: skip
    plot.patches(
        "xs", "ys", source=_source("chosen", "xs", "ys"),
        fill_alpha=0, line_color="#c2410c", line_width=3,
    )  # fmt: skip


def _source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource(data={column: [] for column in columns}, name=name)


def _scale_bar(plot: Any) -> ScaleBar:  # noqa: ANN401  bokeh has no types
    return ScaleBar(
        range=plot.x_range, unit="m", location="bottom_right", bar_length=0.1, margin=8, padding=6,
        background_fill_color="#ffffff", background_fill_alpha=0.8, border_line_color=None,
        bar_line_color=TEXT, bar_line_width=1.5, label_text_color=TEXT, label_text_font=FONT,
        label_text_font_size="11px", label_standoff=4,
    )  # fmt: skip


def _renumbered(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item with its ids counted from one, in order of appearance."""
    fresh: dict[str, str] = {}

    def walk(value: Any) -> Any:  # noqa: ANN401  any JSON
        if isinstance(value, dict):
            return {
                key: fresh.setdefault(inner, f"h{len(fresh) + 1}")
                if key in ("id", "root_id") and isinstance(inner, str)
                else walk(inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [walk(inner) for inner in value]
        return value

    return {str(key): walk(content) for key, content in item.items()} | {
        "root_id": fresh.setdefault(item["root_id"], f"h{len(fresh) + 1}")
    }


def gradient(stops: int = 24) -> list[str]:
    """Return colours of the scale from low to high, for the bar of the legend."""
    n_intervals = len(PALETTE) - 1
    indexes: Sequence[int] = [round(i * n_intervals / (stops - 1)) for i in range(stops)]
    return [PALETTE[i] for i in indexes]
