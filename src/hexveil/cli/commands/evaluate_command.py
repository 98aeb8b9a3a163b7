"""`hexveil evaluate`: comparison of mechanisms on one cell, by simulation.

On values of the records the result is private: every output says so, and no guarantee covers it.
Compared is one cell of records or of counts, of one value column.
"""

from __future__ import annotations

import io
import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from hexveil import evaluation
from hexveil.base.errors import InputError
from hexveil.base.work_share import tell_share
from hexveil.cli import formatting, shared_steps
from hexveil.config import Run, arguments
from hexveil.mechanisms import REGISTRY
from hexveil.records.progress import show_progress
from hexveil.report import figure_style
from hexveil.simulation import own_cells
from hexveil.simulation.own_cells import read_counts, select_cell, some_cells

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hexveil.cli import declarations
    from hexveil.cli.formatting import Row


COMPARING = "Comparing"
"""Name of this work, of which parts are told."""
COLUMN = 17
"""Width of a line, and of a column of the table, in characters."""
EPSILONS = ("0.25", "0.5", "1", "2")
"""Default values of --epsilon."""
BAR = 1.96
"""Half an error bar, in standard errors: 95 percent."""
FEW = 7
"""Values of epsilon up to which each has its own tick."""


def evaluate(run: Run, options: declarations.EvaluateOptions) -> None:
    """Compare mechanisms on one cell by simulation; nothing is released or spent."""
    if options.out is not None:
        # Before the simulation, which may take minutes.
        own_cells.check_folder(options.out)
        figure_style.check_installed()
    values = None if options.values is None else evaluation.values(options.values)
    mechanisms = [evaluation.mechanism(text) for text in options.mechanism or REGISTRY]
    # Counts, or records and a cell of them: PRIVATE then.
    studied, cell = of_records(run, options) if options.counts is None else of_file(run, options)
    with show_progress(COMPARING):
        table = evaluation.evaluate(
            mechanisms=mechanisms,
            values=values,
            trials=options.trials,
            seed=options.seed,
            epsilons=epsilons(run, options.epsilon),
            progress=partial(tell_share, COMPARING),
            **studied,
        )
    unit, files = arguments.value_unit_of(run), []
    if options.out is not None:
        column = f"values of column {run.columns.value}"
        source = f"simulated values {options.values}" if options.values else column
        files = write(table, options.out, f"{cell}, {source}", unit)
    formatting.show(
        lambda: [*lines(table, unit), *end_rows(table, files)],
        lambda: results_json(table, files),
        as_json=options.as_json,
    )


def epsilons(run: Run, option_texts: Sequence[str]) -> list[str]:
    """Return the epsilons to compare: the options, else the run's, else the default."""
    if not option_texts:
        return list(EPSILONS) if run.plan.epsilon is None else [run.plan.epsilon]
    return [number.strip() for text in option_texts for number in text.split(",") if number.strip()]


def of_records(run: Run, options: declarations.EvaluateOptions) -> tuple[dict[str, Any], str]:
    """Return the records and the cell to compare on, and the cell's name.

    Records without places or labels are one cell.
    """
    if not run.source:
        raise InputError("name counts (--counts), or records and one of their cells (--cell).")
    data = shared_steps.read_cells(run)
    names = data.public.cells.names()
    if options.cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    number = select_cell(data.public.cells, options.cell)
    return {"data": data, "cell": number}, f"Cell {names[number]}"


def of_file(run: Run, options: declarations.EvaluateOptions) -> tuple[dict[str, Any], str]:
    """Return counts from a file with the bounds, and the file's name; refuse records as well."""
    assert options.counts is not None  # noqa: S101  asked
    for name, conflicting in (("records", run.source), ("--cell", options.cell)):
        if conflicting:
            raise InputError(
                f"--counts and {name} cannot be combined: use the counts of one of them."
            )
    if options.values is None:
        raise InputError("--counts needs --values: a file of counts has no values of its own.")
    if run.values.bounds is None:
        raise InputError(
            "--counts needs --bounds: the smallest and the largest value, for example 0,65."
        )
    counts = read_counts(options.counts)
    return {"counts": counts, "bounds": run.values.bounds}, f"Counts of {options.counts.name}"


