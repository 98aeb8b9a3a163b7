"""`hexveil plan`: what a release would cost and what it would say, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hexveil.cli import shared_steps
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import error_curve as curves
from hexveil.cli.output import formatting, method_table
from hexveil.cli.output import grid_table as tables
from hexveil.config import Run  # noqa: TC001  the parser reads annotations
from hexveil.model.cells import Cells
from hexveil.planning.clipping_range.strategies import FIRST_STAGE_SHARE
from hexveil.planning.clipping_range.two_stage import RESIDUAL_QUANTILE
from hexveil.planning.comparison import Line, compare
from hexveil.records.progress import shown
from hexveil.report.promise import promise

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Capacity, Plan
    from hexveil.planning.clipping_range.private_range import PrivateClippingRange

    Files = dict[str, list[Path]]

MONTH = 30

Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Compare all planning methods: their errors at this price, or their prices at these "
        "errors.",
    ),
]
Grids = Annotated[
    bool | None,
    typer.Option(
        "--grids/--no-grids",
        help="Print the whole table of other grids and privacy units, or skip it. [default: "
        "only the proposed grid]",
    ),
]
Curve = Annotated[
    Path | None,
    typer.Option(
        "--curve",
        resolve_path=True,
        metavar="FILE",
        help="Draw price against error, with this plan marked: a new .png and .svg of this name.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(
        "--save",
        resolve_path=True,
        metavar="FOLDER",
        help="Save this plan in a new folder for review (then release --from-plan). For "
        "tomorrow's records keep the goal (the TOML file), not the plan.",
    ),
]


def plan(
    run: Run,
    *,
    compare_methods: Compare = False,
    grids: Grids = None,
    curve: Curve = None,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Show the price and the expected error of a release; nothing is spent."""
    shared_steps.price_named(run)
    if curve is not None:
        curve = shared_steps.typed(curve)
        curves.check(curve)
    facts = shared_steps.read(run).public
    made = shared_steps.planned(run, facts)
    files = _write(made, facts, curve, save)
    methods = _compared(made) if compare_methods else None
    asked = grids or (grids is None and methods is None)
    table = shared_steps.grids(run, made, weaker=bool(grids)) if asked else None
    if as_json:
        said = _json(run, made, facts, methods, files) | _grids_json(table, whole=bool(grids))
        typer.echo(json.dumps(said, indent=2))
        return
    typer.echo("\n".join([*price_lines(made, facts), *no_interval(run, made)]))
    if methods is not None:
        method_table.show(methods, method_table.measure(made, facts.value_unit))
    else:
        coarse, warning = shared_steps.coarser(run, facts), shared_steps.too_fine(made)
        typer.echo("\n".join(map_lines(made, facts, coarse, warning)))
    if table is not None and grids:
        typer.echo(f"\nOther grids at epsilon {formatting.plain(table.epsilon)}:")
        tables.show(table, facts.value_unit)
    elif table is not None:
        typer.echo("\n".join(formatting.wrapped("Grid", tables.capital(table.sentence))))
    for line in file_lines(run, files):
        typer.echo(line)


def _compared(made: Plan) -> list[Line]:
    with shown("Comparing the methods"):
        return compare(made)


def _write(made: Plan, facts: PublicMetadata, curve: Path | None, save: Path | None) -> Files:
    """Write the plan and the curve that were asked for, and return the paths."""
    saved = [] if save is None else [made.save(shared_steps.typed(save))]
    with shown("Drawing the curve"):
        drawn = [] if curve is None else curves.write(made, curve, facts.value_unit)
    return {"saved": saved, "drawn": drawn}


def _json(
    run: Run, made: Plan, facts: PublicMetadata, methods: list[Line] | None, files: Files
) -> dict[str, Any]:
    """Return the plan and what was written, for machines."""
    coarse = shared_steps.coarser(run, facts)
    return shared_steps.plan_json(made) | {
        "unit": facts.privacy_unit,
        "coarser": None if coarse is None else shared_steps.plan_json(coarse),
        "warning": shared_steps.too_fine(made),
        "methods": None if methods is None else [asdict(line) for line in methods],
        "files": [
            str(shared_steps.reached(run, path)) for paths in files.values() for path in paths
        ],
    }


