"""`hexveil plan`: what a release would cost and what it would say, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from hexveil.cells import Cells
from hexveil.cli import curve as curves
from hexveil.cli import steps, words
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.config import Run  # noqa: TC001  the parser reads annotations
from hexveil.planning.compare import Line, compare
from hexveil.records.progress import shown

if TYPE_CHECKING:
    from hexveil.facts import PublicFacts
    from hexveil.planning import Plan

MONTH = 30

Compare = Annotated[
    bool, typer.Option("--compare", help="Print all methods side by side on this request.")
]
Curve = Annotated[
    str | None,
    typer.Option(
        "--curve",
        metavar="FILE",
        help="Draw loss against error, with this plan marked: a new .png and .svg of this name.",
    ),
]
Save = Annotated[
    str | None,
    typer.Option(
        "--save",
        metavar="FOLDER",
        help="Save this plan, to be released after review (release --from-plan). It fits only "
        "these records; for tomorrow's keep the run file.",
    ),
]


def plan(
    run: Run,
    *,
    compare_methods: Compare = False,
    curve: Curve = None,
    save: Save = None,
    as_json: AsJson = False,
) -> None:
    """Say what a release would cost and how good its map would be; nothing is spent."""
    steps.price_named(run)
    if curve is not None:
        curves.check(Path(curve))
    facts = steps.read(run).public
    made = steps.planned(run, facts)
    written = _written(made, facts, curve, save)
    lines = _compared(made) if compare_methods else None
    if lines is not None and not as_json:
        typer.echo("\n".join(price_lines(made, facts)))
        show(lines, _judged_in(made, facts.value_unit))
        typer.echo("\n".join(written))
        return
    coarse = steps.coarser(run, facts)
    warning = steps.too_fine(made)
    if as_json:
        text = steps.plan_json(made) | {
            "unit": facts.unit,
            "coarser": None if coarse is None else steps.plan_json(coarse),
            "warning": warning,
            "methods": None if lines is None else [asdict(line) for line in lines],
        }
        typer.echo(json.dumps(text, indent=2))
        return
    typer.echo(
        "\n".join([*price_lines(made, facts), *map_lines(made, facts, coarse, warning), *written])
    )


def _compared(made: Plan) -> list[Line]:
    with shown("Comparing the methods"):
        return compare(made)


def _written(made: Plan, facts: PublicFacts, curve: str | None, save: str | None) -> list[str]:
    """Write the curve and the plan that were asked for, and return what is said of them."""
    lines = []
    if save is not None:
        folder = made.save(save)
        lines += words.wrapped(
            "Saved", f"{folder}; review it, then: hexveil release ... --from-plan {folder}"
        )
    if curve is not None:
        with shown("Drawing the curve"):
            files = curves.write(made, Path(curve), facts.value_unit)
        lines += words.wrapped("Drawn", ", ".join(str(file) for file in files))
    return lines


def _judged_in(made: Plan, unit: str) -> str:
    """Return the unit of measure of the errors that are compared."""
    if len(made.parts) > 1:
        return "units + squared units" if made.request.error == "sum" else "share of a constant's"
    return f"{unit} squared" if "variance" in made.parts and unit else unit


def show(lines: list[Line], measure: str) -> None:
    """Print the methods as a table."""
    console = Console(width=None if Console().is_terminal else 110)
    unit = f" ({measure})" if measure else ""
    table = Table(title="The same request by every method", title_justify="left")
    for name in (
        "Method", "Price", "Counting cells", f"Worst error{unit}", "Median", "Users shrunk",
        "Better than a constant", "Certified gap",
    ):  # fmt: skip
        table.add_column(name, justify="left" if name == "Method" else "right")
    for line in lines:
        table.add_row(*_cells(line))
    console.print(table)
    for line in lines:
        if line.trouble is not None:
            console.print(f"{line.method}: {line.trouble}", highlight=False)


def _cells(line: Line) -> list[str]:
    name = f"{line.method}, {line.objective} error" if line.method == "joint" else line.method
    if line.epsilon is None or line.claimed is None or line.worst is None or line.median is None:
        return [name, "-", "-", "-", "-", "-", "-", "-"]
    return [
        name,
        words.price(line.epsilon),
        words.price(line.claimed),
        words.plain(line.worst),
        words.plain(line.median),
        f"{line.shrunk:,}",
        f"{line.better:,}",
        "-" if line.gap is None else f"{100 * line.gap:.1f}%",
    ]


def price_lines(made: Plan, facts: PublicFacts) -> list[str]:
    """Return what is released about whom, and what it costs."""
    whom, price = words.ONE_UNIT[facts.unit], float(made.epsilon)
    claimed = float(made.composed_epsilon)
    records = int(made.occupancy.n.sum())
    return [
        *words.wrapped(
            "Cells",
            f"{made.support.cells:,}: {words.grid_words(facts.cells.grid)}; "
            f"{records:,} records of {made.support.users:,} {facts.unit}s.",
        ),
        *words.wrapped(
            "Price",
            f"{words.price(price)} (epsilon): an attacker's odds on any fact about {whom} change "
            f"by at most {words.odds(price)}.{_half(made)}",
        ),
        *words.wrapped(
            "Counting cells",
            f"would have charged {words.price(claimed)} for the same noise (odds: "
            f"{words.odds(claimed)}); what each user really did is charged instead.",
        ),
    ]


def _half(made: Plan) -> str:
    """Return what the less exposed half of the units loses."""
    middle = float(np.median(made.losses()))
    return f" Half of them lose {words.price(middle)} or less." if float(made.epsilon) else ""


def map_lines(
    made: Plan, facts: PublicFacts, coarse: Plan | None, warning: str | None
) -> list[str]:
    """Return how good the map would be, what a coarser one would say, and a month's cost."""
    unit = facts.value_unit
    lines = [
        *words.wrapped(
            "Error to expect",
            f"{_errors(made, unit)}; noise alone averages "
            f"{words.measured(made.support.floor, unit)} or more for a mean of which nothing is "
            "clipped.",
        ),
        *_certificate(made),
        *words.wrapped("Worth it", _worth(made, unit)),
    ]
    if coarse is not None:
        lines += words.wrapped("One step coarser", _coarser(coarse, unit))
    lines += words.wrapped("A month", _month(made, facts))
    if warning is not None:
        lines += words.wrapped("Warning", warning)
    return lines


