"""The table of mechanisms of one cell in `hexveil plan --compare`, and its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from hexveil.cli.output import formatting

if TYPE_CHECKING:
    from hexveil.planning.comparison.alternatives import MechanismRow

COLUMNS = ("Mechanism", "Predicted", "Worst case")
MAP_COLUMNS = ("Cell loss", "Gain")
PRIVATE_RANGES = (
    "AKMV, FixedQuantile, Levy and OptimizedQuantile find a range privately, to which every user "
    "of a cell is exposed in full: exact accounting gains nothing for them on many cells."
)


def show(rows: list[MechanismRow], unit: str, *, one_cell_each: bool) -> None:
    """Print the mechanisms as a table.

    Parameters
    ----------
    rows : list of MechanismRow
    unit : str
        Of values.
    one_cell_each : bool
        Whether no user is in two cells: then every cell's loss is epsilon itself.
    """
    names = COLUMNS if one_cell_each else COLUMNS + MAP_COLUMNS
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="left" if name == "Mechanism" else "right")
    for row in rows:
        table.add_row(*_cells(row)[: len(names)])
    typer.echo('\nEach cell by itself (method "per-cell") by every mechanism:')
    Console(width=formatting.terminal_width(), highlight=False, markup=False).print(table)
    troubles = [f"{row.mechanism} is not compared: {row.trouble}" for row in rows if row.trouble]
    for paragraph in (*troubles, _legend(unit, one_cell_each=one_cell_each)):
        typer.echo("\n".join(formatting.wrapped("", paragraph, indent=0)))


def _cells(row: MechanismRow) -> list[str]:
    if row.cell_epsilon is None or row.gain is None:
        return [row.mechanism, *["-"] * len(COLUMNS[1:] + MAP_COLUMNS)]
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
