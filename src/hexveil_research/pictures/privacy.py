"""Pictures of user-level privacy: neighbours, beliefs, units, many cells, clipping, pseudo-users.

Every number that is drawn comes from the package's own functions, on the counts in `example_fleet`.

A small invented fleet for the pictures of privacy: who reported how often in which cell.

Counts only, since everything that is drawn of it follows from counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hexveil import Occupancy
from hexveil.accounting.bias import midpoint_mean_bias
from hexveil.accounting.privacy_loss import privacy_loss
from hexveil.accounting.pseudo_users import best_fit
from hexveil.accounting.sensitivity import user_midpoint_mean_sensitivity
from hexveil.base.arrays import Floats
from hexveil.mechanisms import ArrayAveraging, Baseline
from hexveil.planning.api import plan
from hexveil.planning.plan import Plan
from hexveil_research import plot_style
from hexveil_research.pictures.svg_files import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SIZE = 11.0
"""Of letters: a picture is shown at two thirds of its width on a phone."""
BLUE, RED, GREEN, PINK, BLACK, SKY, ORANGE = plot_style.COLOURS
GREY = "#b8bec6"


def make(out: Path, names: Sequence[str]) -> None:
    """Write the named pictures into a folder."""
    for name in names:
        with plot_style.style():
            figure = PICTURES[name]()
        save(figure, out / f"{name}.svg")


def _figure(height: float, across: int = 1) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of the pictures' width, and its axes side by side."""
    import matplotlib as mpl  # noqa: PLC0415  an extra, loaded where it draws
    from matplotlib.figure import Figure  # noqa: PLC0415  as above

    mpl.rcParams.update({"font.size": SIZE})
    figure = Figure(figsize=(5.8, height), layout="constrained")
    return figure, list(figure.subplots(1, across, squeeze=False).flat)


def _style_axes(axes: Axes) -> None:
    """Draw axes in the project's style, with rules behind the bars."""
    plot_style.plain_axes(axes)
    axes.set_axisbelow(True)


def neighbours() -> Figure:
    """Return two data sets that differ in all values of one bus, and in nothing else."""
    rng = np.random.default_rng(3)
    buses, cells, changed = "ABCDE", ("1", "2", "3", "4"), 2
    counts = rng.integers(0, 4, (len(buses), len(cells)))
    counts[changed] = (2, 3, 1, 2)
    figure, panels = _figure(3.5, 2)
    values = {(b, c): rng.uniform(5, 60, n) for (b, c), n in np.ndenumerate(counts)}
    for axes, title in zip(panels, ("One data set", "A neighbour of it"), strict=True):
        # Only the values of bus C change: who reported how often is public, and stays.
        if axes is panels[1]:
            fresh = {key: rng.uniform(5, 60, v.size) for key, v in values.items()}
            values |= {key: v for key, v in fresh.items() if key[0] == changed}
        for (bus, cell), speeds in values.items():
            x = cell + (np.arange(speeds.size) - (speeds.size - 1) / 2) * 0.26
            points = axes.scatter(
                x, np.full(speeds.size, bus), c=speeds, vmin=0, vmax=65, cmap="viridis", s=42
            )
        axes.set(xlim=(-0.6, len(cells) - 0.4), ylim=(len(buses) - 0.5, -0.5))
        axes.axhspan(changed - 0.45, changed + 0.45, facecolor="none", edgecolor=RED, linewidth=1.6)
        axes.set_xticks(range(len(cells)), cells)
        axes.set_yticks(range(len(buses)), buses)
        axes.set_title(title, fontsize=SIZE + 1)
        axes.set_xlabel("cell")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    panels[0].set_ylabel("bus")
    bar = figure.colorbar(points, ax=panels, location="bottom", aspect=40, shrink=0.8)
    bar.set_label("speed of a record, km/h")
    bar.outline.set_visible(False)
    return figure


def belief(prior: Floats, epsilon: float) -> Floats:
    """Return the most that an insider can be believed after a release, as a probability.

    The insider knows the values of all other buses. Then the chances of two possibilities for one
    bus change, one against the other, by a factor of at most e^ε.

    Examples
    --------
    >>> belief(np.array([0.5]), 1.0).round(3).tolist()
    [0.731]
    """
    return np.asarray(1 / (1 + math.exp(-epsilon) * (1 - prior) / prior), dtype=np.float64)