def _grids_json(table: Capacity | None, *, whole: bool) -> dict[str, Any]:
    """Return the proposal and, if it was asked for, the whole table, for machines."""
    if table is None:
        return {"proposal": None, "proposed": None, "grids": None}
    proposed = None if table.proposed is None else asdict(table.proposed)
    offers = table.to_arrow().to_pylist() if whole else None
    return {"proposal": table.sentence, "proposed": proposed, "grids": offers}


def file_lines(run: Run, files: Files) -> list[str]:
    """Return what is said of the files that were written."""
    said = {name: [str(shared_steps.reached(run, path)) for path in files[name]] for name in files}
    lines = []
    for folder in said["saved"]:
        lines += formatting.wrapped(
            "Saved", f"{folder}; review it, then: hexveil release ... --from-plan {folder}"
        )
    if said["drawn"]:
        lines += formatting.wrapped("Curve", ", ".join(said["drawn"]))
    return lines


def price_lines(made: Plan, facts: PublicMetadata) -> list[str]:
    """Return what is released about whom, and what it costs."""
    records = int(made.occupancy.n.sum())
    cells = formatting.wrapped(
        "Cells",
        f"{made.support.cells:,}: {formatting.grid_words(facts.cells.grid)}; "
        f"{records:,} records of {made.support.users:,} {facts.privacy_unit}s.",
    )
    return [*cells, *(_paid(made, facts) if made.epsilon else _nothing(made, facts))]


def _nothing(made: Plan, facts: PublicMetadata) -> list[str]:
    """Return why nothing is paid."""
    if made.request.target is None:
        why = f"noise at epsilon {formatting.plain(float(made.asked))} would cause a larger error"
    else:
        why = "constants meet the target errors"
    return formatting.wrapped(
        "Price",
        f"0 (epsilon): every cell publishes a constant, because {why}. "
        f"{promise(facts.privacy_unit, made.epsilon)}",
    )


def _paid(made: Plan, facts: PublicMetadata) -> list[str]:
    """Return what a release that uses readings costs, and what counting cells would claim."""
    price, claimed = float(made.epsilon), float(made.l0_epsilon)
    return [
        *formatting.wrapped(
            "Price",
            f"{formatting.price(price)} (epsilon). {promise(facts.privacy_unit, made.epsilon)} "
            f"{_half(made, facts)}",
        ),
        *formatting.wrapped(
            "Naive accounting",
            f"counting cells would have charged {formatting.price(claimed)} for this noise "
            f"(probability factor {formatting.factor(claimed)}); each user is charged its exact "
            "loss instead.",
        ),
    ]


def _half(made: Plan, facts: PublicMetadata) -> str:
    """Return what the less exposed half of the units loses."""
    most = formatting.price(float(np.median(made.losses())))
    return f"Half of the {facts.privacy_unit}s lose at most {most}."


def no_interval(run: Run, made: Plan) -> list[str]:
    """Return why a plan that was to choose among private intervals could not have one."""
    needs = made.request.interval_needs
    if run.plan.clipping_range != "auto" or needs is None:
        return []
    text = f'the bounds, although clipping_range is "auto": a private range needs {needs}.'
    return formatting.wrapped("Clipping range", text)


def map_lines(
    made: Plan, facts: PublicMetadata, coarse: Plan | None, warning: str | None
) -> list[str]:
    """Return how good the map would be, what a coarser one would say, and a month's cost."""
    unit = facts.value_unit
    lines = [
        *formatting.wrapped(
            "Expected error",
            f"{_errors(made, unit)} (without clipping the noise alone would average at least "
            f"{formatting.measured(made.support.floor, unit)}).",
        ),
        *_interval(made),
        *_certificate(made),
        *formatting.wrapped("Useful cells", _worth(made, unit)),
    ]
    if coarse is not None:
        lines += formatting.wrapped("One step coarser", _coarser(coarse, unit))
    if made.epsilon:
        lines += formatting.wrapped("A month", _month(made, facts))
    if warning is not None:
        lines += formatting.wrapped("Warning", warning)
    return lines


def _errors(made: Plan, unit: str) -> str:
    """Return the average and the largest planning error of each statistic."""
    said = []
    for name, part in made.parts.items():
        measure, error = formatting.unit_of(name, unit), part.error
        of = f"the {name}: " if len(made.parts) > 1 or name != "mean" else ""
        said.append(
            f"{of}{formatting.measured(float(error.mean()), measure)} on average, "
            f"{formatting.measured(float(error.max()), measure)} in the worst cell"
        )
    return "; ".join(said)


