"""`hexveil evaluate`: comparison of mechanisms on one cell, by simulation.

On values of the records the result is private: every output says so, and no guarantee covers it.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.csv
import typer

from hexveil.base.errors import InputError
from hexveil.cli import shared_steps
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting, progress_bar
from hexveil.config import Run, arguments
from hexveil.mechanisms import REGISTRY
from hexveil.simulation import error_chart, figure_style, mechanism_text, private_study_output
from hexveil.simulation.cell_counts import read_counts
from hexveil.simulation.cell_selection import select_cell_by_text, some_cells
from hexveil.simulation.evaluation import evaluate as compare

if TYPE_CHECKING:
    import pyarrow as pa

LEFT_OUT = ("plan", "release", "publish", "ledger")
"""Sections of a run that an evaluation does not use: it plans, books and releases nothing."""

EPSILONS = ("0.25", "0.5", "1", "2")
"""Default values of --epsilon."""

COLUMN = 17
"""Width of a line, and of a column of the table, in characters."""

_PATH = {"resolve_path": True}  # the command stands in the run file's folder when it is read
Counts = Annotated[
    Path | None,
    typer.Option(
        help="Samples per user: a .json list, or a .csv or .parquet column.",
        metavar="FILE",
        **_PATH,
    ),
]
CellName = Annotated[
    str | None,
    typer.Option(help="Cell of the records: name, number, or 'HEXAGON SLOT'.", metavar="TEXT"),
]
Simulated = Annotated[
    str | None,
    typer.Option(
        "--values",
        help="Simulated values instead of the records' own, for example normal:20,10.",
        metavar="KIND:NUMBER,...",
    ),
]
Chosen = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        help="Mechanism, for example 'Levy(gamma=0.2)'; repeatable. \\[default: all]",
        metavar="TEXT",
    ),
]
Losses = Annotated[
    list[str] | None,
    typer.Option(
        "--epsilon", help="Epsilons to compare, for example 0.5,1,2.", metavar="NUMBER,..."
    ),
]
Trials = Annotated[int, typer.Option(help="Simulated releases per mechanism.", metavar="NUMBER")]
Seed = Annotated[int, typer.Option(help="Seed of the simulation.", metavar="NUMBER")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for the table and the figure.", metavar="FOLDER", **_PATH),
]


def evaluate(  # noqa: PLR0913  the options of the command
    run: Run,
    *,
    counts: Counts = None,
    cell: CellName = None,
    values: Simulated = None,
    mechanism: Chosen = None,
    epsilon: Losses = None,
    trials: Trials = 10_000,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare mechanisms on one cell by simulation; nothing is released or spent.

    The cell comes from the records, or from a file of counts; a table with a user and a value
    column, without places or labels, is one cell. Values are simulated, or those of the records:
    then all output is PRIVATE.
    """
    if out is not None:
        # Before the simulation, which may take minutes.
        private_study_output.check_folder(out)
        figure_style.check_installed()
    study_arguments: dict[str, Any] = {
        "mechanisms": [mechanism_text.mechanism(text) for text in mechanism or REGISTRY],
        "epsilons": epsilons(run, epsilon),
        "values": None if values is None else mechanism_text.values(values),
        "trials": trials,
        "seed": seed,
    }
    cell_arguments, cell_name = (
        of_records(run, cell) if counts is None else of_file(run, counts, cell, values)
    )
    with progress_bar.progress_bar("Comparing") as tell:
        table = compare(**study_arguments, **cell_arguments, progress=tell)
    value_source = (
        f"simulated values {values}" if values else f"values of column {run.columns.value}"
    )
    files = [] if out is None else write(table, out, f"{cell_name}, {value_source}", run)
    if as_json:
        typer.echo(json.dumps(table_json(table, files), indent=2))
        return
    typer.echo("\n".join([*lines(table, arguments.value_unit_of(run)), *end_lines(table, files)]))


def epsilons(run: Run, option_texts: list[str] | None) -> list[str]:
    """Return the epsilons to compare: the options, else the run's, else the default."""
    if option_texts is None:
        return list(EPSILONS) if run.plan.epsilon is None else [run.plan.epsilon]
    return [number.strip() for text in option_texts for number in text.split(",") if number.strip()]