def beliefs() -> Figure:
    """Return an insider's belief after a release against its belief before."""
    figure, (axes,) = _figure(4.2)
    prior = np.linspace(0.001, 0.999, 200)
    for epsilon, colour in ((5.0, "#dbe7f3"), (3.0, "#b3cfe6"), (1.0, "#6fa3cf"), (0.3, BLUE)):
        upper, lower = belief(prior, epsilon), belief(prior, -epsilon)
        axes.fill_between(prior, lower, upper, color=colour, linewidth=0)
        axes.plot([], [], color=colour, linewidth=9, label=f"ε = {epsilon:g}")
    axes.plot(prior, prior, color=BLACK, linewidth=1)
    top = float(belief(np.array([0.5]), 1.0)[0])
    # Rounded up: the picture must not promise more than the guarantee.
    percent = math.ceil(1000 * top) / 10
    axes.annotate(
        f"50 % becomes at\nmost {percent:.1f} % at ε = 1",
        (0.5, top), xytext=(0.56, 0.2), arrowprops={"arrowstyle": "-", "color": BLACK},
    )  # fmt: skip
    plot_style.plain_axes(axes)
    ticks = np.linspace(0, 1, 6)
    axes.set_xticks(ticks, [f"{100 * t:.0f} %" for t in ticks])
    axes.set_yticks(ticks, [f"{100 * t:.0f} %" for t in ticks])
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="believed before, knowing all other buses",
        ylabel="can be believed after",
    )
    axes.legend(loc="upper left", frameon=False, handlelength=1.0)
    return figure


def record_or_user() -> Figure:
    """Return each bus's loss where noise hides one record, and where it hides a bus."""
    occupancy = fleet()
    per_record = SPAN / occupancy.records_per_cell  # hides one record at ε = 1
    record = np.sort(privacy_loss(occupancy, per_record, None, SPAN))
    user = np.sort(planned().losses())
    figure, (axes,) = _figure(3.9)
    rank = np.arange(1, record.size + 1)
    axes.plot(rank, record, color=RED, linewidth=2.2, linestyle=(0, (5, 2)))
    axes.plot(rank, user, color=BLUE, linewidth=2.2)
    axes.set_yscale("log")
    ticks = [0.01, 0.1, 1, 10, 100, 1000]
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_ylim(min(float(user[0]), 0.01) / 1.5, float(record[-1]) * 2)
    axes.text(55, float(record[55]) * 2.2, "noise that hides a record", color=RED, ha="center")
    axes.text(75, float(user[75]) * 0.3, "noise that hides a bus", color=BLUE, ha="center")
    plot_style.plain_axes(axes)
    axes.set(xlabel="buses, the least exposed first", ylabel="loss of a bus, ε")
    return figure


def many_cells() -> Figure:
    """Return the losses of three buses, cell by cell, and the bound by counting cells."""
    occupancy, joint_plan = fleet(), planned()
    visited = occupancy.cells_per_user
    drawn_buses = [int(np.flatnonzero(visited == n)[0]) for n in (1, 4, int(visited.max()))]
    figure, (axes,) = _figure(3.4)
    colours = [BLUE, SKY]
    for row, bus in enumerate(drawn_buses):
        mine = np.flatnonzero(occupancy.user == bus)
        losses = joint_plan.allocation.pair_losses(joint_plan.problem)[mine]
        starts = np.cumsum(losses) - losses
        for place, (start, loss) in enumerate(zip(starts, losses, strict=True)):
            axes.barh(row, loss, left=start, color=colours[place % 2], height=0.5)
        records = int(occupancy.n[mine].sum())
        text = f"{mine.size} cell{'s' * (mine.size > 1)}, {records} records: {losses.sum():.2f}"
        axes.text(0.0, row + 0.38, text, va="center")
    axes.axvline(1.0, color=RED, linestyle=(0, (5, 2)), linewidth=1.4)
    axes.text(0.98, 0.0, "asked: at most 1", color=RED, ha="right", va="center")
    axes.set(xlim=(0, 1.12), ylim=(-0.5, 2.7), yticks=range(3), xlabel="loss, ε")
    axes.set_yticklabels(["bus K", "bus L", "bus M"])
    _style_axes(axes)
    axes.grid(visible=False, axis="y")
    return figure