def _errors(made: Plan, unit: str) -> str:
    """Return the average and the largest planning error of each statistic."""
    said = []
    for name, part in made.parts.items():
        measure = f"{unit}, squared" if name == "variance" and unit else unit
        error = part.error
        of = f"the {name}: " if len(made.parts) > 1 or name != "mean" else ""
        said.append(
            f"{of}{words.measured(float(error.mean()), measure)} on average, "
            f"{words.measured(float(error.max()), measure)} in the worst cell"
        )
    return "; ".join(said)


def _certificate(made: Plan) -> list[str]:
    """Return how far the plan is from the best of its class, where that is known."""
    if made.gap is None:
        return []
    what = {"loss": "a price", "max error": "a largest error", "mean error": "an average error"}
    return words.wrapped(
        "Certificate",
        f"no plan of its class has {what[str(made.certifies)]} more than {100 * made.gap:.2g}% "
        "below this one's.",
    )


def _worth(made: Plan, unit: str) -> str:
    support = made.support
    return (
        f"{support.better:,} of {support.cells:,} cells say more than one constant for all, which "
        f"is assumed to miss {words.measured(support.prior_miss, unit)}."
    )


def _coarser(coarse: Plan, unit: str) -> str:
    facts = coarse.facts
    grid = facts.cells.grid if facts is not None else None
    name = f"resolution {grid.resolution}: " if isinstance(grid, Cells) else ""
    support = coarse.support
    return (
        f"{name}{support.cells:,} cells, error {words.measured(support.mean_error, unit)} on "
        f"average, {support.better:,} better than a constant."
    )


def _month(made: Plan, facts: PublicFacts) -> str:
    daily = float(made.epsilon)
    month = f"{words.price(MONTH * daily)} (odds: {words.odds(MONTH * daily)})"
    if facts.unit == "user":
        return (
            f"published every day, {MONTH} such maps cost a user who is in all of them {month}; "
            f'with unit = "user-day" any one day of a user would stay at the price of one map.'
        )
    return (
        f"published every day, any one {facts.unit.removeprefix('user-')} of a user stays within "
        f"its price, but a user who is in {MONTH} such maps can lose {month} over all of them."
    )
