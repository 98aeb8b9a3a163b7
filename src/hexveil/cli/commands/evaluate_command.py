"""`hexveil evaluate`: comparison of mechanisms on one cell, by simulation.

On values of the records the result is private: every output says so, and no guarantee covers it.
"""

from __future__ import annotations

import io
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.csv
import typer

from hexveil.cli.cell_studies import CellStudy, studies_of
from hexveil.cli.output import formatting, progress_bar
from hexveil.config import Run
from hexveil.mechanisms import REGISTRY
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.simulation import error_chart, figure_style, private_study_output, value_distributions
from hexveil.simulation.evaluation import evaluate as compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from hexveil.cli import declarations

    Results = list[tuple[CellStudy, pa.Table]]

LEFT_OUT = ("plan", "release", "publish", "ledger")
"""Sections of a run without settings here: an evaluation books and releases nothing."""

COLUMN = 17
"""Width of a line, and of a column of the table, in characters."""

_PATH = {"resolve_path": True}  # the command stands in the run file's folder when it is read


def evaluate(run: Run, options: declarations.EvaluateOptions) -> None:
    """Compare mechanisms on one cell by simulation; nothing is released or spent."""
    if options.out is not None:
        # Before the simulation, which may take minutes.
        private_study_output.check_folder(options.out)
        figure_style.check_installed()
    settings: dict[str, Any] = {
        "mechanisms": [
            value_distributions.mechanism(text) for text in options.mechanism or REGISTRY
        ],
        "values": None if options.values is None else value_distributions.values(options.values),
        "trials": options.trials,
        "seed": options.seed,
    }
    studies = studies_of(run, options.epsilon, options.counts, options.cell, options.values)
    tables = []
    with progress_bar.progress_bar("Comparing") as tell:
        for number, study in enumerate(studies):
            settings["progress"] = partial(_tell_part, tell, number, len(studies))
            table = compare(epsilons=study.epsilons, **settings, **study.arguments)
            tables.append(study.with_totals(table))
    results = list(zip(studies, tables, strict=True))
    files = [] if options.out is None else write(results, options.out, options.values or "")
    if options.as_json:
        typer.echo(json.dumps(results_json(results, files), indent=2))
        return
    text = [*lines(tables[0], studies[0])]
    for study, table in results[1:]:
        text += ["", *lines(table, study)]
    typer.echo("\n".join([*text, *end_lines(tables[0], files)]))


def _tell_part(tell: Callable[[float], None], done: int, number: int, share: float) -> None:
    """Tell the completed share of all studies, from that of one."""
    tell((done + share) / number)


def write(results: Results, out: Path, simulated: str) -> list[Path]:
    """Write the table and the figure of each study, and return their files.

    Parameters
    ----------
    results : list of pairs of CellStudy and pyarrow.Table
    out : Path
    simulated : str
        Simulated values as the option has them; "" for those of the records.
    """
    prefixes = column_prefixes([study.column for study, _ in results])
    files: dict[str, bytes] = {}
    for study, table in results:
        stem = f"{prefixes[study.column]}-evaluate" if study.together else "evaluate"
        source = (
            f"simulated values {simulated}" if simulated else f"values of column {study.column}"
        )
        title = f"{study.cell}, {source}"
        files[f"{stem}.csv"] = _csv(table)
        pictures = error_chart.images(table, title=title, value_unit=study.value_unit)
        files |= {f"{stem}.{kind}": content for kind, content in pictures.items()}
    private = private_study_output.is_private(results[0][1])
    return private_study_output.write_files(out, files, private=private)


def _csv(table: pa.Table) -> bytes:
    """Return a table as CSV; a private one begins with the stamp, so that no copy loses it."""
    private = private_study_output.is_private(table)
    stamp = (
        f"# {private_study_output.STAMP} {private_study_output.NOT_COVERED}\n" if private else ""
    )
    text = io.BytesIO(stamp.encode())
    # Writing begins at the start otherwise, over the stamp.
    text.seek(0, io.SEEK_END)
    pyarrow.csv.write_csv(table, text)
    return text.getvalue()


def results_json(results: Results, files: list[Path]) -> dict[str, Any]:
    """Return the tables as JSON data; private ones say so in the first entry."""
    private = private_study_output.is_private(results[0][1])
    output: dict[str, Any] = (
        {"private": f"{private_study_output.STAMP} {private_study_output.NOT_COVERED}"}
        if private
        else {}
    )
    if results[0][0].together:
        output["columns"] = {study.column: table.to_pylist() for study, table in results}
    else:
        output["rows"] = results[0][1].to_pylist()
    return output | {"files": [str(path) for path in files]}


def lines(table: pa.Table, study: CellStudy) -> list[str]:
    """Return the table as text, a row per mechanism and a column per epsilon."""
    rows = table.to_pylist()
    cells = {(row["mechanism"], row["epsilon"]): _error(row) for row in rows}
    names = list(dict.fromkeys(name for name, _ in cells))
    losses = list(dict.fromkeys(loss for _, loss in cells))
    width = max(map(len, names)) + 2
    unit = f" in {study.value_unit}" if study.value_unit else ""
    output = [private_study_output.STAMP, ""] if private_study_output.is_private(table) else []
    if study.together:
        whole = ", ".join(formatting.number_text(epsilon) for epsilon in study.together)
        output += formatting.wrapped(
            "", f"{study.column}, at its part of epsilon {whole} for all value columns:", indent=0
        )
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
