"""Figure of a plan: price against planning error, with the plan marked.

It uses public metadata only. The curves have the plan's own objective. With targets for several
statistics the error is relative to the targets, and the curve of the joint plan is the price of all
targets scaled by one factor.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base import atomic_files
from hexveil.base.errors import InputError
from hexveil.base.rational import to_fraction
from hexveil.base.work_share import parts_of_work
from hexveil.cli.output import formatting
from hexveil.planning.alternatives import alternative, at_loss
from hexveil.planning.distribution.distribution_plan import USELESS_ERROR
from hexveil.planning.method_comparison import same_request
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.report import figure_style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from hexveil.model.statistic_terms import Estimator
    from hexveil.planning.distribution.distribution_plan import DistributionPart
    from hexveil.planning.moment_part import MomentPart
    from hexveil.planning.plan import Plan
    from hexveil.planning.presence.presence_plan import PresencePart

    Points = list[tuple[float, float]]

AROUND = 30.0
"""The curve spans prices from the plan's divided by this to the plan's times this."""
DRAWING = "Drawing the curve"
"""Name of this work, of which parts are told."""
POINTS = 17
SHARE_POINTS = 7
"""Points of a curve of shares: each is a plan."""
KINDS, USERS = ("png", "svg"), "numbers of units"
_ESTIMATORS: dict[Estimator, str] = {"ranks": "mean ranks of cells", "bins": "bins of every cell"}
_INDICATOR: dict[Estimator, str] = {"auto": "averages of zeros and ones"}


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
        drawn = _IMAGES[component.kind](component, unit)
        written += [
            atomic_files.write_named(target.with_suffix(f".{kind}"), image)
            for kind, image in drawn.items()
        ]
    return written


def paper_images(plan: PresencePart, unit: str) -> dict[str, bytes]:
    """Return the figure's bytes by kind: price against the expected error on paper."""
    curve = []
    for times in np.geomspace(1.0 / AROUND, AROUND, POINTS).tolist():
        # Some prices leave nothing to measure with; the curve leaves them out.
        with contextlib.suppress(InputError):
            priced = alternative(plan, epsilon=plan.epsilon * to_fraction(round(times, 6), "times"))
            curve.append((float(priced.epsilon), priced.expected[0]))
    error, level, noun = plan.expected
    measure = "" if noun == USERS or not unit else f" ({unit})"
    return _images(
        {"private presence": curve}, (float(plan.epsilon), error),
        f"Expected error of {noun}{measure}", (level, "one number for all cells (assumed)"),
    )  # fmt: skip


def share_images(plan: DistributionPart, _: str = "") -> dict[str, bytes]:
    """Return the figure's bytes by kind: price against the error of a share of records."""
    estimators = _ESTIMATORS | (_INDICATOR if plan.estimator == "indicator" else {})
    lines = {name: share_points(plan, estimator) for estimator, name in estimators.items()}
    marked = (float(plan.epsilon), float(plan.expected_error["share"]))
    level = USELESS_ERROR, "as much as cells differ"
    return _images(lines, marked, "Predicted error of a share of records", level)


def share_points(plan: DistributionPart, estimator: Estimator) -> Points:
    """Return prices, and the error of a share of records at each; ε is divided as in the plan."""
    share_epsilon = plan.requested_epsilon
    if plan.moment_plan is not None:
        share_epsilon -= plan.moment_plan.requested_epsilon
    curve = []
    scales = np.geomspace(1.0 / AROUND, AROUND, SHARE_POINTS).round(6).tolist()
    for times in parts_of_work(DRAWING, scales):
        scale = to_fraction(times, "times")
        shares_alone = replace(plan, moments=())
        drawn = alternative(shares_alone, estimator=estimator, epsilon=share_epsilon * scale)
        curve.append((float(plan.requested_epsilon * scale), drawn.expected_error["share"]))
    return curve


def images(plan: MomentPart, unit: str) -> dict[str, bytes]:
    """Return the figure's bytes by kind; the same plan gives the same bytes."""
    lines = {
        name: points(planned(plan))
        for name, planned in parts_of_work(DRAWING, tuple(_LINES.items()))
    }
    marked = (float(plan.epsilon), objective_error(plan, plan)) if plan.epsilon else None
    return _images(lines, marked, _label(plan, unit), _level(plan))


_IMAGES: dict[str, Callable[[Any, str], dict[str, bytes]]] = {
    "moments": images,
    "distributions": share_images,
    "presence": paper_images,
}
"""The figure of a part and its unit, by kind."""


