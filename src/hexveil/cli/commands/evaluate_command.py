"""`hexveil evaluate`: comparison of mechanisms on one cell, by simulation.

On values of the records the result is private: every output says so, and no guarantee covers it.
Compared is one cell of records or of counts. Of several value columns each is compared at its part
of a release's ε; plans of whole releases are made for that division alone: by predicted errors and
weights, or by what the target errors of each column cost.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from hexveil.base.errors import InputError
from hexveil.base.work_share import parts_of_work, tell_share
from hexveil.cli import shared_steps
from hexveil.cli.output import evaluation_chart, formatting
from hexveil.config import (
    Run,
    arguments,
)
from hexveil.config.loading import LIMITS
from hexveil.mechanisms import REGISTRY
from hexveil.publishing.columns.column_table import column_prefixes
from hexveil.records.progress import show_progress
from hexveil.report import figure_style
from hexveil.simulation import own_cells, value_distributions
from hexveil.simulation.cell_evaluation import evaluate as compare
from hexveil.simulation.own_cells import (
    read_counts,
    select_cell,
    some_cells,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from hexveil.cli import declarations
    from hexveil.planning.plan import Plan
    from hexveil.records.column_datasets import ColumnDatasets

    Results = list[tuple["CellStudy", pa.Table]]


COMPARING = "Comparing"
"""Name of this work, of which parts are told."""
COLUMN = 17
"""Width of a line, and of a column of the table, in characters."""


def evaluate(run: Run, options: declarations.EvaluateOptions) -> None:
    """Compare mechanisms on one cell by simulation; nothing is released or spent."""
    if options.out is not None:
        # Before the simulation, which may take minutes.
        own_cells.check_folder(options.out)
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
    with show_progress(COMPARING):
        for study in parts_of_work(COMPARING, studies):
            settings["progress"] = partial(tell_share, COMPARING)
            table = compare(epsilons=study.epsilons, **settings, **study.arguments)
            tables.append(study.with_totals(table))
    results = list(zip(studies, tables, strict=True))
    files = [] if options.out is None else write(results, options.out, options.values or "")
    formatting.show(
        lambda: [
            *[line for study, table in results for line in ("", *lines(table, study))][1:],
            *end_lines(tables[0], files),
        ],
        lambda: results_json(results, files),
        as_json=options.as_json,
    )


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
        pictures = evaluation_chart.chart_images(table, title=title, value_unit=study.value_unit)
        files |= {f"{stem}.{kind}": content for kind, content in pictures.items()}
    private = own_cells.is_private(results[0][1])
    return own_cells.write_files(out, files, private=private)


def _csv(table: pa.Table) -> bytes:
    """Return a table as CSV; a private one begins with the stamp, so that no copy loses it."""
    private = own_cells.is_private(table)
    stamp = f"# {own_cells.STAMP} {own_cells.NOT_COVERED}\n" if private else ""
    text = io.BytesIO(stamp.encode())
    # Writing begins at the start otherwise, over the stamp.
    text.seek(0, io.SEEK_END)
    pyarrow.csv.write_csv(table, text)
    return text.getvalue()


def results_json(results: Results, files: list[Path]) -> dict[str, Any]:
    """Return the tables as JSON data; private ones say so in the first entry."""
    private = own_cells.is_private(results[0][1])
    output: dict[str, Any] = (
        {"private": f"{own_cells.STAMP} {own_cells.NOT_COVERED}"} if private else {}
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
    output = [own_cells.STAMP, ""] if own_cells.is_private(table) else []
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
        ["", *formatting.wrapped("Guarantee", own_cells.NOT_COVERED)]
        if own_cells.is_private(table)
        else []
    )
    if files:
        names = ", ".join(path.name for path in files)
        output += formatting.wrapped("Written", f"{files[0].parent}: {names}")
    return output


EPSILONS = ("0.25", "0.5", "1", "2")
"""Default values of --epsilon."""

TOGETHER = "epsilon_together"
"""Column of a table: ε of all value columns, of which `epsilon` is one column's part."""


@dataclass(frozen=True, eq=False)
class CellStudy:
    """One cell on which mechanisms are compared.

    Attributes
    ----------
    arguments : dict
        Counts, or records and cell, as `evaluate` takes them. PRIVATE where it has records.
    cell : str
        What is compared, in words. Public.
    epsilons : sequence of numbers
    value_unit : str
    column : str
        Value column; "" of counts without records.
    together : tuple of float
        ε of all value columns at each of `epsilons`; empty of a single one.
    """

    arguments: dict[str, Any] = field(repr=False)
    cell: str
    epsilons: Sequence[str | Fraction]
    value_unit: str
    column: str = ""
    together: tuple[float, ...] = ()

    def with_totals(self, table: pa.Table) -> pa.Table:
        """Return a table of the study with the ε of all value columns beside the column's part."""
        if not self.together:
            return table
        # Rows are by mechanism, and by ε within each.
        repeats = table.num_rows // len(self.together)
        return table.append_column(TOGETHER, pa.array(self.together * repeats, pa.float64()))


