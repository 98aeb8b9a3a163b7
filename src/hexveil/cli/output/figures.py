"""Figures: price against error of a plan, and the errors of an evaluation.

That of a plan, which is marked, uses public metadata only. The curve has the plan's own objective.
With targets for several statistics the error is relative to the targets, and the price is that of
all targets scaled by one factor.
"""

from __future__ import annotations

import contextlib
import textwrap
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.base.rational import to_fraction
from hexveil.base.work_share import parts_of_work
from hexveil.cli.output import formatting
from hexveil.planning.comparison import alternative
from hexveil.planning.distribution_component import USELESS_ERROR
from hexveil.publishing.components import column_prefixes
from hexveil.report import figure_style
from hexveil.simulation.own_cells import STAMP, is_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hexveil.planning.distribution_component import DistributionComponent
    from hexveil.planning.moment_component import MomentComponent
    from hexveil.planning.plan import Plan
    from hexveil.planning.presence.presence_plan import PresenceComponent

    Points = list[tuple[float, float]]
    Line = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]

AROUND = 30.0
"""The curve spans prices from the plan's divided by this to the plan's times this."""
DRAWING = "Drawing the curve"
"""Name of this work, of which parts are told."""
POINTS = 17
SHARE_POINTS = 7
"""Points of a curve of shares: each is a plan."""
KINDS, USERS = ("png", "svg"), "numbers of units"
BAR = 1.96
"""Half an error bar, in standard errors: 95 percent."""
BARS = "bars: 95% interval of the simulation"
FEW = 7
"""Values of epsilon up to which each has its own tick."""
CONSTANT = "one number for all cells (assumed)"
_FORMS = {
    "ranks": "mean ranks of cells",
    "bins": "bins of every cell",
    "indicator": "averages of zeros and ones",
}


def check(file: Path, columns: Sequence[str] = ()) -> None:
    """Raise InputError early if the curve, or that of each value column, cannot be written."""
    figure_style.check_installed()
    if file.is_dir():
        raise InputError(f"{file} is a folder; name a new file for the curve.")
    if file.suffix.lower() not in ("", ".png", ".svg"):
        raise InputError(f"--curve writes .png and .svg; {file.name} has another ending.")
    if not file.parent.is_dir():
        raise InputError(f"the folder of {file} does not exist; create it first.")
    for target in _files(file, columns).values():
        for kind in KINDS:
            # A figure that someone keeps is never replaced.
            if target.with_suffix(f".{kind}").exists():
                raise InputError(f"{target.with_suffix(f'.{kind}')} exists; name a new file.")


def _files(file: Path, columns: Sequence[str]) -> dict[str, Path]:
    """Return the file of each value column; of one alone the file itself."""
    if len(columns) < 2:
        return dict.fromkeys(columns or ("",), file)
    prefixes = column_prefixes(columns)
    return {column: file.with_stem(f"{file.stem}-{prefixes[column]}") for column in columns}


def write(plan: Plan, file: Path) -> list[Path]:
    """Write the figure, of several value columns one of each, as PNG and SVG; return the files."""
    written = []
    for column, target in _files(file, [*plan.components]).items():
        component: Any = plan.components[column]
        unit = "" if component.facts is None else component.facts.value_unit
        written += [
            atomic_files.write_named(target.with_suffix(f".{kind}"), image)
            for kind, image in images(component, unit).items()
        ]
    return written


def images(plan: Any, unit: str) -> dict[str, bytes]:  # noqa: ANN401  a part of any kind
    """Return the figure's bytes by kind; the same plan gives the same bytes."""
    curve: Curve = _CURVES[plan.kind](plan, unit)
    with figure_style.style():
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        if curve.points:
            losses, errors = zip(*curve.points, strict=True)
            axes.plot(losses, errors, label=curve.name, color=figure_style.COLOURS[0])
        if plan.epsilon:
            mark = (float(plan.epsilon), curve.error)
            axes.plot(*mark, "o", color="black", markersize=7, zorder=4, label="this plan")
        else:
            axes.plot([], [], " ", label="this plan: constants, at no loss")
        axes.set(xlabel="Epsilon (loss of the most exposed unit)", ylabel=curve.label)
        axes.set(xscale="log", yscale="log")
        if curve.level is not None:
            level, name = curve.level
            axes.axhline(level, color="0.45", linestyle=(0, (1, 1.5)), linewidth=1.2, label=name)
        for side in ("x", "y"):
            figure_style.logarithmic(axes, side)
        figure_style.plain_axes(axes)
        axes.legend(frameon=False, loc="lower left", handlelength=3)
        return figure_style.images(figure)


@dataclass(frozen=True)
class Curve:
    """Errors of one request at several prices, beside that of the plan.

    Attributes
    ----------
    name : str
        Of the line.
    points : list of pairs of float
        Prices and errors.
    error : float
        Of the plan.
    label : str
        What the error is.
    level : tuple of float and str, optional
        The error to beat, and its name.
    """

    name: str
    points: Points
    error: float
    label: str
    level: tuple[float, str] | None