def _images(
    lines: dict[str, Points],
    marked: tuple[float, float] | None,
    label: str,
    level: tuple[float, str] | None,
) -> dict[str, bytes]:
    """Return the figure of some curves, with the plan marked and the error to beat as a line."""
    with figure_style.style():
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        for (name, line), colour, dashes in zip(
            lines.items(), figure_style.COLOURS, figure_style.DASHES, strict=False
        ):
            if line:
                losses, errors = zip(*line, strict=True)
                look = {"color": colour, "linestyle": dashes, "linewidth": 1.8}
                axes.plot(losses, errors, label=name, **look)
        if marked is not None:
            axes.plot(*marked, "o", color="black", markersize=7, zorder=4, label="this plan")
        else:
            axes.plot([], [], " ", label="this plan: constants, at no loss")
        axes.set(xlabel="Epsilon (loss of the most exposed unit)", ylabel=label)
        axes.set(xscale="log", yscale="log")
        if level is not None:
            _reference_line(axes, *level, lines)
        for side in ("x", "y"):
            figure_style.logarithmic(axes, side)
        figure_style.plain_axes(axes)
        axes.legend(frameon=False, loc="lower left", handlelength=3)
        return figure_style.images(figure)


def _joint_plan(plan: MomentPart) -> MomentPart:
    objective = plan.request.objective
    return plan if plan.method == "joint" else same_request(plan, "joint", objective)


def _per_cell_plan(plan: MomentPart) -> MomentPart | None:
    """Return the plan of separate cells at the price of this plan; None if there is none."""
    with contextlib.suppress(InputError):
        at_one = replace(plan.request, method="joint").within(_reference_epsilon(plan))
        reference = replace(plan, request=at_one)
        per_cell = same_request(reference, "per-cell", plan.request.objective)
        return replace(per_cell, request=replace(per_cell.request, target=plan.request.target))
    return None


_LINES = {
    "all cells together (joint)": _joint_plan,
    "each cell separately (per-cell)": _per_cell_plan,
}


def _reference_epsilon(plan: MomentPart) -> Fraction:
    return plan.requested_epsilon or Fraction(1)


def _by_target(plan: MomentPart) -> bool:
    """Return whether errors are relative to their targets."""
    return plan.request.target is not None and len(plan.error_models) > 1


def points(plan: MomentPart | None) -> Points:
    """Return prices and the errors of the plan's request at each."""
    if plan is None:
        return []
    curve = []
    # Ratios, not differences, because errors are inverse to prices.
    for times in parts_of_work(DRAWING, np.geomspace(1.0 / AROUND, AROUND, POINTS).tolist()):
        # Some prices admit no plan; the curve leaves them out.
        with contextlib.suppress(InputError):
            if _by_target(plan) and plan.method == "joint":
                scaled = _at_targets(plan, times)
                loss = float(scaled.epsilon)
            else:
                loss = float(_reference_epsilon(plan)) * times
                scaled = at_loss(plan, Fraction(loss))
            curve.append((loss, objective_error(scaled, plan)))
    return sorted((loss, error) for loss, error in curve if loss > 0)


def _at_targets(plan: MomentPart, times: float) -> MomentPart:
    """Return the plan with all targets scaled by a factor."""
    goals = {name: goal * times for name, goal in (plan.request.target or {}).items()}
    return alternative(plan, target=goals)


def objective_error(scaled: MomentPart, requested: MomentPart) -> float:
    """Return the error under the objective of the requested plan."""
    errors = scaled.objective_errors()
    if _by_target(requested):
        goals = requested.request.target or {}
        errors = np.max(
            [scaled.error_models[name].error / goal for name, goal in goals.items()], axis=0
        )
    return float(errors.max() if requested.request.objective == "max" else errors.mean())


def _level(plan: MomentPart) -> tuple[float, str] | None:
    """Return the error to beat: the targets, or one number for all cells."""
    if _by_target(plan):
        return 1.0, "the targets"
    if tuple(plan.error_models) == ("mean",):
        return plan.baseline_error, "one number for all cells (assumed)"
    return None


def _reference_line(axes: Axes, level: float, label: str, lines: dict[str, Points]) -> None:
    """Draw the error to beat."""
    axes.axhline(level, color="0.45", linestyle=(0, (1, 1.5)), linewidth=1.2)
    right = _has_room_right(axes, level, lines)
    axes.annotate(
        label,
        (1.0 if right else 0.0, level),
        xycoords=("axes fraction", "data"),
        xytext=(-4 if right else 4, 3),
        textcoords="offset points",
        ha="right" if right else "left",
        color="0.35",
    )


def _has_room_right(axes: Axes, level: float, lines: dict[str, Points]) -> bool:
    """Return whether a label fits better right of the crossing of curves and level than left."""
    low, high = np.log(axes.get_xlim())
    below = [[loss for loss, error in line if error <= level] for line in lines.values() if line]
    crossed = [(np.log(losses[0]) - low) / (high - low) if losses else 1.0 for losses in below]
    return bool(crossed) and 1.0 - max(crossed) > min(crossed)


def _label(plan: MomentPart, unit: str) -> str:
    over = "Largest" if plan.request.objective == "max" else "Average"
    names = list(plan.error_models)
    if _by_target(plan):
        return f"{over} planning error, relative to its target"
    if len(names) == 1:
        measure = formatting.unit_of(names[0], unit)
        return f"{over} planning error" + (f" ({measure})" if measure else "")
    return f"{over} planning error, relative to a constant's"