def clipping() -> Figure:
    """Return the records of a cell's buses with their caps, and the error for each limit."""
    counts = np.array(ONE_CELL)
    limits = np.arange(1, counts.max() + 1)
    bias = np.array([midpoint_mean_bias(np.minimum(counts, t), counts, SPAN) for t in limits])
    capped = [np.minimum(counts, t) for t in limits]
    noise = np.array([user_midpoint_mean_sensitivity(k, counts, SPAN).max() for k in capped])
    best = int(np.argmin(bias + noise))
    figure, (count_axes, error_axes) = _figure(3.7, 2)
    count_axes.bar(range(counts.size), counts, color=GREY, width=0.75, label="cut off")
    count_axes.bar(range(counts.size), capped[best], color=BLUE, width=0.75, label="kept")
    count_axes.axhline(limits[best], color=BLACK, linewidth=1)
    count_axes.set(xlabel="buses of one cell", ylabel="records", xticks=[])
    error_axes.plot(limits, noise, color=RED, linestyle=(0, (5, 2)), label="noise")
    error_axes.plot(
        limits, bias, color=GREEN, linestyle=(0, (1, 1.5)), label="worst bias", linewidth=2
    )
    error_axes.plot(limits, bias + noise, color=BLUE, linewidth=2.2, label="together")
    error_axes.plot(limits[best], (bias + noise)[best], "o", color=BLUE)
    error_axes.set(xlabel="kept of a bus at most", ylabel="km/h", ylim=(0, None))
    for axes in (count_axes, error_axes):
        _style_axes(axes)
        axes.legend(frameon=False, handlelength=1.6, fontsize=SIZE - 1)
    return figure


def pseudo_users() -> Figure:
    """Return the records of a cell's buses as they are, and put into arrays of one length."""
    counts = ONE_CELL
    averaging = ArrayAveraging(grouping="best_fit", cap=6).plan(counts, bounds=(0, SPAN), epsilon=1)
    baseline = Baseline().plan(counts, bounds=(0, SPAN), epsilon=1)
    # The same cap as in the plan above, so that the arrays drawn are those of its noise.
    groups = best_fit(counts, 6)
    figure, (user_axes, array_axes) = _figure(4.0, 2)
    colours = [
        *plot_style.COLOURS[:4],
        *plot_style.COLOURS[5:],
        "#8c6d31",
        "#7f7f7f",
        "#bcbd22",
        "#393b79",
    ]
    for bus, count in enumerate(counts):
        user_axes.barh(bus, count, color=colours[bus], height=0.8)
    filled = np.zeros(groups.n_arrays)
    for user, array, size in zip(
        groups.piece_user, groups.piece_array, groups.piece_size, strict=True
    ):
        array_axes.barh(
            array, size, left=filled[array], color=colours[user], height=0.8, edgecolor="white"
        )
        filled[array] += size
    user_axes.set_title(
        f"{len(counts)} buses: noise {baseline.noise_scale:.0f} km/h", fontsize=SIZE
    )
    array_axes.set_title(
        f"{groups.n_arrays} pseudo-users: {averaging.noise_scale:.0f} km/h", fontsize=SIZE
    )
    for axes in (user_axes, array_axes):
        axes.invert_yaxis()
        axes.set(yticks=[], xlabel="records")
        _style_axes(axes)
        axes.grid(visible=False, axis="y")
    array_axes.set_xlim(user_axes.get_xlim())
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "privacy-neighbours": neighbours,
    "privacy-belief": beliefs,
    "privacy-units": record_or_user,
    "privacy-cells": many_cells,
    "privacy-clipping": clipping,
    "privacy-pseudo-users": pseudo_users,
}
NAMES = tuple(PICTURES)


BUSES, CELLS = 120, 12
SPAN = 65.0
"""Width of the bounds, in km/h."""
ONE_CELL = (30, 14, 13, 6, 5, 4, 3, 2, 2, 1)
"""Records per bus in one cell."""


@functools.cache
def fleet() -> Occupancy:
    """Return the records of each bus in each cell: some buses are in all cells, many in a few."""
    rng = np.random.default_rng(9)
    busy = rng.lognormal(1.0, 0.9, BUSES)
    present = rng.random((CELLS, BUSES)) < np.minimum(0.9, busy / 6)
    # Every bus is in one cell at least.
    present[rng.integers(0, CELLS, BUSES), np.arange(BUSES)] = True
    return Occupancy.from_dense(np.where(present, rng.poisson(3 * busy, present.shape) + 1, 0).T)


@functools.cache
def planned() -> Plan:
    """Return the joint plan of the fleet at ε = 1."""
    return plan(fleet(), epsilon=1, bounds=(0, SPAN), advise=False)
