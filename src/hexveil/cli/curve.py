"""The figure of a plan: loss against planning error, with the chosen point marked.

Public facts only. The line of the joint plan is that of the plan's own objective.
"""

from __future__ import annotations

import contextlib
import io
import secrets
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.errors import InputError, StorageError
from hexveil.experiments.chart import COLOURS, check_installed
from hexveil.planning.advice import at_loss
from hexveil.planning.compare import same_request

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from hexveil.planning.plan import Plan

    Points = list[tuple[float, float]]

AROUND = 30.0
"""The curve spans losses from the chosen one divided by this to the chosen one times this."""
POINTS = 13
KINDS = ("png", "svg")


def check(file: Path) -> None:
    """Refuse early what cannot be drawn or written."""
    check_installed()
    if file.suffix.lower() not in ("", ".png", ".svg"):
        raise InputError(f"a curve is drawn as .png and .svg; {file.name} ends otherwise.")
    if not file.parent.is_dir():
        raise InputError(f"the folder of {file} does not exist; make it first.")
    for kind in KINDS:
        if file.with_suffix(f".{kind}").exists():
            raise InputError(f"{file.with_suffix(f'.{kind}')} exists; name a new file.")


def write(plan: Plan, file: Path, unit: str) -> list[Path]:
    """Write the figure as PNG and SVG and return both files."""
    return [_write(file.with_suffix(f".{k}"), image) for k, image in images(plan, unit).items()]


def images(plan: Plan, unit: str) -> dict[str, bytes]:
    """Return the figure's bytes by kind; the same plan gives the same bytes."""
    import matplotlib as mpl  # noqa: PLC0415  an extra, loaded where it draws
    from matplotlib.figure import Figure  # noqa: PLC0415

    lines = {
        f"joint plan ({plan.request.objective} error)": points(_joint(plan)),
        "every cell alone": points(_apart(plan)),
    }
    with mpl.rc_context({"svg.hashsalt": "hexveil", "svg.fonttype": "path"}):
        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        draw(figure.subplots(), plan, lines, unit)
        found = {}
        for kind, about in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=200, metadata=about)
            found[kind] = buffer.getvalue()
    return found


def _joint(plan: Plan) -> Plan:
    objective = plan.request.objective
    return plan if plan.method == "joint" else same_request(plan, "joint", objective)


def _apart(plan: Plan) -> Plan | None:
    with contextlib.suppress(InputError):
        at_one = replace(plan.request, epsilon=plan.asked or Fraction(1), target=None)
        return same_request(replace(plan, request=at_one), "per-cell", plan.request.objective)
    return None


def points(plan: Plan | None) -> Points:
    """Return losses and the errors that the plan's request then has."""
    if plan is None:
        return []
    middle = float(plan.asked) or 1.0
    found = []
    for loss in np.geomspace(middle / AROUND, middle * AROUND, POINTS).tolist():
        with contextlib.suppress(InputError):
            made = at_loss(plan, Fraction(loss))
            found.append((loss, judged(made)))
    return found


def judged(plan: Plan) -> float:
    """Return the error that the objective is about."""
    errors = plan.judged_errors()
    return float(errors.max() if plan.request.objective == "max" else errors.mean())


def draw(axes: Axes, plan: Plan, lines: dict[str, Points], unit: str) -> None:
    """Draw the lines, the chosen point and what one constant misses."""
    styles: tuple[Any, ...] = ("-", (0, (5, 2)))
    for (name, line), colour, style in zip(lines.items(), COLOURS, styles, strict=False):
        if line:
            losses, errors = zip(*line, strict=True)
            axes.plot(losses, errors, color=colour, linestyle=style, linewidth=2, label=name)
    chosen = float(plan.epsilon)
    if chosen:
        axes.plot([chosen], [judged(plan)], "o", color="black", markersize=9, label="this plan")
    if tuple(plan.parts) == ("mean",):
        axes.axhline(plan.prior_miss, color="0.45", linestyle=(0, (1, 1.5)))
        axes.annotate(
            "one constant for all cells, as assumed",
            (0, plan.prior_miss),
            xycoords=("axes fraction", "data"),
            xytext=(4, 4),
            textcoords="offset points",
            ha="left",
            color="0.35",
        )
    axes.set(xscale="log", yscale="log", xlabel="loss of the most exposed unit, ε")
    axes.set_ylabel(_label(plan, unit))
    axes.grid(visible=True, which="both", color="0.9", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")


def _label(plan: Plan, unit: str) -> str:
    over = "largest" if plan.request.objective == "max" else "average"
    names = list(plan.parts)
    if len(names) > 1:
        apart = plan.request.error != "sum"
        return f"{over} planning error, " + ("of a constant's" if apart else "mean + variance")
    measure = f"{unit} squared" if names == ["variance"] and unit else unit
    return f"{over} planning error" + (f", {measure}" if measure else "")


def _write(path: Path, content: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.partial-{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise StorageError(f"{path} cannot be written ({why}).") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return path
