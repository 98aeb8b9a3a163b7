"""The table of `hexveil plan --compare`: a line per method, and a legend.

The table of mechanisms of one cell in `hexveil plan --compare`, and its legend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hexveil.cli.output import formatting

if TYPE_CHECKING:
    from hexveil.planning.alternatives import MechanismRow
    from hexveil.planning.method_comparison import ComparisonRow
    from hexveil.planning.moment_part import MomentPart


COLUMNS = (
    "Method", "Price", "Naive", "Worst", "Average", "Median", "Reduced", "Useful", "Lower bound",
)  # fmt: skip
CERTIFIED = {"loss": "price", "max error": "worst", "mean error": "average"}


def measure(plan: MomentPart, unit: str) -> str:
    """Return the unit of measure of the compared errors as text."""
    names = list(plan.error_models)
    if len(names) == 1:
        name = formatting.unit_of(names[0], unit)
        error = f"planning error{' in ' if name else ''}{name}"
        predicted = plan.allocation.clipping.has_stages
        how = f" (for {plan.mechanism} a prediction, for the others a worst case)"
        return error + (how if predicted else "")
    over = "larger" if plan.request.objective == "max" else "average"
    return f"the {over} of both planning errors, each relative to the largest error of a constant"


def show(lines: list[ComparisonRow], error: str) -> None:
    """Print the methods as a table; `error` describes the errors."""
    meaning = (
        "Naive: the price of the same noise if cells are counted. Worst, average, median over "
        f"cells: {error}. Reduced: users whose contribution is reduced. Useful: cells expected to "
        "beat a single number for all. Lower bound: no plan of the joint plan's class goes below "
        "it; with the gap to this plan."
    )
    _show("This request by every method:", "Method", lines, meaning)


def show_ranges(lines: list[ComparisonRow]) -> None:
    """Print the clipping ranges as a table; nothing if there are none to compare."""
    meaning = (
        "Errors in private ranges are predictions from counts and a stated prior; those in the "
        "bounds are worst cases."
    )
    if lines:
        _show("This request in every clipping range:", "Clipping range", lines, meaning)


def _show(title: str, head: str, lines: list[ComparisonRow], *legend: str) -> None:
    """Print a line per row below a title, then which are not possible, and the legend."""
    typer.echo(f"\n{title}")
    heads = (head, *COLUMNS[1:])
    formatting.print_table(heads, map(_cells, lines), (head, "Lower bound"))
    troubles = [f"{_name(line)} is not possible: {line.trouble}" for line in lines if line.trouble]
    formatting.print_paragraphs(*troubles, *legend)


def _name(line: ComparisonRow) -> str:
    """Return the name of a row: the method, or a distinguishing option."""
    if line.clipping_range is not None:
        return line.clipping_range
    return f"{line.method}, {line.objective}" if line.method == "joint" else line.method


def _cells(line: ComparisonRow) -> list[str]:
    name = _name(line)
    figures = (line.epsilon, line.claimed, line.worst, line.average, line.median)
    if line.trouble is not None:
        return [name, *["-"] * (len(COLUMNS) - 2), "not possible"]
    return [
        name,
        *(formatting.price(f or 0.0) for f in figures[:2]),
        *(formatting.number_text(f or 0.0) for f in figures[2:]),
        f"{line.shrunk:,}",
        f"{line.better:,}",
        _certificate(line),
    ]


def _certificate(line: ComparisonRow) -> str:
    """Return the lower bound and the gap to it."""
    if line.gap is None or line.lower_bound is None:
        return "-"
    quantity = CERTIFIED[str(line.certifies)]
    bound, gap = formatting.at_least(line.lower_bound), formatting.price(100 * line.gap)
    return f"{quantity} {bound} (gap {gap}%)"


MECHANISM_COLUMNS = ("Mechanism", "Predicted", "Worst case")
MAP_COLUMNS = ("Cell loss", "Gain")
PRIVATE_RANGES = (
    "AKMV, FixedQuantile, Levy and OptimizedQuantile find a range privately, to which every user "
    "of a cell is exposed in full: exact accounting gains nothing for them on many cells."
)


def show_mechanisms(rows: list[MechanismRow], unit: str, *, one_cell_each: bool) -> None:
    """Print the mechanisms as a table.

    Parameters
    ----------
    rows : list of MechanismRow
    unit : str
        Of values.
    one_cell_each : bool
        Whether no user is in two cells: then every cell's loss is epsilon itself.
    """
    names = MECHANISM_COLUMNS if one_cell_each else MECHANISM_COLUMNS + MAP_COLUMNS
    typer.echo('\nEach cell by itself (method "per-cell") by every mechanism:')
    cells = [_mechanism_cells(row)[: len(names)] for row in rows]
    formatting.print_table(names, cells, ("Mechanism",))
    troubles = [f"{row.mechanism} is not compared: {row.trouble}" for row in rows if row.trouble]
    formatting.print_paragraphs(*troubles, _legend(unit, one_cell_each=one_cell_each))


def _mechanism_cells(row: MechanismRow) -> list[str]:
    if row.cell_epsilon is None or row.gain is None:
        return [row.mechanism, *["-"] * len(MECHANISM_COLUMNS[1:] + MAP_COLUMNS)]
    errors = (row.predicted_error, row.proven_error)
    # Rounding must not show a loss where nothing is lost.
    gain = max(round(100 * (row.gain - 1)), 0)
    return [
        row.mechanism,
        *("-" if error is None else formatting.number_text(error) for error in errors),
        formatting.price(row.cell_epsilon),
        f"{gain}%",
    ]


def _legend(unit: str, *, one_cell_each: bool) -> str:
    measure = f" in {unit}" if unit else ""
    text = (
        f"Predicted: mean absolute error{measure}, on average over cells, if users' values are "
        "uniform over an unknown range within the bounds. Worst case: bias plus expected noise "
        'whatever the values are, proven; "-" where no bound below the width of the bounds is '
        "proven. Both read counts and bounds alone, so a choice by them costs nothing."
    )
    if one_cell_each:
        return text
    return (
        f"{text} Gain: by how much exact accounting raises a cell's loss above an equal share of "
        f"epsilon. {PRIVATE_RANGES}"
    )