def studies_of(
    run: Run,
    option_texts: list[str] | None,
    counts: Path | None,
    cell: str | None,
    values: str | None,
) -> list[CellStudy]:
    """Return the cells to compare: a cell of each value column, or the counts of a file."""
    if counts is None and len(arguments.value_columns_of(run)) > 1:
        _check_source(run)
        # Target errors of the run divide the loss where no epsilon is named.
        by_targets = option_texts is None and run.plan.target_error is not None
        return studies_of_columns(run, cell, None if by_targets else epsilons(run, option_texts))
    study_arguments, cell_name = (
        of_records(run, cell) if counts is None else of_file(run, counts, cell, values)
    )
    column = str(run.columns.value or "")
    losses, unit = epsilons(run, option_texts), arguments.value_unit_of(run)
    return [CellStudy(study_arguments, cell_name, losses, unit, column)]


def epsilons(run: Run, option_texts: list[str] | None) -> list[str]:
    """Return the epsilons to compare: the options, else the run's, else the default."""
    if option_texts is None:
        return list(EPSILONS) if run.plan.epsilon is None else [run.plan.epsilon]
    return [number.strip() for text in option_texts for number in text.split(",") if number.strip()]


def of_records(run: Run, cell: str | None) -> tuple[dict[str, Any], str]:
    """Return the records and the cell to compare on, and the cell's name.

    Records without places or labels are one cell.
    """
    _check_source(run)
    data = shared_steps.read_cells(run)
    names = data.public.cells.names()
    if cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    number = select_cell(data.public.cells, cell)
    return {"data": data, "cell": number}, f"Cell {names[number]}"


def _check_source(run: Run) -> None:
    """Refuse a study without records or counts."""
    if not run.source:
        raise InputError("name counts (--counts), or records and one of their cells (--cell).")


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


def studies_of_columns(
    run: Run, cell: str | None, epsilons: Sequence[str] | None
) -> list[CellStudy]:
    """Return the study of each value column, at the parts of ε that a release would have.

    Parameters
    ----------
    run : Run
    cell : str or None
        Name or number of the cell, of which each column has to have records.
    epsilons : sequence of str or None
        Of all value columns together; None for the target errors of the run.

    Raises
    ------
    InputError
        If a column lacks the cell, or the run has a δ.
    """
    if run.privacy.delta:
        raise InputError(
            "evaluate compares pure mechanisms, and with a delta a release divides squares of mu; "
            "leave delta out, or name one value column."
        )
    data = shared_steps.read_cells_of_columns(run)
    numbers = _cells_of_columns(data, cell)
    plans = [
        shared_steps.plan_run(one, data.public)
        for one in ([run] if epsilons is None else [_at_epsilon(run, loss) for loss in epsilons])
    ]
    return [
        CellStudy(
            arguments={"data": data.datasets[column], "cell": number},
            cell=f"Cell {data.public.columns[column].cells.names()[number]}",
            epsilons=[_part(plan, column) for plan in plans],
            value_unit=data.public.columns[column].value_unit,
            column=column,
            together=tuple(float(plan.epsilon_limit) for plan in plans),
        )
        for column, number in numbers.items()
    ]


def _cells_of_columns(data: ColumnDatasets, cell: str | None) -> Mapping[str, int]:
    """Return the number of the cell in each value column: by its name, which all share."""
    leading, *_ = data.public.columns.values()
    names = leading.cells.names()
    if cell is None and len(names) > 1:
        raise InputError(f"--cell is needed: {some_cells(names)}.")
    name = names[select_cell(leading.cells, cell)]
    numbers = {}
    for column, facts in data.public.columns.items():
        if name not in facts.cells.names():
            raise InputError(
                f"{column} has no cell {name!r}, so that it cannot be compared there; "
                f"{some_cells(facts.cells.names())}, or leave the column out."
            )
        numbers[column] = select_cell(facts.cells, name)
    return numbers


def _part(plan: Plan, column: str) -> Fraction:
    """Return the ε of one column in a release of all."""
    epsilon = plan.components[column].requested_epsilon
    if not epsilon:
        raise InputError(
            f"{column}: constants meet its target errors, so that there is nothing to compare; "
            "name --epsilon."
        )
    return epsilon


def _at_epsilon(run: Run, epsilon: str) -> Run:
    """Return the run within an ε, in place of its own limit."""
    fields = run.plan.explicit_fields()
    others = {name: fields[name] for name in fields if name not in LIMITS}
    return run.with_section("plan", others | {"epsilon": epsilon})
