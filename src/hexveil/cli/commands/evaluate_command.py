"""`hexveil evaluate`: comparison of mechanisms on one cell, by simulation.

On values of the records the result is private: every output says so, and no guarantee covers it.
"""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.csv
import typer

from hexveil.cli.cell_studies import CellStudy, studies_of
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting, progress_bar
from hexveil.config import Run  # noqa: TC001  the parser reads annotations
from hexveil.mechanisms import REGISTRY
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.simulation import error_chart, figure_style, private_study_output, value_distributions
from hexveil.simulation.evaluation import evaluate as compare

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    Results = list[tuple[CellStudy, pa.Table]]

LEFT_OUT = ("plan", "release", "publish", "ledger")
"""Sections of a run without options here: an evaluation books and releases nothing."""

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
    column, without places or labels, is one cell. Several value columns have a table each, at the
    parts of epsilon that a release would have. Values are simulated, or those of the records: then
    all output is PRIVATE.
    """
    if out is not None:
        # Before the simulation, which may take minutes.
        private_study_output.check_folder(out)
        figure_style.check_installed()
    options: dict[str, Any] = {
        "mechanisms": [value_distributions.mechanism(text) for text in mechanism or REGISTRY],
        "values": None if values is None else value_distributions.values(values),
        "trials": trials,
        "seed": seed,
    }
    studies = studies_of(run, epsilon, counts, cell, values)
    tables = []
    with progress_bar.progress_bar("Comparing") as tell:
        for number, study in enumerate(studies):
            options["progress"] = partial(_tell_part, tell, number, len(studies))
            table = compare(epsilons=study.epsilons, **options, **study.arguments)
            tables.append(study.with_totals(table))
    results = list(zip(studies, tables, strict=True))
    files = [] if out is None else write(results, out, values or "")
    if as_json:
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