def write(table: pa.Table, out: Path, title: str, value_unit: str) -> list[Path]:
    """Write the table and its figure, and return their files."""
    private = own_cells.is_private(table)
    stamp = f"# {own_cells.STAMP} {own_cells.NOT_COVERED}\n" if private else ""
    # A private table begins with the stamp, so that no copy loses it.
    text = io.BytesIO(stamp.encode())
    text.seek(0, io.SEEK_END)
    pyarrow.csv.write_csv(table, text)
    pictures = chart_images(table, title=title, value_unit=value_unit)
    files = {"csv": text.getvalue()} | pictures
    named = {f"evaluate.{kind}": content for kind, content in files.items()}
    return own_cells.write_files(out, named, private=private)


def results_json(table: pa.Table, files: list[Path]) -> dict[str, Any]:
    """Return the table as JSON data; a private one says so in the first entry."""
    stamp = f"{own_cells.STAMP} {own_cells.NOT_COVERED}"
    head = {"private": stamp} if own_cells.is_private(table) else {}
    return head | {"rows": table.to_pylist(), "files": [str(path) for path in files]}


def lines(table: pa.Table, value_unit: str) -> list[str]:
    """Return the table as text, a row per mechanism and a column per epsilon."""
    rows = table.to_pylist()
    cells = {(row["mechanism"], row["epsilon"]): _error(row) for row in rows}
    names = list(dict.fromkeys(name for name, _ in cells))
    losses = list(dict.fromkeys(loss for _, loss in cells))
    width = max(map(len, names)) + 2
    unit = f" in {value_unit}" if value_unit else ""
    output = [own_cells.STAMP, ""] if own_cells.is_private(table) else []
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


def end_rows(table: pa.Table, files: list[Path]) -> list[Row]:
    """Return the limits of use of private results, and the written files."""
    rows: list[Row] = ["", ("Guarantee", own_cells.NOT_COVERED)] * own_cells.is_private(table)
    names = ", ".join(path.name for path in files)
    return [*rows, ("Written", f"{files[0].parent}: {names}" if files else None)]


# ---- the figure: error against epsilon, a line per mechanism, with error bars ----


def chart_images(table: pa.Table, *, title: str, value_unit: str = "") -> dict[str, bytes]:
    """Return the figure of an evaluation as "png" and "svg"; of a private one it says so in red."""
    figure_style.check_installed()
    with figure_style.style():
        return figure_style.images(error_chart(table, title=title, value_unit=value_unit))


def error_chart(table: pa.Table, *, title: str, value_unit: str = "") -> Figure:
    """Return the figure: a line over epsilon for each mechanism, the largest error first."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, loaded where it draws

    rows = table.to_pylist()
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: float(row["epsilon"])):
        by_name.setdefault(row["mechanism"], []).append(row)
    # In the order in which lines lie above each other, so that the legend reads like the figure.
    lines = sorted(by_name.items(), key=lambda line: -sum(row["mae"] for row in line[1]))
    # Names stand beside the axes: the longest decides how much room they need.
    width = 6.4 + figure_style.LETTER * max(map(len, by_name))
    with figure_style.style():
        figure = Figure(figsize=(width, max(4.2, 1.8 + 0.25 * len(lines))), layout="constrained")
        axes = figure.subplots()
        figure_style.plain_axes(axes)
        for (name, points), look in zip(lines, figure_style.looks(), strict=False):
            axes.errorbar(
                [row["epsilon"] for row in points], [row["mae"] for row in points],
                yerr=[BAR * row["standard_error"] for row in points], label=name,
                color=look.colour, marker=look.marker, linestyle=look.dashes,
                markersize=5, markerfacecolor="white", linewidth=1.3, capsize=2, elinewidth=0.8,
            )  # fmt: skip
        losses = sorted({row["epsilon"] for row in rows})
        _scale(axes, "x", losses)
        _scale(axes, "y", [row["mae"] for row in rows])
        if len(losses) <= FEW:
            axes.set_xticks(losses, [f"{loss:g}" for loss in losses])
            axes.set_xticks([], minor=True)
        axes.set_xlabel("Epsilon (privacy loss); bars: 95% interval of the simulation")
        axes.set_ylabel("Mean absolute error" + (f" ({value_unit})" if value_unit else ""))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=4)
        axes.set_title(textwrap.fill(title, 64), loc="left", fontsize="medium")
        if own_cells.is_private(table):
            stamp = own_cells.STAMP
            figure.suptitle(stamp, color=figure_style.RED, fontweight="bold", x=0.01, ha="left")
    return figure


def _scale(axes: Axes, side: str, numbers: list[float]) -> None:
    """Make an axis logarithmic where its numbers span more than a factor of three."""
    if 0 < 3 * min(numbers) < max(numbers):
        figure_style.logarithmic(axes, side)
