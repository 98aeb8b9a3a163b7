"""The gallery's picture of distributions: both privacy models, of the same invented buses.

A row for each model: a map of the 85th percentile, a map of the share of slow readings, and the
histogram of one hexagon with its intervals and the true shares, which an invented city has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hexveil as hv
from hexveil.base import hexagons
from hexveil.base.arrays import Floats
from hexveil.model.areas import Polygon
from hexveil.model.statistic_terms import Histogram, column_names
from hexveil.report import figure_style
from hexveil.report.payload import ticks
from hexveil_research import plot_style
from hexveil_research.pictures import maps, releases
from hexveil_research.pictures.gallery_settings import BUSES, CITY, SLOT, Picture
from hexveil_research.pictures.svg_files import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PICTURE = Picture("gallery-distributions", ())
STATISTICS = ("p50", "p85", "share<10", "histogram")
SCALES = {"p85": (20.0, 60.0), "share_below_10": (0.0, 0.5)}
"""Columns that are mapped, and the ends of their colours."""
TITLES = {"p85": "85th percentile, km/h", "share_below_10": "Share of readings below 10 km/h"}
BOX = (74.77, 21.12, 75.02, 21.30)
DATES, BOUNDS, ZONE = ("2024-01-01", "2024-01-28"), (0, 65), "Asia/Kolkata"
FLEET = hv.FleetDeclaration(300 * 28, records_per_unit=100, cells_per_unit=10)
"""Declared: a bus on a day is a unit."""
TRUTH, BAR, ENDS = "#222222", "#8fb3cc", "#4a6f8a"
WIDTH, HEIGHT = 9.0, 6.6
"""Inches."""


@dataclass(frozen=True, eq=False)
class Content:
    """A row of the picture: its title and a release."""

    title: str
    release: hv.Release

    @property
    def table(self) -> pa.Table:
        """The cells of the slot that is shown, without closed ones."""
        table = self.release.table.filter(pc.field("slot") == SLOT)
        return table.filter(pc.field("is_open")) if "is_open" in table.column_names else table

    def column(self, name: str) -> Floats:
        """Return the estimates of a statistic: columns have another name in each model."""
        own = f"{name}_estimate" if f"{name}_estimate" in self.table.column_names else name
        return np.asarray(self.table[own].to_numpy(), dtype=np.float64)


def make(out: Path, work: Path) -> None:
    """Write the picture into a folder; records and ledgers go to another."""
    releases.prepare_city(work, CITY, BUSES)
    records = work / "city.parquet"
    contents = released(records, work)
    public = contents[0].table
    busiest = public["hexagon"].to_pylist()[int(np.argmax(public["users"].to_numpy()))]
    streets = json.loads((work / "streets.geojson").read_text("utf-8"))
    figure = draw(contents, busiest, true_histogram(records, busiest), streets)
    save(figure, out / f"{PICTURE.name}.svg")


def released(records: Path, work: Path) -> list[Content]:
    """Return the slot of a release under each model."""
    named: dict[str, Any] = {
        "user": "license_plate",
        "value": "speed",
        "bounds": BOUNDS,
        "quantum": "0.1",
        "location": "location.coordinates",
        "time": "observationDateTime",
        "privacy_unit": "user-day",
        "statistics": STATISTICS,
    }
    grid = hv.Cells(7, "6h", ZONE, "pooled")
    public = hv.read(records, **named, cells=grid, select=hv.Select(min_users=800))
    ledger = hv.Ledger(work / "distributions.sqlite", dataset="values", budget=1)
    plan = hv.plan(public, epsilon=1, statistics=STATISTICS)
    values = hv.release(public, plan, ledger=ledger, accept_noise=True)
    area = replace(grid, area=Polygon.of_box(*BOX))
    dated = hv.Select(dates=DATES)
    private = hv.read(records, **named, cells=area, select=dated, protect="presence")
    ledger = hv.Ledger(work / "distributions.sqlite", dataset="presence", budget=1)
    declared = hv.plan(private, epsilon=1, fleet=FLEET, statistics=STATISTICS)
    presence = hv.release(private, declared, ledger=ledger, accept_noise=True)
    return [Content("Values are private", values), Content("Presence is private too", presence)]


def true_histogram(records: Path, hexagon: str) -> Floats:
    """Return the true share of each bin in a hexagon, in the slot that is shown."""
    table = pq.read_table(records, columns=["observationDateTime", "location", "speed"])
    place = np.array(pc.list_flatten(pc.struct_field(table["location"], "coordinates")))
    east, north = (pa.array(place.reshape(-1, 2)[:, k]) for k in (0, 1))
    at = hexagons.of_places(north, east, 7)
    begins = int(SLOT[:2])
    hour = pc.hour(pc.local_timestamp(table["observationDateTime"])).to_numpy()
    is_there = (at.to_numpy() == int(hexagon, 16)) & (hour // 6 == begins // 6)
    speed = np.clip(table["speed"].to_numpy()[is_there], *BOUNDS)
    bins = len(column_names(Histogram()))
    # A value on an end counts in the bin below it.
    counts = np.histogram(-speed, np.linspace(-BOUNDS[1], -BOUNDS[0], bins + 1))[0][::-1]
    return np.asarray(counts / counts.sum())


def draw(
    contents: Sequence[Content], hexagon: str, true: Floats, streets: Mapping[str, Any]
) -> Figure:
    """Return the picture: a row for each model, with one scale for each column of maps."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    with plot_style.style():
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        panels = figure.subplots(len(contents), len(SCALES) + 1, squeeze=False)
        panels[0, -1].sharey(panels[-1, -1])
        for row, content in zip(panels, contents, strict=True):
            for axes, name in zip(row, SCALES, strict=False):
                _map(axes, content, name, streets)
            row[0].set_ylabel(content.title, fontsize=maps.SIZE + 1)
            _bars(row[-1], content, hexagon, true)
        for axes, name in zip(panels.T, SCALES, strict=False):
            axes[0].set_title(TITLES[name], fontsize=maps.SIZE)
            bar = figure.colorbar(
                figure_style.colour_scale(SCALES[name]),
                ax=list(axes),
                location="bottom",
                aspect=30,
                pad=0.02,
                ticks=ticks(*SCALES[name]),
            )
            bar.minorticks_off()
            bar.ax.tick_params(labelsize=maps.SIZE - 1)
        panels[0, -1].set_title("Share in each bin, one hexagon", fontsize=maps.SIZE)
        panels[-1, -1].set_xlabel("Speed, km/h", fontsize=maps.SIZE)
        panels[-1, -1].legend(frameon=False, fontsize=maps.SIZE - 1)
    return figure