def of_records(run: Run, cell: str | None) -> tuple[dict[str, Any], str]:
    """Return the records and the cell to compare on, and the cell's name.

    Records without places or labels are one cell.
    """
    if not run.source:
        raise InputError("name counts (--counts), or records and one of their cells (--cell).")
    data = shared_steps.read_cells(run)
    names = data.public.cells.names()
    if cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    number = select_cell_by_text(data.public.cells, cell)
    return {"data": data, "cell": number}, f"Cell {names[number]}"


def of_file(
    run: Run, counts: Path, cell: str | None, values: str | None
) -> tuple[dict[str, Any], str]:
    """Return counts from a file with the bounds, and the file's name; refuse records as well."""
    for name, conflicting in (("records", run.source), ("--cell", cell)):
        if conflicting:
            raise InputError(
                f"--counts and {name} cannot be combined: use the counts of one of them."
            )
    if values is None:
        raise InputError("--counts needs --values: a file of counts has no values of its own.")
    if run.values.bounds is None:
        raise InputError(
            "--counts needs --bounds: the smallest and the largest value, for example 0,65."
        )
    return {"counts": read_counts(counts), "bounds": run.values.bounds}, f"Counts of {counts.name}"


def write(table: pa.Table, out: Path, title: str, run: Run) -> list[Path]:
    """Write the table and the figure, and return their files."""
    private = private_study_output.is_private(table)
    # The stamp is the first line, so that no copy of the table loses it.
    text = io.BytesIO(
        f"# {private_study_output.STAMP} {private_study_output.NOT_COVERED}\n".encode()
        if private
        else b""
    )
    # Writing begins at the start otherwise, over the stamp.
    text.seek(0, io.SEEK_END)
    pyarrow.csv.write_csv(table, text)
    files = {"evaluate.csv": text.getvalue()}
    pictures = error_chart.images(table, title=title, value_unit=arguments.value_unit_of(run))
    files |= {f"evaluate.{kind}": content for kind, content in pictures.items()}
    return private_study_output.write_files(out, files, private=private)


def table_json(table: pa.Table, files: list[Path]) -> dict[str, Any]:
    """Return the table as JSON data; a private one says so in its first entry."""
    private = private_study_output.is_private(table)
    stamp = (
        {"private": f"{private_study_output.STAMP} {private_study_output.NOT_COVERED}"}
        if private
        else {}
    )
    return stamp | {"rows": table.to_pylist(), "files": [str(path) for path in files]}


def lines(table: pa.Table, value_unit: str) -> list[str]:
    """Return the table as text, a row per mechanism and a column per epsilon."""
    rows = table.to_pylist()
    cells = {(row["mechanism"], row["epsilon"]): _error(row) for row in rows}
    names = list(dict.fromkeys(name for name, _ in cells))
    losses = list(dict.fromkeys(loss for _, loss in cells))
    width = max(map(len, names)) + 2
    unit = f" in {value_unit}" if value_unit else ""
    output = [private_study_output.STAMP, ""] if private_study_output.is_private(table) else []
    output.append(f"Mean absolute error{unit} ± its standard error, {rows[0]['trials']:,} trials:")
    across = max(1, (formatting.terminal_width() - width) // COLUMN)
    for start in range(0, len(losses), across):
        block = losses[start : start + across]
        output += ["", f"{'Epsilon':<{width}}" + "".join(f"{loss:>{COLUMN}g}" for loss in block)]
        output += [
            f"{n:<{width}}" + "".join(f"{cells[n, e]:>{COLUMN}}" for e in block) for n in names
        ]
    return output


def _error(row: dict[str, Any]) -> str:
    return f"{formatting.number_text(row['mae'])} ± {formatting.number_text(row['standard_error'])}"


def end_lines(table: pa.Table, files: list[Path]) -> list[str]:
    """Return the limits of use of private results, and the written files."""
    output = (
        ["", *formatting.wrapped("Guarantee", private_study_output.NOT_COVERED)]
        if private_study_output.is_private(table)
        else []
    )
    if files:
        names = ", ".join(path.name for path in files)
        output += formatting.wrapped("Written", f"{files[0].parent}: {names}")
    return output