def _curve(priced: Callable[[Fraction], tuple[float, float]], points: int) -> Points:
    """Return prices and errors at multiples of a price; some admit no plan, and are left out."""
    curve = []
    # Ratios, not differences, because errors are inverse to prices.
    scales = np.geomspace(1.0 / AROUND, AROUND, points).round(6).tolist()
    for times in parts_of_work(DRAWING, scales):
        with contextlib.suppress(InputError):
            curve.append(priced(to_fraction(times, "times")))
    return sorted((loss, error) for loss, error in curve if loss > 0)


def _presence_curve(plan: PresenceComponent, unit: str) -> Curve:
    """Return prices and expected errors on paper."""

    def priced(times: Fraction) -> tuple[float, float]:
        other = alternative(plan, epsilon=plan.epsilon * times)
        return float(other.epsilon), other.expected[0]

    error, level, noun = plan.expected
    measure = "" if noun == USERS or not unit else f" ({unit})"
    label = f"Expected error of {noun}{measure}"
    return Curve("private presence", _curve(priced, POINTS), error, label, (level, CONSTANT))


def _share_curve(plan: DistributionComponent, _: str) -> Curve:
    """Return prices and errors of a share of records; ε is divided as in the plan."""
    share_epsilon, shares_alone = plan.requested_epsilon, replace(plan, moments=())
    if plan.moment_plan is not None:
        share_epsilon -= plan.moment_plan.requested_epsilon

    def priced(times: Fraction) -> tuple[float, float]:
        other = alternative(shares_alone, epsilon=share_epsilon * times)
        return float(plan.requested_epsilon * times), other.expected_error["share"]

    error, label = float(plan.expected_error["share"]), "Predicted error of a share of records"
    points = _curve(priced, SHARE_POINTS)
    return Curve(
        _FORMS[plan.estimator], points, error, label, (USELESS_ERROR, "as much as cells differ")
    )


def _moment_curve(plan: MomentComponent, unit: str) -> Curve:
    """Return prices and planning errors."""
    names = list(plan.error_models)
    label = f"{'Largest' if plan.request.objective == 'max' else 'Average'} planning error"
    level = None
    if _by_target(plan):
        label, level = f"{label}, relative to its target", (1.0, "the targets")
    elif len(names) > 1:
        label += ", relative to a constant's"
    elif measure := formatting.unit_of(names[0], unit):
        label += f" ({measure})"
    if names == ["mean"]:
        level = (plan.baseline_error, CONSTANT)
    return Curve(plan.method, points(plan), objective_error(plan, plan), label, level)


def points(plan: MomentComponent) -> Points:
    """Return prices and the errors of the plan's request at each."""

    def priced(times: Fraction) -> tuple[float, float]:
        if _by_target(plan):
            # All targets scaled by a factor.
            goals = {n: goal * float(times) for n, goal in (plan.request.target or {}).items()}
            scaled = alternative(plan, target=goals)
            return float(scaled.epsilon), objective_error(scaled, plan)
        loss = (plan.requested_epsilon or Fraction(1)) * times
        return float(loss), objective_error(alternative(plan, epsilon=loss, target=None), plan)

    return _curve(priced, POINTS)


def _by_target(plan: MomentComponent) -> bool:
    """Return whether errors are relative to their targets."""
    return plan.request.target is not None and len(plan.error_models) > 1


def objective_error(scaled: MomentComponent, requested: MomentComponent) -> float:
    """Return the error under the objective of the requested plan."""
    errors = scaled.objective_errors()
    if _by_target(requested):
        goals = requested.request.target or {}
        errors = np.max(
            [scaled.error_models[name].error / goal for name, goal in goals.items()], axis=0
        )
    return float(errors.max() if requested.request.objective == "max" else errors.mean())


_CURVES: dict[str, Callable[[Any, str], Curve]] = {
    "moments": _moment_curve,
    "distributions": _share_curve,
    "presence": _presence_curve,
}
"""The curve of a part and its unit, by kind."""


# ---- an evaluation: error against epsilon, a line per mechanism, with error bars ----


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
    figure_style.check_installed()
    with figure_style.style():
        return figure_style.images(error_chart(table, title=title, value_unit=value_unit))


def error_chart(table: pa.Table, *, title: str, value_unit: str = "") -> Figure:
    """Return the figure: lines over epsilon, or one row per mechanism at a single epsilon."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    lines = _lines(table)
    single = all(epsilon.size == 1 for _, epsilon, _, _ in lines)
    # Names stand beside the axes: the longest decides how much room they need.
    width = 6.4 + figure_style.LETTER * max(len(name) for name, _, _, _ in lines)
    height = max(4.2, 1.8 + 0.25 * len(lines))
    with figure_style.style():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        label = "Mean absolute error" + (f" ({value_unit})" if value_unit else "")
        figure_style.plain_axes(axes)
        (_rows if single else _curves)(axes, lines, label)
        axes.set_title(textwrap.fill(title, 64), loc="left", fontsize="medium")
        if is_private(table):
            figure.suptitle(STAMP, color=figure_style.RED, fontweight="bold", x=0.01, ha="left")
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
    for (name, epsilon, mae, half), look in zip(lines, figure_style.looks(), strict=False):
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
        figure_style.logarithmic(axes, side)