def _map(axes: Axes, content: Content, name: str, streets: Mapping[str, Any]) -> None:
    places = [int(one, 16) for one in content.table["hexagon"].to_pylist()]
    figure_style.add_hexagons(
        axes,
        [hexagons.outline(place) for place in places],
        values=content.column(name),
        grades=content.table[f"{name}_quality"].to_pylist(),
        scale=SCALES[name],
        lies_above=np.zeros(len(places), dtype=bool),
    )
    maps.lay_ground(axes, places, streets)


def _bars(axes: Axes, content: Content, hexagon: str, true: Floats) -> None:
    """Draw the bins of one hexagon with their intervals, and the true shares beside them."""
    width = (BOUNDS[1] - BOUNDS[0]) / true.size
    at = BOUNDS[0] + width * (np.arange(true.size) + 0.5)
    row = content.table.filter(pc.field("hexagon") == hexagon)
    names = column_names(Histogram())
    # Estimates have a name of their own where values alone are private.
    own = "" if names[0] in row.column_names else "_estimate"
    share, low, high = (
        np.array([row[f"{name}{end}"][0].as_py() for name in names])
        for end in (own, "_low", "_high")
    )
    axes.bar(at, share, 0.9 * width, color=BAR, label="released")
    around = np.maximum([share - low, high - share], 0.0)
    axes.errorbar(at, share, around, fmt="none", ecolor=ENDS, label="95% interval")
    axes.set(xlim=BOUNDS, ylim=(0.0, None))
    axes.plot(at, true, "o", color=TRUTH, markersize=3.5, label="true")
    axes.set(title="", xlabel="", ylabel="")
    axes.tick_params(labelsize=maps.SIZE - 1)