def _interval(made: Plan) -> list[str]:
    """Return what private steps beside the cells' own would cost, and what is assumed of them."""
    found = made.rows.interval
    if found is None:
        return []
    low, high = (f"{float(one):.0%}" for one in found.quantiles)
    wider = "" if found.stretch == 1 else f" and widened {float(found.stretch):g} times"
    return formatting.wrapped(
        "Clipping range",
        f"users' averages are clipped to their quantiles {low} and {high}, estimated privately at "
        f"{_part(made, found.epsilon)}{wider}; assumed width: {found.width:.0%} of the span."
        f"{_squares(made, found)}{_steps(made)} The expected error is a prediction from these "
        "assumptions, not a bound.",
    )


def _part(made: Plan, epsilon: Fraction) -> str:
    """Return what a step costs, and its share of all."""
    return f"epsilon {formatting.price(float(epsilon))} ({100 * float(epsilon / made.asked):.3g}%)"


def _squares(made: Plan, found: PrivateClippingRange) -> str:
    """Return what is done for variances under an interval."""
    if found.radius is None:
        return ""
    # The scales of both are the same in every cell but for a factor: their losses have one ratio.
    mean, square = float(made.mean_noise[0]), float(made.rows.variance_noise[0])
    return (
        f" Second moments are clipped at {float(found.radius):g} half-widths from its centre; the "
        f"mean takes {square / (mean + square):.0%} of a cell's loss."
    )


def _steps(made: Plan) -> str:
    """Return what further private steps would cost, and what they find."""
    more = made.rows.steps
    if more is None:
        return ""
    in_classes, in_cells = (float(one.max()) for one in more.losses(made.occupancy))
    size = more.class_noise.size
    classes = f"averages of {size} user clusters" if size > 1 else "the average of all users"
    return (
        f" The {float(RESIDUAL_QUANTILE):.0%} quantile of the distances from users' own averages "
        f"is estimated at {_part(made, more.epsilon)}. The remaining epsilon is spent by the "
        f"strategy with the least predicted error: this range alone; {classes} (at most "
        f"{formatting.price(in_classes)} of a user's loss) and distances from users' own averages "
        f"(at most {formatting.price(in_cells)}); or a first average of each cell "
        f"({float(FIRST_STAGE_SHARE):.0%} of the remainder) and distances from it."
    )


def _certificate(made: Plan) -> list[str]:
    """Return how far the plan is from the best of its class, where that is known."""
    gap = shared_steps.gap(made)
    if gap is None:
        return []
    what = {"loss": "price", "max error": "largest error", "mean error": "average error"}
    figure = what[str(made.certifies)]
    lower = f"more than {formatting.price(100 * gap)}% lower" if gap else "lower"
    article = "an" if figure.startswith("a") else "a"
    text = f"no plan of this class has {article} {figure} that is {lower}."
    return formatting.wrapped("Near-optimal" if gap else "Optimal", text)


def _worth(made: Plan, unit: str) -> str:
    support, measure = made.support, formatting.unit_of(made.first.name, unit)
    return (
        f"{support.better:,} of {support.cells:,} are expected to beat a single number for all "
        f"cells (assumed error {formatting.measured(support.baseline_error, measure)})."
    )


def _coarser(coarse: Plan, unit: str) -> str:
    facts = coarse.facts
    grid = facts.cells.grid if facts is not None else None
    name = f"resolution {grid.resolution}: " if isinstance(grid, Cells) else ""
    support = coarse.support
    priced = (
        f" at a price of {formatting.price(float(coarse.epsilon))}" if coarse.request.target else ""
    )
    error = formatting.measured(support.mean_error, formatting.unit_of(coarse.first.name, unit))
    return (
        f"{name}{support.cells:,} cells{priced}, expected error {error} on average, "
        f"{support.better:,} useful cells."
    )


def _month(made: Plan, facts: PublicMetadata) -> str:
    daily = float(made.epsilon)
    month = (
        f"{formatting.price(MONTH * daily)} (probability factor {formatting.factor(MONTH * daily)})"
    )
    if facts.privacy_unit == "user":
        return (
            f"if you publish every day, a user present in all {MONTH} maps loses {month}; with "
            f'privacy_unit = "user-day" any one day of a user would stay at the price of one map.'
        )
    period = facts.privacy_unit.removeprefix("user-")
    return (
        f"if you publish every day, any one {period} of a user stays within its price, but a user "
        f"present in {MONTH} maps can lose {month} in total."
    )
